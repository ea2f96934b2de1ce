"""Rule of Filter: the changed rows are the changed input rows that fulfil the condition."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.tree import Filter, Node, list_columns
from arctic_runtime.ivm.rules.computed_rows import Read
from arctic_runtime.ivm.rules.existing_rows import keeps_condition
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import add_multiplicity, require_term, select_columns


def derive_delta(node: Filter, inputs: Inputs) -> Node:
    return select_columns(
        replace(node, child=require_term(inputs.derive_delta(node.child))), add_multiplicity(list_columns(node))
    )


def derive_touched(node: Filter, names: Names, inputs: Inputs) -> Node:
    return _derive_filtered(node, names, inputs, inputs.derive_touched)


def derive_either(node: Filter, names: Names, inputs: Inputs) -> Node:
    return _derive_filtered(node, names, inputs, inputs.derive_either)


def _derive_filtered(node: Filter, names: Names, inputs: Inputs, read: Read) -> Node:
    if not keeps_condition(node, names, inputs):
        return require_term(read(node.child, names))
    below = require_term(read(node.child, tuple(dict.fromkeys((*names, *list_used_columns(node.condition))))))
    return select_columns(Filter(below, node.condition), names)


RULE = Rule(derive_delta, derive_touched, derive_either)
