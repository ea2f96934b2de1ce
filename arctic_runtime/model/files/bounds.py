"""Bounds of values: which values of a column rows can have that are looked up, as a condition for scans.

A condition lets through more rows than are looked up, so a join with the values themselves has to follow. Iceberg
compares it with the partitions and the bounds of files, Parquet with those of row groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

_WHOLE = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Bound:
    """The values that are looked for in a column: each of them, or, for a range, the least and the greatest.

    They are written as texts: dates as days and timestamps as microseconds since 1970. `or_null` if null is one too;
    it may be the only one.
    """

    column: str
    kind: str
    values: tuple[str, ...]
    is_range: bool
    or_null: bool = False

    def build_condition(self, column: exp.Expr) -> exp.Expr:
        """The condition on a column that it can have one of the values."""
        conditions = [self._build_membership(column)] if self.values else []
        return exp.or_(*conditions, *([column.copy().is_(exp.null())] if self.or_null else []))

    def _build_membership(self, column: exp.Expr) -> exp.Expr:
        literals = [_build_literal(value, self.kind) for value in self.values]
        if not self.is_range:
            return exp.In(this=column, expressions=literals)
        least, greatest = literals
        return exp.Between(this=column, low=least, high=greatest)


def is_bounded(kind: str) -> bool:
    """Whether values of a type have an order that is the same everywhere: not floats, nor texts with a collation."""
    return kind in (*_WHOLE, "string", "date", "timestamp") or kind.startswith("decimal(")


def build_bounds_condition(bounds: Iterable[Bound], table: str | None = None) -> exp.Expr:
    """True for all rows that are looked for; columns are those of `table`, if it is named."""
    conditions = [bound.build_condition(exp.column(bound.column, table=table, quoted=True)) for bound in bounds]
    if len(conditions) < 2:
        return conditions[0] if conditions else exp.true()
    return exp.and_(*conditions)


def _build_literal(value: str, kind: str) -> exp.Expr:
    """A value as Spark reads it back, whatever it holds and whatever the session's time zone is."""
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
