"""Operators that look at one row at a time: project, filter and explode. What changes above is what changed below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from arctic_runtime.plan.incremental.expressions import column, used
from arctic_runtime.plan.incremental.rules.free import free
from arctic_runtime.plan.incremental.rules.inputs import Inputs, Names, some
from arctic_runtime.plan.incremental.rules.terms import present, project, select, weighted
from arctic_runtime.plan.incremental.tree import WEIGHT, Explode, Filter, Node, Project, columns

_Read = Callable[[Node, Names], Node | None]


def delta(node: Project | Filter | Explode, of: Inputs) -> Node:
    below = present(of.delta(node.child))
    if isinstance(node, Project):
        return project(below, (*node.expressions, (WEIGHT, column(WEIGHT))))
    return select(replace(node, child=below), weighted(columns(node)))


def touched(node: Project | Filter | Explode, names: Names, of: Inputs) -> Node:
    return _read(node, names, of.touched)


def either(node: Project | Filter | Explode, names: Names, of: Inputs) -> Node:
    return _read(node, names, of.either)


def _read(node: Project | Filter | Explode, names: Names, read: _Read) -> Node:
    if isinstance(node, Project):
        return _projected(node, names, read)
    if isinstance(node, Filter):
        return _filtered(node, names, read)
    return _exploded(node, names, read)


def _projected(node: Project, names: Names, read: _Read) -> Node:
    kept = [(name, value) for name, value in node.expressions if name in names]
    needed = tuple(dict.fromkeys(name for _, value in kept for name in used(value)))
    made = project(present(read(node.child, some(needed, node.child))), kept)
    return select(made, names)


def _filtered(node: Filter, names: Names, read: _Read) -> Node:
    """Leaves the condition away where its columns would cost reading more than the values asked for."""
    needed = used(node.condition)
    if not free(node.child, names).issuperset(needed):
        return present(read(node.child, names))
    below = present(read(node.child, tuple(dict.fromkeys((*names, *needed)))))
    return select(Filter(below, node.condition), names)


def _exploded(node: Explode, names: Names, read: _Read) -> Node:
    own = tuple(name for name in names if name not in node.names)
    if len(own) == len(names):
        return present(read(node.child, names))
    needed = tuple(dict.fromkeys((*own, *used(node.generator))))
    below = present(read(node.child, some(needed, node.child)))
    return select(replace(node, child=below), names)
