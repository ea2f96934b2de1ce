"""Runtime filters: the join keys of a filtered source, applied early to the changed rows of another source.

For example, if a query joins `lines` with `part` and filters `part` by brand, changed lines of parts of other brands
change no result row. Rules derive the effects of changed lines without a read of `part`, unless `part` is worth a read
as a runtime filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import list_equalities, map_plain_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_columns,
    list_sources,
    map_children,
)
from arctic_runtime.ivm.rules.restrict import has_blocking_operator, restrict_to_keys
from arctic_runtime.ivm.rules.terms import select_columns
from arctic_runtime.model.names import TableName

FilterSources = Mapping[TableName, frozenset[TableName]]
"""Maps each changed source to the sources that are worth a read as a runtime filter of its changes."""

NO_FILTER_SOURCES: FilterSources = MappingProxyType({})


@dataclass(frozen=True)
class RuntimeFilter:
    """Filter of one side of a join: keeps rows whose `column` equals a value of the column `other` of `rows`.

    `rows` are the filtered rows of a source on the other side. Nulls are equal if `null_safe`.
    """

    column: str
    rows: Filter
    other: str
    null_safe: bool


def find_runtime_filter(
    side: Node, other: Node, on: exp.Expr | None, filter_sources: FilterSources
) -> RuntimeFilter | None:
    """Builds a runtime filter for the rows of `side`, from a filtered source on the `other` side of a join.

    None if there is no such source, or if `filter_sources` says that reading it is not worth its cost.
    """
    useful = frozenset[TableName]().union(*(filter_sources.get(source, ()) for source in list_sources(side)))
    if not useful:
        return None
    filters = (
        RuntimeFilter(pair.left, rows, name, pair.null_safe)
        for pair in list_equalities(on, list_columns(side), list_columns(other))
        for rows, name in _list_filtered_sources(other, pair.right, useful)
    )
    return next(filters, None)


def add_runtime_filters(node: Node, filter_sources: FilterSources) -> Node:
    """Adds runtime filters below groups, windows and set operations that are joined to a filtered source.

    The result stays the same. Rules derive changes of these operators regardless of their join partners, so a filter
    above them would come too late.
    """
    below = map_children(node, lambda child: add_runtime_filters(child, filter_sources))
    if not isinstance(below, Join | SemiJoin) or below.kind == "full":
        return below
    left, right = below.left, below.right
    if below.kind in ("inner", "semi"):
        left = _filter_side(left, right, below.on, filter_sources)
    return replace(below, left=left, right=_filter_side(right, below.left, below.on, filter_sources))


def _filter_side(side: Node, other: Node, on: exp.Expr | None, filter_sources: FilterSources) -> Node:
    runtime = find_runtime_filter(side, other, on, filter_sources) if has_blocking_operator(side) else None
    return (
        restrict_to_keys(side, (runtime.column,), select_columns(runtime.rows, (runtime.other,)), runtime.null_safe)
        if runtime
        else side
    )


def _list_filtered_sources(node: Node, name: str, useful: frozenset[TableName]) -> tuple[tuple[Filter, str], ...]:
    """Lists filtered scans at or below `node` of sources in `useful`, each with one of its columns.

    The column has all values that the column `name` of `node` has.
    """
    match node:
        case Filter(child=Scan() as scan):
            return ((node, name),) if scan.source in useful and name in list_columns(scan) else ()
        case Projection(child=child, expressions=expressions):
            own = map_plain_columns(expressions)
            return _list_filtered_sources(child, own[name], useful) if name in own else ()
        case Filter(child=child) | Distinct(child=child):
            return _list_filtered_sources(child, name, useful)
        case Aggregate(child=child) | WindowColumns(child=child) | Explode(child=child):
            return _list_filtered_sources(child, name, useful) if name in list_columns(child) else ()
        case Join(kind="inner") | SemiJoin(kind="semi"):
            pairs = [
                pair
                for pair in list_equalities(node.on, list_columns(node.left), list_columns(node.right))
                if pair.same
            ]
            to_left, to_right = {pair.right: pair.left for pair in pairs}, {pair.left: pair.right for pair in pairs}
            return (
                *_list_filtered_sources(node.left, to_left.get(name, name), useful),
                *_list_filtered_sources(node.right, to_right.get(name, name), useful),
            )
        case Join(kind="left", left=left) | SemiJoin(left=left):
            return _list_filtered_sources(left, name, useful) if name in list_columns(left) else ()
        case Scan() | SpoolScan() | OneRow() | Join() | UnionAll() | SetOperation():
            return ()
        case _:
            assert_never(node)
