"""Operators on whole rows: union all adds them up; distinct, intersect and except are looked at row by row."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Distinct, Node, SetOperation, UnionAll, children, columns
from arctic_runtime.ivm.rules.inputs import Inputs, Names, recomputed
from arctic_runtime.ivm.rules.terms import present, rename, union, weighted


def delta(node: UnionAll | Distinct | SetOperation, of: Inputs) -> Node:
    if not isinstance(node, UnionAll):
        return recomputed(node, columns(node), touched(node, columns(node), of), of)
    names = weighted(node.names)
    parts = [of.delta(child) for child in node.inputs]
    return present(union((rename(part, names) for part in parts if part is not None), names))


def touched(node: UnionAll | Distinct | SetOperation, names: Names, of: Inputs) -> Node:
    parts = [of.touched(child, _own(node, child, names)) for child in children(node)]
    return present(union((rename(part, names) for part in parts if part is not None), names))


def either(node: UnionAll | Distinct | SetOperation, names: Names, of: Inputs) -> Node:
    """Rows of an intersection or a difference are rows of its left side."""
    parts = children(node) if isinstance(node, UnionAll) else children(node)[:1]
    found = (rename(of.either(child, _own(node, child, names)), names) for child in parts)
    return present(union(found, names))


def _own(node: Node, child: Node, names: Names) -> Names:
    """The child's names of some columns of a node that takes its inputs by position."""
    own = dict(zip(columns(node), columns(child), strict=True))
    return tuple(own[name] for name in names)
