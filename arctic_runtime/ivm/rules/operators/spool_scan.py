"""Rule of SpoolScan: rows of a spool are computed before the plan is executed, and never change."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, SpoolScan
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import select_columns


def derive_delta(node: SpoolScan, inputs: Inputs) -> None:
    return None


def derive_touched(node: SpoolScan, names: Names, inputs: Inputs) -> None:
    return None


def derive_either(node: SpoolScan, names: Names, inputs: Inputs) -> Node:
    return select_columns(node, names)


RULE = Rule(derive_delta, derive_touched, derive_either)
