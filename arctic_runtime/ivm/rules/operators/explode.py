"""Rule of Explode: generates changed rows from changed input rows, because a generator reads one row at a time."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.tree import Explode, Node, list_columns
from arctic_runtime.ivm.rules.existing_rows import (
    Read,
    ReadRows,
    derive_either_rows,
    derive_touched_rows,
    select_computed,
)
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule
from arctic_runtime.ivm.rules.terms import add_multiplicity, require_term, select_columns


def derive_delta(node: Explode, inputs: Inputs) -> Node:
    return select_columns(
        replace(node, child=require_term(inputs.derive_delta(node.child))), add_multiplicity(list_columns(node))
    )


def derive_touched(node: Explode, names: Names, inputs: Inputs) -> Node:
    return _derive_generated(node, names, inputs, inputs.derive_touched, derive_touched_rows)


def derive_either(node: Explode, names: Names, inputs: Inputs) -> Node:
    return _derive_generated(node, names, inputs, inputs.derive_either, derive_either_rows)


def _derive_generated(node: Explode, names: Names, inputs: Inputs, read: Read, read_rows: ReadRows) -> Node:
    """Derives rows of an explode with the columns `names`; leaves the generator out if all of them are input columns.

    `read` derives input rows, and may add rows that exist neither before nor after the changes; `read_rows` derives
    them without such rows, and is used if the generator can raise an error.
    """
    own = tuple(name for name in names if name not in node.names)
    if len(own) == len(names):
        return require_term(read(node.child, names))
    below = select_computed(node.child, [node.generator], own, inputs, read, read_rows)
    return select_columns(replace(node, child=below), names)


RULE = Rule(derive_delta, derive_touched, derive_either)
