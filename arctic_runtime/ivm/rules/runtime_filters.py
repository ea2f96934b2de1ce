"""Runtime filters: the join keys of a filtered source, applied early to the changed rows of another source.

If `part` is filtered by brand and joined to `lines`, changed lines of other parts change no result row. Rules trace
changes through one side of a join at a time, so they read the filtered source too if that saves more than it costs.
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

FilterSources = Mapping[TableName, frozenset[TableName]]
"""Changed sources → the sources that are worth a read as a runtime filter of their changes."""

NO_FILTER_SOURCES: FilterSources = MappingProxyType({})


@dataclass(frozen=True)
class RuntimeFilter:
    """`rows` are filtered rows of a source; a row whose `column` equals no value of their column `other` can go."""

    column: str
    rows: Filter
    other: str
    null_safe: bool


def runtime_filter(side: Node, other: Node, on: exp.Expr | None, filter_sources: FilterSources) -> RuntimeFilter | None:
    """The runtime filter for one side of a join; None if there is none, or a read of its source is not worth it."""
    useful = frozenset[TableName]().union(*(filter_sources.get(source, ()) for source in sources(side)))
    if not useful:
        return None
    found = (
        RuntimeFilter(pair.left, rows, name, pair.null_safe)
        for pair in equalities(on, columns(side), columns(other))
        for rows, name in _filtered(other, pair.right, useful)
    )
    return next(found, None)


def reduced(node: Node, filter_sources: FilterSources) -> Node:
    """The same rows, with runtime filters below groups, windows and set operations next to a filtered source.

    Changes are traced through these operators regardless of what they are joined to, so the filter has to be below.
    """
    below = map_children(node, lambda child: reduced(child, filter_sources))
    if not isinstance(below, Join | SemiJoin) or below.kind == "full":
        return below
    left, right = below.left, below.right
    if below.kind in ("inner", "semi"):
        left = _reduced(left, right, below.on, filter_sources)
    return replace(below, left=left, right=_reduced(right, below.left, below.on, filter_sources))


def _reduced(side: Node, other: Node, on: exp.Expr | None, filter_sources: FilterSources) -> Node:
    found = runtime_filter(side, other, on, filter_sources) if is_whole(side) else None
    return restrict(side, (found.column,), select(found.rows, (found.other,)), found.null_safe) if found else side


def _filtered(node: Node, name: str, useful: frozenset[TableName]) -> tuple[tuple[Filter, str], ...]:
    """Filtered sources, each with its column that contains all values of a tree's column `name`."""
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
