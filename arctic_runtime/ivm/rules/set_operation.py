"""INTERSECT and EXCEPT: each row of which a copy came or went is computed again."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, SetOperation, columns
from arctic_runtime.ivm.rules.by_position import either_in_inputs, touched_in_inputs
from arctic_runtime.ivm.rules.inputs import Inputs, Names, recomputed
from arctic_runtime.ivm.rules.rule import Rule


def delta(node: SetOperation, of: Inputs) -> Node:
    return recomputed(node, columns(node), touched(node, columns(node), of), of)


def touched(node: SetOperation, names: Names, of: Inputs) -> Node:
    return touched_in_inputs(node, names, of)


def either(node: SetOperation, names: Names, of: Inputs) -> Node:
    """Rows of an intersection or a difference are rows of its left side."""
    return either_in_inputs(node, (node.left,), names, of)


RULE = Rule(delta, touched, either)
