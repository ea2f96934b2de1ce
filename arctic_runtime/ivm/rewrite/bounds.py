"""Where rows can be that are looked for by their values: conditions by which a scan leaves out files without a look.

They let through more than is looked for, so a join with the values themselves has to follow. Iceberg compares them
with the partitions and the bounds of files, Parquet with those of row groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction, equalities, plain
from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import (
    Filter,
    Given,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    columns,
    map_children,
    walk,
)

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

    def holds(self, column: exp.Expr) -> exp.Expr:
        """The condition on a column that it can have one of the values."""
        held = [self._among(column)] if self.values else []
        return exp.or_(*held, *([column.copy().is_(exp.null())] if self.or_null else []))

    def _among(self, column: exp.Expr) -> exp.Expr:
        literals = [_literal(value, self.kind) for value in self.values]
        if not self.is_range:
            return exp.In(this=column, expressions=literals)
        least, greatest = literals
        return exp.Between(this=column, low=least, high=greatest)


def is_bounded(kind: str) -> bool:
    """Whether values of a type have an order that is the same everywhere: not floats, nor texts with a collation."""
    return kind in (*_WHOLE, "string", "date", "timestamp") or kind.startswith("decimal(")


def condition(bounds: Iterable[Bound], table: str | None = None) -> exp.Expr:
    """True for all rows that are looked for; columns are those of `table`, if it is named."""
    held = [bound.holds(exp.column(bound.column, table=table, quoted=True)) for bound in bounds]
    return conjunction(held) or exp.true()


def joined(node: Node) -> frozenset[str]:
    """The columns by which rows of a tree find their partners."""
    found: set[str] = set()
    for part in walk(node):
        if isinstance(part, (Join, SemiJoin)):
            pairs = equalities(part.on, columns(part.left), columns(part.right))
            found.update(name for pair in pairs for name in (pair.left, pair.right))
    return frozenset(found)


def narrowed(node: Node, given: str, bounds: Sequence[Bound]) -> Node:
    """The same rows where the sources of a restriction to the rows `given`, whose columns have these bounds, are
    read no further than these rows can be.
    """
    below = map_children(node, lambda child: narrowed(child, given, bounds))
    if not isinstance(below, SemiJoin) or below.kind != "semi" or not isinstance(below.left, Scan):
        return below
    asked = _columns_of(below.right, given)
    pairs = equalities(below.on, columns(below.left), columns(below.right))
    held = [
        bound.holds(column(pair.left))
        for pair in pairs
        for bound in bounds
        if pair.same and asked.get(pair.right) == bound.column
    ]
    where = conjunction(held)
    return replace(below, left=Filter(below.left, where)) if where is not None else below


def _columns_of(node: Node, given: str) -> dict[str, str]:
    """The columns of a tree that are those of the given rows under other names; none if it reads anything else."""
    match node:
        case Given(name=name, names=names) if name == given:
            return {name: name for name in names}
        case Project(child=child, expressions=expressions):
            below = _columns_of(child, given)
            return {name: below[own] for name, own in plain(expressions).items() if own in below}
        case _:
            return {}


def _literal(value: str, kind: str) -> exp.Expr:
    """A value as Spark reads it back, whatever it holds and whatever the session's time zone is."""
    make = _LITERALS.get(kind)
    return make(value) if make else exp.cast(exp.Literal.string(value), kind, dialect="spark")


def _text(value: str) -> exp.Expr:
    return exp.cast(exp.HexString(this=value.encode().hex()), "string", dialect="spark")


def _since_1970(function: str) -> Callable[[str], exp.Expr]:
    return lambda value: exp.Anonymous(this=function, expressions=[exp.Literal.number(int(value))])


_LITERALS: dict[str, Callable[[str], exp.Expr]] = {
    "string": _text,
    "date": _since_1970("date_from_unix_date"),
    "timestamp": _since_1970("timestamp_micros"),
}
