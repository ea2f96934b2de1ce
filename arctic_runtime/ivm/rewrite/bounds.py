"""Scans of a tree are narrowed to the bounds of the rows that it is restricted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arctic_runtime.ivm.algebra.conditions import conjunction, equalities, plain
from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import (
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    SpoolScan,
    columns,
    map_children,
    walk,
)
from arctic_runtime.model.bounds import Bound


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
        case SpoolScan(name=name, names=names) if name == given:
            return {name: name for name in names}
        case Project(child=child, expressions=expressions):
            below = _columns_of(child, given)
            return {name: below[own] for name, own in plain(expressions).items() if own in below}
        case _:
            return {}
