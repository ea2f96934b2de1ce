"""Projections look at one row at a time: what changes above is what changed below."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import MULTIPLICITY, Node, Project
from arctic_runtime.ivm.rules.computed_rows import Read, ReadRows, computed_from
from arctic_runtime.ivm.rules.existing_rows import rows_of_either, touched_rows
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, project, select


def delta(node: Project, of: Inputs) -> Node:
    return project(present(of.delta(node.child)), (*node.expressions, (MULTIPLICITY, column(MULTIPLICITY))))


def touched(node: Project, names: Names, of: Inputs) -> Node:
    return _computed(node, names, of, of.touched, touched_rows)


def either(node: Project, names: Names, of: Inputs) -> Node:
    return _computed(node, names, of, of.either, rows_of_either)


def _computed(node: Project, names: Names, of: Inputs, read: Read, read_rows: ReadRows) -> Node:
    kept = [(name, value) for name, value in node.expressions if name in names]
    below = computed_from(node.child, [value for _, value in kept], (), of, read, read_rows)
    return select(project(below, kept), names)


RULE = Rule(delta, touched, either)
