"""What a filter of one source tells of the partners of another: which values are worth looking for at all.

Where `part` is filtered by brand and joined to `lines`, lines of other parts change nothing. Rules look for what
changed by one side of a join at a time, so they ask the filtered source as well, where that costs less than it saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import equalities, plain
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    Window,
    columns,
    map_children,
    sources,
)
from arctic_runtime.ivm.rules.restrict import is_whole, restrict
from arctic_runtime.ivm.rules.terms import select
from arctic_runtime.model.names import TableName

Worth = Mapping[TableName, frozenset[TableName]]
"""Sources that have changed → the sources that are worth reading to leave out some of what changed."""

NOTHING_WORTH: Worth = MappingProxyType({})


@dataclass(frozen=True)
class RuntimeFilter:
    """`rows` are filtered rows of a source; a row whose `column` has no equal among those of `other` has no partner."""

    column: str
    rows: Filter
    other: str
    null_safe: bool


def witness(side: Node, other: Node, on: exp.Expr | None, worth: Worth) -> RuntimeFilter | None:
    """Tells which rows of a side have no partner on the other; None where nothing does, or it is not worth reading."""
    useful = frozenset[TableName]().union(*(worth.get(source, ()) for source in sources(side)))
    if not useful:
        return None
    found = (
        RuntimeFilter(pair.left, rows, name, pair.null_safe)
        for pair in equalities(on, columns(side), columns(other))
        for rows, name in _filtered(other, pair.right, useful)
    )
    return next(found, None)


def reduced(node: Node, worth: Worth) -> Node:
    """The same rows, where groups, windows and sets are only made of rows that a witness knows partners of.

    What changed is traced through them as far as they go, whatever they are joined to.
    """
    below = map_children(node, lambda child: reduced(child, worth))
    if not isinstance(below, Join | SemiJoin) or below.kind == "full":
        return below
    left, right = below.left, below.right
    if below.kind in ("inner", "semi"):
        left = _reduced(left, right, below.on, worth)
    return replace(below, left=left, right=_reduced(right, below.left, below.on, worth))


def _reduced(side: Node, other: Node, on: exp.Expr | None, worth: Worth) -> Node:
    found = witness(side, other, on, worth) if is_whole(side) else None
    return restrict(side, (found.column,), select(found.rows, (found.other,)), found.null_safe) if found else side


def _filtered(node: Node, name: str, useful: frozenset[TableName]) -> tuple[tuple[Filter, str], ...]:
    """Filtered sources, with columns of theirs that have all values that a tree has in the column `name`."""
    match node:
        case Filter(child=Scan() as scan):
            return ((node, name),) if scan.source in useful and name in columns(scan) else ()
        case Project(child=child, expressions=expressions):
            own = plain(expressions)
            return _filtered(child, own[name], useful) if name in own else ()
        case Filter(child=child) | Distinct(child=child):
            return _filtered(child, name, useful)
        case Aggregate(child=child) | Window(child=child) | Explode(child=child):
            return _filtered(child, name, useful) if name in columns(child) else ()
        case Join(kind="inner") | SemiJoin(kind="semi"):
            pairs = [pair for pair in equalities(node.on, columns(node.left), columns(node.right)) if pair.same]
            to_left, to_right = {pair.right: pair.left for pair in pairs}, {pair.left: pair.right for pair in pairs}
            return (
                *_filtered(node.left, to_left.get(name, name), useful),
                *_filtered(node.right, to_right.get(name, name), useful),
            )
        case Join(kind="left", left=left) | SemiJoin(left=left):
            return _filtered(left, name, useful) if name in columns(left) else ()
        case Scan() | SpoolScan() | OneRow() | Join() | UnionAll() | SetOperation():
            return ()
        case _:
            assert_never(node)
