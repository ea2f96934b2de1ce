"""Rule of SetOperation (INTERSECT, EXCEPT): recomputes each distinct row of which an input gained or lost a copy."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, SetOperation, list_columns
from arctic_runtime.ivm.rules.by_position import derive_either_in_inputs, derive_touched_in_inputs
from arctic_runtime.ivm.rules.inputs import Inputs, Names, recompute_affected
from arctic_runtime.ivm.rules.rule import Rule


def derive_delta(node: SetOperation, inputs: Inputs) -> Node:
    return recompute_affected(node, list_columns(node), derive_touched(node, list_columns(node), inputs), inputs)


def derive_touched(node: SetOperation, names: Names, inputs: Inputs) -> Node:
    return derive_touched_in_inputs(node, names, inputs)


def derive_either(node: SetOperation, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` from the left side alone, which has all rows of the result."""
    return derive_either_in_inputs(node, (node.left,), names, inputs)


RULE = Rule(derive_delta, derive_touched, derive_either)
