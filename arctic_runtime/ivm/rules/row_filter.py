"""Filters look at one row at a time: what changes above is what changed below and passes."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.expressions import used
from arctic_runtime.ivm.algebra.tree import Filter, Node, columns
from arctic_runtime.ivm.rules.computed_rows import Read
from arctic_runtime.ivm.rules.existing_rows import keeps
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, select, weighted


def delta(node: Filter, of: Inputs) -> Node:
    return select(replace(node, child=present(of.delta(node.child))), weighted(columns(node)))


def touched(node: Filter, names: Names, of: Inputs) -> Node:
    return _filtered(node, names, of, of.touched)


def either(node: Filter, names: Names, of: Inputs) -> Node:
    return _filtered(node, names, of, of.either)


def _filtered(node: Filter, names: Names, of: Inputs, read: Read) -> Node:
    if not keeps(node, names, of):
        return present(read(node.child, names))
    below = present(read(node.child, tuple(dict.fromkeys((*names, *used(node.condition))))))
    return select(Filter(below, node.condition), names)


RULE = Rule(delta, touched, either)
