"""Groups: those that a changed row is or was in are computed again."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Aggregate, Node
from arctic_runtime.ivm.rules.inputs import Inputs, Names, before_and_after, both, recomputed
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present


def delta(node: Aggregate, of: Inputs) -> Node:
    return recomputed(node, node.keys, _groups(node, of), of)


def touched(node: Aggregate, names: Names, of: Inputs) -> Node:
    if names and set(names) <= set(node.keys):
        return present(of.touched(node.child, names))
    return before_and_after(node, node.keys, _groups(node, of), names, of)


def either(node: Aggregate, names: Names, of: Inputs) -> Node:
    if names and set(names) <= set(node.keys):
        return of.either(node.child, names)
    return both(node, names, of)


def _groups(node: Aggregate, of: Inputs) -> Node | None:
    return of.touched(node.child, node.keys) if node.keys else None


RULE = Rule(delta, touched, either)
