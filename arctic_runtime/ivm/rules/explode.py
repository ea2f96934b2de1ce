"""Generators look at one row at a time: what changes above is made of what changed below."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.tree import Explode, Node, columns
from arctic_runtime.ivm.rules.computed_rows import Read, ReadRows, computed_from
from arctic_runtime.ivm.rules.existing_rows import rows_of_either, touched_rows
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, select, weighted


def delta(node: Explode, of: Inputs) -> Node:
    return select(replace(node, child=present(of.delta(node.child))), weighted(columns(node)))


def touched(node: Explode, names: Names, of: Inputs) -> Node:
    return _generated(node, names, of, of.touched, touched_rows)


def either(node: Explode, names: Names, of: Inputs) -> Node:
    return _generated(node, names, of, of.either, rows_of_either)


def _generated(node: Explode, names: Names, of: Inputs, read: Read, read_rows: ReadRows) -> Node:
    """The generator is left out where none of its columns is asked for."""
    own = tuple(name for name in names if name not in node.names)
    if len(own) == len(names):
        return present(read(node.child, names))
    below = computed_from(node.child, [node.generator], own, of, read, read_rows)
    return select(replace(node, child=below), names)


RULE = Rule(delta, touched, either)
