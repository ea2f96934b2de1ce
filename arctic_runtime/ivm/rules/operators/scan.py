"""Rule of Scan: the changed rows are read from the source's change rows."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.tree import Node, Scan
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import read_image, select_columns


def derive_delta(node: Scan, inputs: Inputs) -> Node:
    return replace(node, image="delta")


def derive_touched(node: Scan, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` of changed rows, including rows that changed only in other columns."""
    return select_columns(derive_delta(node, inputs), names)


def derive_either(node: Scan, names: Names, inputs: Inputs) -> Node:
    return select_columns(read_image(node, "either", inputs.changed), names)


RULE = Rule(derive_delta, derive_touched, derive_either)
