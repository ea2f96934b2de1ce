"""Windows: partitions that a changed row is or was in are computed again."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.tree import Node, Window, columns
from arctic_runtime.ivm.rules.inputs import Inputs, Names, before_and_after, both, recomputed
from arctic_runtime.ivm.rules.restrict import restrict
from arctic_runtime.ivm.rules.rule import Rule
from arctic_runtime.ivm.rules.terms import present, select


def delta(node: Window, of: Inputs) -> Node:
    return recomputed(node, node.partition, _partitions(node, of), of)


def touched(node: Window, names: Names, of: Inputs) -> Node:
    """What is asked of the rows themselves is had without computing any window."""
    if set(names) <= set(node.partition):
        return present(of.touched(node.child, names))
    partitions = _partitions(node, of)
    if not set(names) <= set(columns(node.child)):
        return before_and_after(node, node.partition, partitions, names, of)
    rows = of.either(node.child, tuple(dict.fromkeys((*names, *node.partition))))
    return select(restrict(rows, node.partition, partitions) if partitions else rows, names)


def either(node: Window, names: Names, of: Inputs) -> Node:
    if set(names) <= set(columns(node.child)):
        return of.either(node.child, names)
    return both(node, names, of)


def _partitions(node: Window, of: Inputs) -> Node | None:
    return of.touched(node.child, node.partition) if node.partition else None


RULE = Rule(delta, touched, either)
