"""Rule of Project: computes changed rows from changed input rows, because each expression reads one row."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Node, Projection
from arctic_runtime.ivm.rules.existing_rows import (
    Read,
    ReadRows,
    derive_either_rows,
    derive_touched_rows,
    select_computed,
)
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule
from arctic_runtime.ivm.rules.terms import project_columns, require_term, select_columns


def derive_delta(node: Projection, inputs: Inputs) -> Node:
    return project_columns(
        require_term(inputs.derive_delta(node.child)), (*node.expressions, (MULTIPLICITY, build_column(MULTIPLICITY)))
    )


def derive_touched(node: Projection, names: Names, inputs: Inputs) -> Node:
    return _derive_computed(node, names, inputs, inputs.derive_touched, derive_touched_rows)


def derive_either(node: Projection, names: Names, inputs: Inputs) -> Node:
    return _derive_computed(node, names, inputs, inputs.derive_either, derive_either_rows)


def _derive_computed(node: Projection, names: Names, inputs: Inputs, read: Read, read_rows: ReadRows) -> Node:
    wanted = [(name, value) for name, value in node.expressions if name in names]
    below = select_computed(node.child, [value for _, value in wanted], (), inputs, read, read_rows)
    return select_columns(project_columns(below, wanted), names)


RULE = Rule(derive_delta, derive_touched, derive_either)
