"""A source: its changes are where everything starts."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.ivm.algebra.tree import Node, Scan
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import at, select


def delta(node: Scan, of: Inputs) -> Node:
    return replace(node, image="delta")


def touched(node: Scan, names: Names, of: Inputs) -> Node:
    """All fields are read, as a row that differs in another field has changed too."""
    return select(delta(node, of), names)


def either(node: Scan, names: Names, of: Inputs) -> Node:
    return select(at(node, "either", of.changed), names)


RULE = Rule(delta, touched, either)
