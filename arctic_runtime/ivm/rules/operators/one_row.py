"""Rule of OneRow: the single row of a query without FROM never changes."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, OneRow
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import select_columns


def derive_delta(node: OneRow, inputs: Inputs) -> None:
    return None


def derive_touched(node: OneRow, names: Names, inputs: Inputs) -> None:
    return None


def derive_either(node: OneRow, names: Names, inputs: Inputs) -> Node:
    return select_columns(node, names)


RULE = Rule(derive_delta, derive_touched, derive_either)
