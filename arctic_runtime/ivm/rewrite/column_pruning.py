"""Columns that nobody reads, left out from the sources up; those of a source's key stay."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from sqlglot import exp
from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import column, used
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
)


def prune(node: Node, needed: Set[str]) -> Node:
    """The node with the columns `needed` and, at most, some others; it has one at least."""
    match node:
        case Scan(fields=fields, key=key):
            wanted = needed | set(key or ())
            return replace(node, fields=tuple(part for part in fields if part[0] in wanted) or fields[:1])
        case SpoolScan() | OneRow():
            return node
        case Project(child=child, expressions=expressions):
            kept = _kept(expressions, needed)
            return Project(prune(child, _read(kept)), kept)
        case Filter(child=child, condition=condition):
            return Filter(prune(child, needed | set(used(condition))), condition)
        case Join(left=left, right=right, on=on) | SemiJoin(left=left, right=right, on=on):
            below = needed | set(used(on))
            return replace(node, left=_pruned(left, below), right=_pruned(right, below))
        case Aggregate(child=child, keys=keys, aggregates=aggregates):
            kept = tuple(part for part in aggregates if part[0] in needed) or aggregates[: not keys]
            return Aggregate(prune(child, set(keys) | _read(kept)), keys, kept)
        case Window(child=child, partition=partition, expressions=expressions):
            found = tuple(part for part in expressions if part[0] in needed)
            below = (needed | _read(found)) & set(columns(child))
            return Window(prune(child, below | set(partition)), partition, found) if found else prune(child, below)
        case Explode(child=child, generator=generator):
            return replace(node, child=prune(child, (needed | set(used(generator))) & set(columns(child))))
        case Distinct(child=child):
            return Distinct(exactly(prune(child, set(columns(child))), columns(child)))
        case UnionAll(inputs=inputs, names=names):
            places = [place for place, name in enumerate(names) if name in needed] or [0]
            kept_inputs = tuple(_at(part, places) for part in inputs)
            return UnionAll(kept_inputs, tuple(names[place] for place in places))
        case SetOperation(left=left, right=right):
            everywhere = range(len(node.names))
            return replace(node, left=_at(left, everywhere), right=_at(right, everywhere))
        case _:
            assert_never(node)


def exactly(node: Node, names: Sequence[str]) -> Node:
    """The node with just these columns, in this order."""
    if columns(node) == tuple(names):
        return node
    return Project(node, tuple((name, column(name)) for name in names))


def _pruned(node: Node, needed: Set[str]) -> Node:
    return prune(node, needed & set(columns(node)))


def _at(node: Node, places: Sequence[int]) -> Node:
    names = [columns(node)[place] for place in places]
    return exactly(prune(node, set(names)), names)


def _kept(expressions: tuple[tuple[str, exp.Expr], ...], needed: Set[str]) -> tuple[tuple[str, exp.Expr], ...]:
    return tuple(part for part in expressions if part[0] in needed) or expressions[:1]


def _read(expressions: Sequence[tuple[str, exp.Expr]]) -> set[str]:
    return {name for _, value in expressions for name in used(value)}
