"""Restrictions of an operator's rows, translated to restrictions of its inputs, or to the branches that read a source.

A restriction of an input never drops a row that a restricted row of the result is computed from; where no such
restriction follows, the input is not restricted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import reads_clock
from arctic_runtime.ivm.algebra.conditions import Equality, split_conjuncts, substitute_columns
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    UnionAll,
    list_scans,
)
from arctic_runtime.ivm.rules.terms import rename_columns
from arctic_runtime.model.names import TableName

Values = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Restriction:
    """Rows for which `expressions` together have one of the tuples in `values`; nulls equal each other.

    If `values` is None, it is the rows for which the only expression, a condition, is true.
    """

    expressions: tuple[exp.Expr, ...]
    values: Values | None

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(name for expression in self.expressions for name in list_used_columns(expression))

    @property
    def is_never_null(self) -> bool:
        """Whether a row whose columns are all null is excluded for sure."""
        plain = all(isinstance(part, exp.Column) for part in self.expressions)
        return self.values is not None and plain and not any(all(v is None for v in row) for row in self.values)

    @property
    def plain_columns(self) -> frozenset[str]:
        """Columns that are compared with values as they are."""
        return frozenset(part.name for part in self.expressions if isinstance(part, exp.Column) and self.values)


def restrict_columns(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Restriction:
    """Builds the restriction of the columns `names` to the tuples of values in `rows`."""
    distinct = {repr(tuple(row)): tuple(row) for row in rows}
    return Restriction(tuple(build_column(name) for name in names), tuple(distinct.values()))


def list_condition_restrictions(condition: exp.Expr | None) -> tuple[Restriction, ...]:
    """Lists the conjuncts of a condition as restrictions, without those that depend on the time or on no column."""
    parts = (part for part in split_conjuncts(condition) if list_used_columns(part) and not reads_clock(part))
    return tuple(Restriction((part,), None) for part in parts)


def select_within(restrictions: Iterable[Restriction], names: Collection[str]) -> tuple[Restriction, ...]:
    """Selects the parts of restrictions that read no columns but `names`.

    Of a restriction to tuples of values, the expressions over these columns are kept.
    """
    return tuple(part for one in restrictions if (part := _narrow_to(one, frozenset(names))) is not None)


def _narrow_to(one: Restriction, names: frozenset[str]) -> Restriction | None:
    places = [
        place
        for place, expression in enumerate(one.expressions)
        if (used := list_used_columns(expression)) and names.issuperset(used)
    ]
    if not places:
        return None
    if one.values is None or len(places) == len(one.expressions):
        return one
    rows = {repr(kept): kept for row in one.values for kept in (tuple(row[place] for place in places),)}
    return Restriction(tuple(one.expressions[place] for place in places), tuple(rows.values()))


def substitute_restrictions(
    restrictions: Iterable[Restriction], values: Mapping[str, exp.Expr]
) -> tuple[Restriction, ...]:
    """Replaces columns by the expressions that `values` has for them; drops what is about other columns."""
    return tuple(
        Restriction(tuple(_substitute_columns(part, values) for part in one.expressions), one.values)
        for one in select_within(restrictions, values)
    )


def _substitute_columns(part: exp.Expr, values: Mapping[str, exp.Expr]) -> exp.Expr:
    if isinstance(part, exp.Column):
        return values[part.name].unnest().copy()
    return substitute_columns(part, values)


def transfer_restrictions(
    restrictions: Iterable[Restriction], equal: Iterable[Equality], to: str
) -> tuple[Restriction, ...]:
    """Translates restrictions of one side of a join to the other side, by the columns that the join equates.

    `to` is the side of the result, `left` or `right`.
    """
    pairs = [(pair.left, pair.right) if to == "left" else (pair.right, pair.left) for pair in equal if pair.same]
    return substitute_restrictions(restrictions, {other: build_column(own) for own, other in pairs})


def rename_restrictions(
    restrictions: Iterable[Restriction], names: Sequence[str], own: Sequence[str]
) -> tuple[Restriction, ...]:
    """Translates restrictions of the columns `names` to the columns `own`, by position."""
    return substitute_restrictions(
        restrictions, {name: build_column(other) for name, other in zip(names, own, strict=True)}
    )


def keep_branches_of(node: Node, sources: Collection[TableName]) -> Node:
    """Drops the branches of unions that read none of `sources`, wherever each row comes from one branch.

    The rows that are left are all rows of the tree that are made of rows of `sources`, and maybe others.
    """
    match node:
        case Projection(child=child) | Filter(child=child) | Distinct(child=child) | Explode(child=child):
            return replace(node, child=keep_branches_of(child, sources))
        case Join(kind="inner" | "left", left=left, right=right) | SemiJoin(left=left, right=right):
            return node if _has_source(right, sources) else replace(node, left=keep_branches_of(left, sources))
        case UnionAll(inputs=inputs, names=names):
            kept = [keep_branches_of(part, sources) for part in inputs if _has_source(part, sources)]
            if len(kept) == 1:
                return rename_columns(kept[0], names)
            return replace(node, inputs=tuple(kept)) if kept else node
    return node


def _has_source(node: Node, sources: Collection[TableName]) -> bool:
    return any(scan.source in sources for scan in list_scans(node))
