"""DISTINCT: each row of which a copy came or went is computed again."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Distinct, Node, columns
from arctic_runtime.ivm.rules.by_position import either_in_inputs, touched_in_inputs
from arctic_runtime.ivm.rules.inputs import Inputs, Names, recomputed
from arctic_runtime.ivm.rules.rule import Rule


def delta(node: Distinct, of: Inputs) -> Node:
    return recomputed(node, columns(node), touched(node, columns(node), of), of)


def touched(node: Distinct, names: Names, of: Inputs) -> Node:
    return touched_in_inputs(node, names, of)


def either(node: Distinct, names: Names, of: Inputs) -> Node:
    return either_in_inputs(node, (node.child,), names, of)


RULE = Rule(delta, touched, either)
