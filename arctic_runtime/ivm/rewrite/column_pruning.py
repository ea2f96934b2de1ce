"""Removes columns that no operator above reads, except the key columns of scans."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
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
)


def prune_columns(node: Node, needed: Set[str]) -> Node:
    """Removes columns that are not in `needed`, or not read for these, from all operators of a tree.

    Some other columns may remain; at least one column always does.
    """
    match node:
        case Scan(fields=fields, key=key):
            wanted = needed | set(key or ())
            return replace(node, fields=tuple(part for part in fields if part[0] in wanted) or fields[:1])
        case SpoolScan() | OneRow():
            return node
        case Projection(child=child, expressions=expressions):
            needed_expressions = tuple(part for part in expressions if part[0] in needed) or expressions[:1]
            return Projection(prune_columns(child, _list_columns_read(needed_expressions)), needed_expressions)
        case Filter(child=child, condition=condition):
            return Filter(prune_columns(child, needed | set(list_used_columns(condition))), condition)
        case Join(left=left, right=right, on=on) | SemiJoin(left=left, right=right, on=on):
            below = needed | set(list_used_columns(on))
            return replace(node, left=_prune_to_own(left, below), right=_prune_to_own(right, below))
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            needed_expressions = tuple(part for part in aggregates if part[0] in needed) or aggregates[: not keys]
            return Aggregate(
                prune_columns(child, set(keys) | _list_columns_read(needed_expressions)), keys, needed_expressions
            )
        case WindowColumns(child=child, partition=partition, expressions=expressions):
            needed_parts = tuple(part for part in expressions if part[0] in needed)
            below = (needed | _list_columns_read(needed_parts)) & set(list_columns(child))
            return (
                WindowColumns(prune_columns(child, below | set(partition)), partition, needed_parts)
                if needed_parts
                else prune_columns(child, below)
            )
        case Explode(child=child, generator=generator):
            return replace(
                node,
                child=prune_columns(child, (needed | set(list_used_columns(generator))) & set(list_columns(child))),
            )
        case Distinct(child=child):
            return Distinct(select_exactly(prune_columns(child, set(list_columns(child))), list_columns(child)))
        case UnionAll(inputs=inputs, names=names):
            places = [place for place, name in enumerate(names) if name in needed] or [0]
            kept_inputs = tuple(_select_at(part, places) for part in inputs)
            return UnionAll(kept_inputs, tuple(names[place] for place in places))
        case SetOperation(left=left, right=right):
            everywhere = range(len(node.names))
            return replace(node, left=_select_at(left, everywhere), right=_select_at(right, everywhere))
        case _:
            assert_never(node)


def select_exactly(node: Node, names: Sequence[str]) -> Node:
    """Projects the node to exactly the columns `names`, in this order."""
    if list_columns(node) == tuple(names):
        return node
    return Projection(node, tuple((name, build_column(name)) for name in names))


def _prune_to_own(node: Node, needed: Set[str]) -> Node:
    return prune_columns(node, needed & set(list_columns(node)))


def _select_at(node: Node, places: Sequence[int]) -> Node:
    names = [list_columns(node)[place] for place in places]
    return select_exactly(prune_columns(node, set(names)), names)


def _list_columns_read(expressions: Sequence[tuple[str, exp.Expr]]) -> set[str]:
    return {name for _, value in expressions for name in list_used_columns(value)}
