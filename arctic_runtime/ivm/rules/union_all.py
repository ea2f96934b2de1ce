"""UNION ALL: changes of all inputs add up."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, UnionAll
from arctic_runtime.ivm.rules.by_position import either_in_inputs, touched_in_inputs
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, rename, union, weighted


def delta(node: UnionAll, of: Inputs) -> Node:
    names = weighted(node.names)
    parts = [of.delta(child) for child in node.inputs]
    return present(union((rename(part, names) for part in parts if part is not None), names))


def touched(node: UnionAll, names: Names, of: Inputs) -> Node:
    return touched_in_inputs(node, names, of)


def either(node: UnionAll, names: Names, of: Inputs) -> Node:
    return either_in_inputs(node, node.inputs, names, of)


RULE = Rule(delta, touched, either)
