"""Filter conditions by which a scan for given column values skips files and row groups that can't contain them.

Iceberg compares the conditions with partitions and with the column bounds of files, Parquet with those of row groups. A
condition may also be true for rows without these values, so the scan must be followed by a join with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

_WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Bound:
    """Values that are looked up in a column: all of them, or only the least and the greatest if `is_range`.

    `kind` is the column's Spark type. `values` are texts: dates are days, and timestamps are microseconds since 1970.
    If `or_null`, null is looked up as well, even if `values` is empty.
    """

    column: str
    kind: str
    values: tuple[str, ...]
    is_range: bool
    or_null: bool = False

    def build_condition(self, column: exp.Expr) -> exp.Expr:
        """Builds the SQL condition that `column` has one of the values, or a value within the range."""
        conditions = [self._build_membership(column)] if self.values else []
        return exp.or_(*conditions, *([column.copy().is_(exp.null())] if self.or_null else []))

    def _build_membership(self, column: exp.Expr) -> exp.Expr:
        literals = [_build_literal(value, self.kind) for value in self.values]
        if not self.is_range:
            return exp.In(this=column, expressions=literals)
        least, greatest = literals
        return exp.Between(this=column, low=least, high=greatest)


def is_bounded(kind: str) -> bool:
    """Whether Spark, Iceberg and Parquet order values of a type equally; False for floats and collated texts."""
    return kind in (*_WHOLE, "string", "date", "timestamp") or kind.startswith("decimal(")


def build_bounds_condition(bounds: Iterable[Bound], table: str | None = None) -> exp.Expr:
    """Builds the SQL condition that connects the conditions of `bounds`, each for another column, by AND.

    Column names are qualified with `table` if it is not None. Without bounds the condition is always true.
    """
    conditions = [bound.build_condition(exp.column(bound.column, table=table, quoted=True)) for bound in bounds]
    if len(conditions) < 2:
        return conditions[0] if conditions else exp.true()
    return exp.and_(*conditions)


def _build_literal(value: str, kind: str) -> exp.Expr:
    """Builds an SQL literal that is safe for any characters and does not depend on the session's time zone."""
    make = _LITERALS.get(kind)
    return make(value) if make else exp.cast(exp.Literal.string(value), kind, dialect="spark")


def _build_text_literal(value: str) -> exp.Expr:
    return exp.cast(exp.HexString(this=value.encode().hex()), "string", dialect="spark")


def _build_epoch_reader(function: str) -> Callable[[str], exp.Expr]:
    return lambda value: exp.Anonymous(this=function, expressions=[exp.Literal.number(int(value))])


_LITERALS: dict[str, Callable[[str], exp.Expr]] = {
    "string": _build_text_literal,
    "date": _build_epoch_reader("date_from_unix_date"),
    "timestamp": _build_epoch_reader("timestamp_micros"),
}
