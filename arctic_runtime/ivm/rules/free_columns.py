"""Finds columns that a rule can derive together with other columns, without another scan or join."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import list_used_columns
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


def find_free_columns(node: Node, names: Iterable[str]) -> frozenset[str]:
    """Finds the columns of `node` that need no further scan or join if a plan derives the columns `names` anyway."""
    asked = frozenset(names)
    match node:
        case Scan() | SpoolScan() | OneRow():
            return frozenset(list_columns(node))
        case Projection(child=child, expressions=expressions):
            needed = [part for name, value in expressions if name in asked for part in list_used_columns(value)]
            below = find_free_columns(child, needed)
            return frozenset(name for name, value in expressions if below.issuperset(list_used_columns(value)))
        case Filter(child=child) | SemiJoin(left=child) | Distinct(child=child):
            return find_free_columns(child, asked)
        case Explode(child=child, generator=generator, names=made):
            if asked.isdisjoint(made):
                return find_free_columns(child, asked)
            return find_free_columns(child, asked.difference(made).union(list_used_columns(generator))).union(made)
        case Join(left=left, right=right):
            sides = [side for side in (left, right) if asked.intersection(list_columns(side))]
            return frozenset().union(
                *(find_free_columns(side, asked.intersection(list_columns(side))) for side in sides)
            )
        case Aggregate(child=child, keys=keys):
            return (
                find_free_columns(child, asked).intersection(keys)
                if asked <= set(keys)
                else frozenset(list_columns(node))
            )
        case WindowColumns():
            return _find_free_in_window(node, asked)
        case UnionAll(inputs=inputs, names=own):
            return _find_free_in_all(inputs, own, asked)
        case SetOperation(left=left, right=right, names=own):
            return _find_free_in_all((left, right), own, asked)
        case _:
            assert_never(node)


def _find_free_in_window(node: WindowColumns, asked: frozenset[str]) -> frozenset[str]:
    if asked <= set(node.partition):
        return find_free_columns(node.child, asked).intersection(node.partition)
    if asked <= set(list_columns(node.child)):
        return find_free_columns(node.child, asked.union(node.partition))
    return frozenset(list_columns(node))


def _find_free_in_all(inputs: tuple[Node, ...], names: tuple[str, ...], asked: frozenset[str]) -> frozenset[str]:
    common = frozenset(names)
    for part in inputs:
        own = dict(zip(names, list_columns(part), strict=True))
        below = find_free_columns(part, [own[name] for name in asked])
        common &= {name for name in names if own[name] in below}
    return common
