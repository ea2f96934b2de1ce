"""Restricts a tree to the branches of its unions that read a source, since other branches have none of its rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from arctic_runtime.ivm.algebra.tree import (
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    UnionAll,
    list_scans,
)
from arctic_runtime.ivm.rules.terms import rename_columns
from arctic_runtime.model.names import TableName


def keep_branches_of(node: Node, sources: Collection[TableName]) -> Node:
    """Drops the branches of unions that read none of `sources`, wherever each row comes from one branch.

    The rows that are left are all rows of the tree that are made of rows of `sources`, and maybe others.
    """
    match node:
        case Projection(child=child) | Filter(child=child) | Distinct(child=child) | Explode(child=child):
            return replace(node, child=keep_branches_of(child, sources))
        case Join(kind="inner" | "left", left=left, right=right) | SemiJoin(left=left, right=right):
            return node if _has_source(right, sources) else replace(node, left=keep_branches_of(left, sources))
        case UnionAll(inputs=inputs, names=names):
            kept = [keep_branches_of(part, sources) for part in inputs if _has_source(part, sources)]
            if len(kept) == 1:
                return rename_columns(kept[0], names)
            return replace(node, inputs=tuple(kept)) if kept else node
    return node


def _has_source(node: Node, sources: Collection[TableName]) -> bool:
    return any(scan.source in sources for scan in list_scans(node))
