"""Rule of UnionAll: the changes of the result are the changes of all inputs together."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, UnionAll
from arctic_runtime.ivm.rules.by_position import derive_either_in_inputs, derive_touched_in_inputs
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import add_multiplicity, rename_columns, require_term, union_terms


def derive_delta(node: UnionAll, inputs: Inputs) -> Node:
    names = add_multiplicity(node.names)
    parts = [inputs.derive_delta(child) for child in node.inputs]
    return require_term(union_terms((rename_columns(part, names) for part in parts if part is not None), names))


def derive_touched(node: UnionAll, names: Names, inputs: Inputs) -> Node:
    return derive_touched_in_inputs(node, names, inputs)


def derive_either(node: UnionAll, names: Names, inputs: Inputs) -> Node:
    return derive_either_in_inputs(node, node.inputs, names, inputs)


RULE = Rule(derive_delta, derive_touched, derive_either)
