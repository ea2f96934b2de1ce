"""Rules of operators without inputs: Scan reads changed rows; those of OneRow and SpoolScan never change."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.tree import Node, OneRow, Scan, SpoolScan
from arctic_runtime.ivm.rules.inputs import Inputs, Names, Rule
from arctic_runtime.ivm.rules.terms import read_image, select_columns


def derive_scan_delta(node: Scan, inputs: Inputs) -> Node:
    """Reads the source's change rows."""
    return replace(node, image="delta")


def derive_touched_scan(node: Scan, names: Names, inputs: Inputs) -> Node:
    """Derives the columns `names` of changed rows, including rows that changed only in other columns."""
    return select_columns(derive_scan_delta(node, inputs), names)


def derive_either_scan(node: Scan, names: Names, inputs: Inputs) -> Node:
    return select_columns(read_image(node, "either", inputs.changed), names)


SCAN_RULE = Rule(derive_scan_delta, derive_touched_scan, derive_either_scan)


def derive_no_delta(node: OneRow | SpoolScan, inputs: Inputs) -> None:
    return None


def derive_none_touched(node: OneRow | SpoolScan, names: Names, inputs: Inputs) -> None:
    return None


def derive_all_rows(node: OneRow | SpoolScan, names: Names, inputs: Inputs) -> Node:
    return select_columns(node, names)


CONSTANT_RULE = Rule(derive_no_delta, derive_none_touched, derive_all_rows)
"""The row of a query without FROM, and rows of a spool, which are computed before the plan is executed."""
