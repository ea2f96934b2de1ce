"""The single row of a query without FROM: it never changes."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, OneRow
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import select


def delta(node: OneRow, of: Inputs) -> None:
    return None


def touched(node: OneRow, names: Names, of: Inputs) -> None:
    return None


def either(node: OneRow, names: Names, of: Inputs) -> Node:
    return select(node, names)


RULE = Rule(delta, touched, either)
