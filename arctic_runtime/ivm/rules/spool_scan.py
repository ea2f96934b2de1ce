"""Rows that are at hand when the plan is executed: they never change."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, SpoolScan
from arctic_runtime.ivm.rules.inputs import Inputs, Names
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import select


def delta(node: SpoolScan, of: Inputs) -> None:
    return None


def touched(node: SpoolScan, names: Names, of: Inputs) -> None:
    return None


def either(node: SpoolScan, names: Names, of: Inputs) -> Node:
    return select(node, names)


RULE = Rule(delta, touched, either)
