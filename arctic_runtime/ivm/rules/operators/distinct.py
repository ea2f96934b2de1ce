"""Rule of Distinct: recomputes each distinct row of which a copy was added or removed."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Distinct, Node, list_columns
from arctic_runtime.ivm.rules.by_position import derive_either_in_inputs, derive_touched_in_inputs
from arctic_runtime.ivm.rules.inputs import Inputs, Names, recompute_affected
from arctic_runtime.ivm.rules.rule import Rule


def derive_delta(node: Distinct, inputs: Inputs) -> Node:
    return recompute_affected(node, list_columns(node), derive_touched(node, list_columns(node), inputs), inputs)


def derive_touched(node: Distinct, names: Names, inputs: Inputs) -> Node:
    return derive_touched_in_inputs(node, names, inputs)


def derive_either(node: Distinct, names: Names, inputs: Inputs) -> Node:
    return derive_either_in_inputs(node, (node.child,), names, inputs)


RULE = Rule(derive_delta, derive_touched, derive_either)
