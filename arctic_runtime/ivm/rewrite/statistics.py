"""About how many rows the parts of a plan have, and which sides of its joins are small enough to be sent to all tasks.

An engine knows how large the tables are, and not how little has changed: it would move all rows of a large table to
where those of a few thousand changes are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from typing_extensions import assert_never

from arctic_runtime.ivm.algebra.conditions import conjunction, equalities, plain, same
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    OneRow,
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    Side,
    SpoolScan,
    UnionAll,
    Window,
    children,
    columns,
    map_children,
)
from arctic_runtime.ivm.rewrite.semi_join_reducers import SemiJoinReducer, Wanted
from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import SHIPPED, JoinThresholds


@dataclass(frozen=True)
class SourceStatistics:
    """A source: its rows, those that came in the window, the bytes that a value of it takes in files, on average."""

    rows: int
    changes: int
    value_bytes: float


@dataclass(frozen=True)
class Statistics:
    """What is known before a plan is executed: each source's extent, and the rows that are given under a name.

    `parts` are the names under which parts of sources are given.
    """

    extents: Mapping[TableName, SourceStatistics] = field(default_factory=dict)
    given: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, Scan] = field(default_factory=dict)
    thresholds: JoinThresholds = SHIPPED.joins

    def with_given(self, name: str, rows: float) -> Statistics:
        return replace(self, given={**self.given, name: rows})

    def with_part(self, part: SemiJoinReducer) -> Statistics:
        """The same, knowing about how many rows a part of a source has."""
        found = sum(_Estimates(self).of(_found(part.whole, one))[0] for one in part.wanted)
        rows = min(found, self.rows(part.whole))
        names = part.images.values()
        return replace(
            self,
            given={**self.given, **dict.fromkeys(names, rows)},
            parts={**self.parts, **dict.fromkeys(names, part.whole)},
        )

    def rows(self, tree: Node) -> float:
        """About how many rows a tree has; infinity where there is nothing to tell it by."""
        return _Estimates(self).of(tree)[0]

    def told(self, tree: Node) -> Node:
        """The tree, with the side of each join that is to be sent to all tasks."""
        return _Estimates(self).told(tree)


def _found(whole: Scan, one: Wanted) -> Node:
    pairs = zip(one.fields, columns(one.values), strict=True)
    return SemiJoin("semi", whole, one.values, conjunction(same(*pair, one.null_safe) for pair in pairs))


@dataclass(frozen=True)
class _Estimates:
    sizes: Statistics
    known: dict[int, tuple[Node, tuple[float, float]]] = field(default_factory=dict)

    def of(self, node: Node) -> tuple[float, float]:
        """About how many rows a tree has, and how many it would have if all its sources were read as a whole."""
        if id(node) not in self.known:
            self.known[id(node)] = (node, self._of(node))
        return self.known[id(node)][1]

    def _of(self, node: Node) -> tuple[float, float]:
        match node:
            case Scan():
                return self._read(node)
            case SpoolScan(name=name):
                rows = self.sizes.given.get(name, math.inf)
                part = self.sizes.parts.get(name)
                return rows, self.of(part)[1] if part else rows
            case OneRow() | Aggregate(keys=()):
                return 1, 1
            case Project() | Filter() | Distinct() | Aggregate() | Window():
                return self.of(node.child)
            case Explode() | Join(kind="full"):
                return math.inf, math.inf
            case Join() | SemiJoin():
                return self._joined(node)
            case UnionAll(inputs=inputs):
                found = [self.of(part) for part in inputs]
                return sum(rows for rows, _ in found), max(whole for _, whole in found)
            case SetOperation(kind=kind, left=left, right=right):
                (rows, whole), (others, _) = self.of(left), self.of(right)
                return rows if kind == "except" else min(rows, others), whole
            case _:
                assert_never(node)

    def _read(self, node: Scan) -> tuple[float, float]:
        extent = self.sizes.extents.get(node.source)
        if extent is None:
            return math.inf, math.inf
        changes = extent.changes * (1 if node.image == "pair" else 2)
        rows = node.reads_rows * extent.rows + node.reads_changes * changes
        return rows, max(rows, extent.rows)

    def _joined(self, node: Join | SemiJoin) -> tuple[float, float]:
        (left, all_left), (right, all_right) = self.of(node.left), self.of(node.right)
        values = self._values(node)
        if node.kind == "anti":
            return left, all_left
        if node.kind == "semi":
            return min(left, _times(right, all_left, values)), all_left
        by_left, by_right = _times(left, all_right, values), _times(right, all_left, values)
        whole = _times(all_left, all_right, values)
        return (max(left, by_left), max(all_left, whole)) if node.kind == "left" else (min(by_left, by_right), whole)

    def _values(self, node: Join | SemiJoin) -> float:
        """Among how many values of the columns that are compared the rows of either side are; 0 if unknown.

        It is the rows of a source that has these columns as its key, on one of the sides.
        """
        pairs = equalities(node.on, columns(node.left), columns(node.right))
        found = [0.0]
        for side, names in ((node.left, [pair.left for pair in pairs]), (node.right, [pair.right for pair in pairs])):
            origins = [origin for name in names if (origin := self._origin(side, name))]
            for scan, _ in origins:
                own = {name for other, name in origins if other == scan}
                if scan.key is not None and own.issuperset(scan.key):
                    found.append(self.of(scan)[1])
        return max(found)

    def _origin(self, node: Node, name: str) -> tuple[Scan, str] | None:
        """The source that a column is of, and what it is called where that is read."""
        match node:
            case Scan():
                return node, name
            case SpoolScan(name=given):
                part = self.sizes.parts.get(given)
                return (part, name) if part else None
            case Project(expressions=expressions):
                below = plain(expressions).get(name)
                return self._origin(node.child, below) if below else None
            case UnionAll(inputs=inputs, names=names):
                return self._origin(inputs[0], columns(inputs[0])[names.index(name)])
            case SetOperation(left=left, names=names):
                return self._origin(left, columns(left)[names.index(name)])
            case _:
                below_it = (child for child in children(node) if name in columns(child))
                return next((self._origin(child, name) for child in below_it), None)

    def told(self, node: Node) -> Node:
        """The tree, with the broadcast side of each join."""
        if isinstance(node, Join | SemiJoin):
            return replace(node, left=self.told(node.left), right=self.told(node.right), sent=self._sent(node))
        return map_children(node, self.told)

    def _sent(self, node: Join | SemiJoin) -> Side | None:
        """The side that is to be sent to all tasks: of an inner join the smaller one, else none but the right."""
        if node.kind == "full" or not equalities(node.on, columns(node.left), columns(node.right)):
            return None
        left, right = self.of(node.left)[0], self.of(node.right)[0]
        most_shuffled = self.sizes.thresholds.shuffled_rows
        if node.kind == "inner" and left < right:
            return "left" if right > most_shuffled and self._is_sent(node.left) else None
        return "right" if left > most_shuffled and self._is_sent(node.right) else None

    def _is_sent(self, node: Node) -> bool:
        rows, limits = self.of(node)[0], self.sizes.thresholds
        is_small = rows <= limits.broadcast_rows
        return is_small and rows * self._row_bytes(node, columns(node)) <= limits.broadcast_bytes

    def _row_bytes(self, node: Node, names: Sequence[str]) -> float:
        return sum(self._value_bytes(node, name) for name in names)

    def _value_bytes(self, node: Node, name: str) -> float:
        origin = self._origin(node, name)
        extent = self.sizes.extents.get(origin[0].source) if origin else None
        return extent.value_bytes if extent else self.sizes.thresholds.unknown_value_bytes


def _times(rows: float, others: float, values: float) -> float:
    """Partners of `rows`, of which `others` are among so many values; infinity where these are unknown."""
    return rows * max(1.0, others / values) if values and others < math.inf else math.inf
