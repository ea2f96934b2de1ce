"""Which columns come along with others without an operator or a source more."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.expressions import used
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


def free(node: Node, names: Iterable[str]) -> frozenset[str]:
    """The columns that the rules have at hand when they look for `names` of the rows that changed."""
    asked = frozenset(names)
    match node:
        case Scan() | SpoolScan() | OneRow():
            return frozenset(columns(node))
        case Project(child=child, expressions=expressions):
            needed = [part for name, value in expressions if name in asked for part in used(value)]
            below = free(child, needed)
            return frozenset(name for name, value in expressions if below.issuperset(used(value)))
        case Filter(child=child) | SemiJoin(left=child) | Distinct(child=child):
            return free(child, asked)
        case Explode(child=child, generator=generator, names=made):
            if asked.isdisjoint(made):
                return free(child, asked)
            return free(child, asked.difference(made).union(used(generator))).union(made)
        case Join(left=left, right=right):
            sides = [side for side in (left, right) if asked.intersection(columns(side))]
            return frozenset().union(*(free(side, asked.intersection(columns(side))) for side in sides))
        case Aggregate(child=child, keys=keys):
            return free(child, asked).intersection(keys) if asked <= set(keys) else frozenset(columns(node))
        case Window():
            return _of_window(node, asked)
        case UnionAll(inputs=inputs, names=own):
            return _in_all(inputs, own, asked)
        case SetOperation(left=left, right=right, names=own):
            return _in_all((left, right), own, asked)
        case _:
            assert_never(node)


def _of_window(node: Window, asked: frozenset[str]) -> frozenset[str]:
    if asked <= set(node.partition):
        return free(node.child, asked).intersection(node.partition)
    if asked <= set(columns(node.child)):
        return free(node.child, asked.union(node.partition))
    return frozenset(columns(node))


def _in_all(inputs: tuple[Node, ...], names: tuple[str, ...], asked: frozenset[str]) -> frozenset[str]:
    found = frozenset(names)
    for part in inputs:
        own = dict(zip(names, columns(part), strict=True))
        below = free(part, [own[name] for name in asked])
        found &= {name for name in names if own[name] in below}
    return found
