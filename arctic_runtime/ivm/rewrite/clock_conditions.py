"""Checks where a tree depends on the time of the run, and removes its conditions on the time."""

from __future__ import annotations

from collections.abc import Collection

from arctic_runtime.ivm.algebra.clock import reads_clock, split_by_clock
from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Filter, Node, is_timed, list_expressions, map_children, walk_tree
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters


def check_clock_places(tree: Node, functions: Collection[str]) -> None:
    """Raises NotMaintained if the time is used elsewhere than in conditions on rows, as in the select list.

    `functions` are the names of the query's functions that return the time.
    """
    for node in walk_tree(push_down_filters(tree)):
        if not isinstance(node, Filter) and any(map(reads_clock, list_expressions(node))):
            names = ", ".join(name.lower() for name in functions)
            raise NotMaintained("NON_DETERMINISTIC", f"{names} outside of a condition in WHERE or HAVING")


def drop_clock_conditions(node: Node) -> Node:
    """Returns a tree without the conditions on the time: with the rows that it has at any time, and more."""
    below = map_children(node, drop_clock_conditions)
    if not isinstance(below, Filter) or not is_timed(below):
        return below
    rest = build_conjunction(split_by_clock(below.condition)[1])
    return below.child if rest is None else Filter(below.child, rest)
