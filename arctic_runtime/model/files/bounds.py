"""Conditions that let a scan skip files and row groups that can't contain the column values looked up.

A condition is also true for other rows, so a join with the values themselves has to follow. Iceberg compares it with
the partitions and the bounds of files, Parquet with the bounds of row groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

_WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Bound:
    """The values that are looked up in a column: all of them, or only the least and the greatest if `is_range`.

    `values` are texts: dates are days, and timestamps are microseconds since 1970. If `or_null`, null is looked up as
    well; it may be the only value.
    """

    column: str
    kind: str
    values: tuple[str, ...]
    is_range: bool
    or_null: bool = False

    def build_condition(self, column: exp.Expr) -> exp.Expr:
        """Builds the SQL condition that the value of `column` is one of the values, or within the range."""
        conditions = [self._build_membership(column)] if self.values else []
        return exp.or_(*conditions, *([column.copy().is_(exp.null())] if self.or_null else []))

    def _build_membership(self, column: exp.Expr) -> exp.Expr:
        literals = [_build_literal(value, self.kind) for value in self.values]
        if not self.is_range:
            return exp.In(this=column, expressions=literals)
        least, greatest = literals
        return exp.Between(this=column, low=least, high=greatest)


def is_bounded(kind: str) -> bool:
    """Whether Spark, Iceberg and Parquet order values of a type equally; not so floats and texts with a collation."""
    return kind in (*_WHOLE, "string", "date", "timestamp") or kind.startswith("decimal(")


def build_bounds_condition(bounds: Iterable[Bound], table: str | None = None) -> exp.Expr:
    """Builds the SQL condition that all `bounds` hold, one for each column; it is true for all rows that are looked up.

    Column names are qualified with `table` if it is not None. Without bounds the condition is always true.
    """
    conditions = [bound.build_condition(exp.column(bound.column, table=table, quoted=True)) for bound in bounds]
    if len(conditions) < 2:
        return conditions[0] if conditions else exp.true()
    return exp.and_(*conditions)


def _build_literal(value: str, kind: str) -> exp.Expr:
    """Builds a literal that Spark reads as the same value for any characters and in any session time zone."""
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
