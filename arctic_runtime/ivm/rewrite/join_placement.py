"""Explains which joins shuffle rows: a join needs no shuffle if the join key divides both tables into equal buckets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import list_equalities
from arctic_runtime.ivm.algebra.tree import Filter, Join, Node, Projection, Scan, SemiJoin, list_columns, walk_tree
from arctic_runtime.ivm.rewrite.column_pruning import prune_columns
from arctic_runtime.model.columns import is_same_name
from arctic_runtime.model.files.layout import NOT_BUCKETED, Placement
from arctic_runtime.model.names import TableName


def describe_joins(tree: Node, placed: Mapping[TableName, Placement]) -> tuple[str, ...]:
    """Describes each join of two tables in a line of text: whether a full run of the query shuffles it, and why.

    `placed` maps tables to their buckets. Joins with a side that is not a filtered or projected table are left out.
    Spark may still broadcast a side that it expects to be small, which needs no shuffle either.
    """
    read = prune_columns(tree, set(list_columns(tree)))
    return tuple(
        line for node in walk_tree(read) if isinstance(node, Join | SemiJoin) for line in _describe_join(node, placed)
    )


def _describe_join(join: Join | SemiJoin, placed: Mapping[TableName, Placement]) -> Iterator[str]:
    left, right = _find_source_scan(join.left), _find_source_scan(join.right)
    if left is None or right is None:
        return
    pair = f"{left.source} and {right.source}"
    key_pairs = [
        (own, other)
        for equal in list_equalities(join.on, list_columns(join.left), list_columns(join.right))
        if equal.same
        and (own := _find_source_column(join.left, equal.left))
        and (other := _find_source_column(join.right, equal.right))
    ]
    reason = _explain_shuffle(left, right, key_pairs, placed)
    yield f"{pair} are joined without a shuffle" if not reason else f"{pair} are joined with a shuffle: {reason}"


def _explain_shuffle(
    left: Scan, right: Scan, keys: list[tuple[str, str]], placed: Mapping[TableName, Placement]
) -> str:
    """Explains why a join of two tables needs a shuffle; "" if it needs none.

    `keys` are the pairs of a left and a right column that the join compares; `placed` maps tables to their buckets.
    """
    one, other = (placed.get(side.source, NOT_BUCKETED) for side in (left, right))
    for scan, side in ((left, one), (right, other)):
        if side.otherwise:
            return f"{scan.source} {side.otherwise}"
    if not any(is_same_name(a, one.column) and is_same_name(b, other.column) for a, b in keys):
        compared = " and ".join(f"{a} = {b}" for a, b in keys) or "no columns of the same type"
        by = f"bucketed by {one.column} and {other.column}"
        return f"they are {by}, but the join compares {compared}; set `hash_key` to the join columns"
    for scan, side in ((left, one), (right, other)):
        read = [part for part in side.partitions if any(is_same_name(part, field) for _, field in scan.fields)]
        if read:
            return f"{scan.source} is also partitioned by {', '.join(read)}, which the query reads"
        if len(side.nodes) > 1:
            depths = " and ".join(map(str, side.nodes))
            return f"{scan.source} has files in {depths} buckets, until all buckets of a level are split"
    if one.nodes != other.nodes:
        counts = f"{left.source} has {one.nodes[0]} buckets and {right.source} has {other.nodes[0]}"
        return f"{counts}; give both the same `nodes`"
    return ""


def _find_source_scan(node: Node) -> Scan | None:
    """Returns the scan below filters and projections; None if `node` has other operators."""
    while isinstance(node, Filter | Projection):
        node = node.child
    return node if isinstance(node, Scan) else None


def _find_source_column(node: Node, name: str) -> str | None:
    """Returns the column of the source table that `node` returns as `name`; None if `node` computes the column."""
    while isinstance(node, Filter | Projection):
        if isinstance(node, Projection):
            made = dict(node.expressions)[name]
            if not isinstance(made, exp.Column):
                return None
            name = made.name
        node = node.child
    return dict(node.fields).get(name) if isinstance(node, Scan) else None
