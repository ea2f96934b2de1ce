"""Adds range filters to scans that are restricted to known keys, so that files outside of the range are not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from arctic_runtime.ivm.algebra.conditions import build_conjunction, list_equalities, map_plain_columns
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SpoolScan,
    list_columns,
    map_children,
    walk_tree,
)
from arctic_runtime.model.files.bounds import Bound


def list_join_columns(node: Node) -> frozenset[str]:
    """Lists the columns that the joins in a tree compare for equality."""
    names: set[str] = set()
    for part in walk_tree(node):
        if isinstance(part, (Join, SemiJoin)):
            pairs = list_equalities(part.on, list_columns(part.left), list_columns(part.right))
            names.update(name for pair in pairs for name in (pair.left, pair.right))
    return frozenset(names)


def narrow_sources(node: Node, keys_name: str, bounds: Sequence[Bound]) -> Node:
    """Adds range filters to scans that are semi-joined with the spool `keys_name`; returns the new tree.

    `bounds` are the least and greatest values of the spool's columns, so that the filters do not change the result.
    """
    below = map_children(node, lambda child: narrow_sources(child, keys_name, bounds))
    if not isinstance(below, SemiJoin) or below.kind != "semi" or not isinstance(below.left, Scan):
        return below
    asked = _map_key_columns(below.right, keys_name)
    pairs = list_equalities(below.on, list_columns(below.left), list_columns(below.right))
    conditions = [
        bound.build_condition(build_column(pair.left))
        for pair in pairs
        for bound in bounds
        if pair.same and asked.get(pair.right) == bound.column
    ]
    where = build_conjunction(conditions)
    return replace(below, left=Filter(below.left, where)) if where is not None else below


def _map_key_columns(node: Node, keys_name: str) -> dict[str, str]:
    """Maps columns of a tree to columns of the spool `keys_name`; empty unless the tree only selects from the spool."""
    match node:
        case SpoolScan(name=name, names=names) if name == keys_name:
            return {name: name for name in names}
        case Projection(child=child, expressions=expressions):
            below = _map_key_columns(child, keys_name)
            return {name: below[own] for name, own in map_plain_columns(expressions).items() if own in below}
        case _:
            return {}
