"""Removes conditions on the time from a tree, for whoever asks which rows it had at any time."""

from __future__ import annotations

from arctic_runtime.ivm.algebra.clock import split_by_clock
from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.tree import Filter, Node, is_timed, map_children


def drop_clock_conditions(node: Node) -> Node:
    """Returns a tree without the conditions that depend on the time of the run."""
    below = map_children(node, drop_clock_conditions)
    if not isinstance(below, Filter) or not is_timed(below):
        return below
    rest = build_conjunction(split_by_clock(below.condition)[1])
    return below.child if rest is None else Filter(below.child, rest)
