"""Row count estimates for plans, and the join hints that follow from them.

Spark knows the sizes of tables, but not how few rows have changed: without a hint it would shuffle all rows of a large
table to join a few thousand changed rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import build_conjunction, build_equality, list_equalities, map_plain_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    Side,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_children,
    list_columns,
    map_children,
)
from arctic_runtime.ivm.rewrite.semi_join_reducers import RowLookup, SemiJoinReducer
from arctic_runtime.ivm.rules.star_joins import find_membership
from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import SHIPPED, JoinThresholds


@dataclass(frozen=True)
class SourceStatistics:
    """Row count of a source table, number of its changed rows that a run reads, and mean bytes of a value in its files.

    A value is one column of one row.
    """

    rows: int
    changes: int
    value_bytes: float


@dataclass(frozen=True)
class Statistics:
    """Figures that are known before a plan is executed: statistics of sources, and estimated row counts of spools.

    `reduced` maps the names of spools of semi-join reducers to the scan of the whole source.
    """

    sources: Mapping[TableName, SourceStatistics] = field(default_factory=dict)
    spool_rows: Mapping[str, float] = field(default_factory=dict)
    reduced: Mapping[str, Scan] = field(default_factory=dict)
    thresholds: JoinThresholds = SHIPPED.joins

    def with_spool(self, name: str, rows: float) -> Statistics:
        return replace(self, spool_rows={**self.spool_rows, name: rows})

    def with_reducer(self, part: SemiJoinReducer) -> Statistics:
        """Adds estimated row counts for the spools of a semi-join reducer; returns the new statistics."""
        lookup_rows = sum(
            _Estimates(self).estimate_counts(_build_matching_rows(part.full_scan, one))[0] for one in part.lookups
        )
        rows = min(lookup_rows, self.estimate_rows(part.full_scan))
        names = part.images.values()
        return replace(
            self,
            spool_rows={**self.spool_rows, **dict.fromkeys(names, rows)},
            reduced={**self.reduced, **dict.fromkeys(names, part.full_scan)},
        )

    def estimate_rows(self, tree: Node) -> float:
        """Estimates the row count of a tree; infinity if it is unknown."""
        return _Estimates(self).estimate_counts(tree)[0]

    def find_origin(self, tree: Node, name: str) -> tuple[TableName, str] | None:
        """Returns the source and its column that the column `name` of a tree is; None if it is computed."""
        origin = _Estimates(self).find_origin(tree, name)
        return None if origin is None else (origin[0].source, dict(origin[0].fields)[origin[1]])

    def with_join_hints(self, tree: Node) -> Node:
        """Returns the tree with `broadcast` set in each join of which one side is small and the other large."""
        return _Estimates(self).with_join_hints(tree)


def _build_matching_rows(whole: Scan, one: RowLookup) -> Node:
    pairs = zip(one.fields, list_columns(one.values), strict=True)
    return SemiJoin(
        "semi", whole, one.values, build_conjunction(build_equality(*pair, one.null_safe) for pair in pairs)
    )


@dataclass(frozen=True)
class _Estimates:
    statistics: Statistics
    known: dict[int, tuple[Node, tuple[float, float]]] = field(default_factory=dict)

    def estimate_counts(self, node: Node) -> tuple[float, float]:
        """Estimates two row counts of a tree, infinity if unknown.

        The first is that of the tree itself; the second is the count if its scans of changes read all rows instead.
        """
        if id(node) not in self.known:
            self.known[id(node)] = (node, self._compute_counts(node))
        return self.known[id(node)][1]

    def _compute_counts(self, node: Node) -> tuple[float, float]:
        match node:
            case Scan():
                return self._estimate_scan(node)
            case SpoolScan(name=name):
                rows = self.statistics.spool_rows.get(name, math.inf)
                part = self.statistics.reduced.get(name)
                return rows, self.estimate_counts(part)[1] if part else rows
            case OneRow() | Aggregate(keys=()):
                return 1, 1
            case Filter() if (membership := find_membership(node)) is not None:
                counts = [self.estimate_counts(one) for one in membership.semi_joins]
                rows, whole = self.estimate_counts(membership.rows)
                return min(rows, sum(matching for matching, _ in counts)), whole
            case Projection() | Filter() | Distinct() | Aggregate() | WindowColumns():
                return self.estimate_counts(node.child)
            case Explode() | Join(kind="full"):
                return math.inf, math.inf
            case Join() | SemiJoin():
                return self._estimate_join(node)
            case UnionAll(inputs=inputs):
                input_counts = [self.estimate_counts(part) for part in inputs]
                return sum(rows for rows, _ in input_counts), max(whole for _, whole in input_counts)
            case SetOperation(kind=kind, left=left, right=right):
                (rows, whole), (others, _) = self.estimate_counts(left), self.estimate_counts(right)
                return rows if kind == "except" else min(rows, others), whole
            case _:
                assert_never(node)

    def _estimate_scan(self, node: Scan) -> tuple[float, float]:
        extent = self.statistics.sources.get(node.source)
        if extent is None:
            return math.inf, math.inf
        changes = extent.changes * (1 if node.image == "pair" else 2)
        rows = node.reads_rows * extent.rows + node.reads_changes * changes
        return rows, max(rows, extent.rows)

    def _estimate_join(self, node: Join | SemiJoin) -> tuple[float, float]:
        (left, all_left), (right, all_right) = self.estimate_counts(node.left), self.estimate_counts(node.right)
        values = self._estimate_distinct(node)
        if node.kind == "anti":
            return left, all_left
        if node.kind == "semi":
            return min(left, _estimate_pairs(right, all_left, values)), all_left
        by_left, by_right = _estimate_pairs(left, all_right, values), _estimate_pairs(right, all_left, values)
        whole = _estimate_pairs(all_left, all_right, values)
        return (max(left, by_left), max(all_left, whole)) if node.kind == "left" else (min(by_left, by_right), whole)

    def _estimate_distinct(self, node: Join | SemiJoin) -> float:
        """Estimates the number of distinct values of a join's columns; 0 if it is unknown.

        It is the row count of the largest source, on either side, whose whole key is among the join columns.
        """
        pairs = list_equalities(node.on, list_columns(node.left), list_columns(node.right))
        scan_counts = [0.0]
        for side, names in ((node.left, [pair.left for pair in pairs]), (node.right, [pair.right for pair in pairs])):
            origins = [origin for name in names if (origin := self.find_origin(side, name))]
            for scan, _ in origins:
                own = {name for other, name in origins if other == scan}
                if scan.key is not None and own.issuperset(scan.key):
                    scan_counts.append(self.estimate_counts(scan)[1])
        return max(scan_counts)

    def find_origin(self, node: Node, name: str) -> tuple[Scan, str] | None:
        """Returns the scan that reads the column `name` of a tree, and its name in the scan; None if it is computed."""
        match node:
            case Scan():
                return node, name
            case SpoolScan(name=spool):
                part = self.statistics.reduced.get(spool)
                return (part, name) if part else None
            case Projection(expressions=expressions):
                below = map_plain_columns(expressions).get(name)
                return self.find_origin(node.child, below) if below else None
            case UnionAll(inputs=inputs, names=names):
                return self.find_origin(inputs[0], list_columns(inputs[0])[names.index(name)])
            case SetOperation(left=left, names=names):
                return self.find_origin(left, list_columns(left)[names.index(name)])
            case _:
                below_it = (child for child in list_children(node) if name in list_columns(child))
                return next((self.find_origin(child, name) for child in below_it), None)

    def with_join_hints(self, node: Node) -> Node:
        """Returns the tree with `broadcast` set in each join: a side, or None if a broadcast is not worthwhile."""
        if isinstance(node, Join | SemiJoin):
            return replace(
                node,
                left=self.with_join_hints(node.left),
                right=self.with_join_hints(node.right),
                broadcast=self._choose_broadcast_side(node),
            )
        return map_children(node, self.with_join_hints)

    def _choose_broadcast_side(self, node: Join | SemiJoin) -> Side | None:
        """Chooses the broadcast side of a join; None if a broadcast is not worthwhile.

        It is the smaller side of an inner join, and can only be the right side of other joins.
        """
        if node.kind == "full" or not list_equalities(node.on, list_columns(node.left), list_columns(node.right)):
            return None
        left, right = self.estimate_counts(node.left)[0], self.estimate_counts(node.right)[0]
        most_shuffled = self.statistics.thresholds.shuffled_rows
        if node.kind == "inner" and left < right:
            return "left" if right > most_shuffled and self._is_broadcastable(node.left) else None
        return "right" if left > most_shuffled and self._is_broadcastable(node.right) else None

    def _is_broadcastable(self, node: Node) -> bool:
        rows, limits = self.estimate_counts(node)[0], self.statistics.thresholds
        is_small = rows <= limits.broadcast_rows
        return is_small and rows * self._estimate_row_bytes(node, list_columns(node)) <= limits.broadcast_bytes

    def _estimate_row_bytes(self, node: Node, names: Sequence[str]) -> float:
        return sum(self._estimate_value_bytes(node, name) for name in names)

    def _estimate_value_bytes(self, node: Node, name: str) -> float:
        origin = self.find_origin(node, name)
        extent = self.statistics.sources.get(origin[0].source) if origin else None
        return extent.value_bytes if extent else self.statistics.thresholds.unknown_value_bytes


def _estimate_pairs(rows: float, others: float, values: float) -> float:
    """Estimates the number of pairs of a join of `rows` rows with `others` rows.

    `values` is the number of distinct values of the join columns. The result is infinity if `values` is 0, which means
    unknown, or if `others` is infinite.
    """
    return rows * max(1.0, others / values) if values and others < math.inf else math.inf
