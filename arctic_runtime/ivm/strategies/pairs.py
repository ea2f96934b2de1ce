"""Changed rows of one source, each followed to the top together with what it was before."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjuncts, equalities
from arctic_runtime.ivm.algebra.expressions import used
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Project,
    Scan,
    SemiJoin,
    SetOperation,
    Window,
    columns,
    scans,
    walk,
)
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.rules import pairs as pair
from arctic_runtime.ivm.rules.pairs import Paired
from arctic_runtime.ivm.rules.terms import changes, select
from arctic_runtime.model.names import TableName

_WHOLE = (Aggregate, Distinct, SetOperation, Window)
"""What is computed of all rows before a single one is known."""


@dataclass(frozen=True)
class Pairs:
    """`rows` has a row for each changed row of the one source that changed: the result's row now, and what it was.

    Its columns are the tree's, `before` of each, HAS_AFTER and HAS_BEFORE. The key is in both, whatever the flags say.
    """

    rows: Node


def pairs(
    tree: Node,
    key: tuple[str, ...],
    changed: frozenset[TableName],
    paired: frozenset[TableName],
    small: frozenset[TableName],
) -> Pairs | None:
    """Plans the maintenance of a result by pairs; None where a changed row gives other than one row or none.

    `paired` are the sources that have a `pair` image, `small` those that may be read twice. The result's key has to be
    the key of the source that changed, so that no two of its rows meet in one and none moves from one to another.
    """
    found = [scan for scan in scans(tree) if scan.source in changed]
    if len(found) != 1 or found[0].source not in paired or not found[0].key:
        return None
    top = _Path(frozenset({found[0].source}), small).follow(tree)
    if top is None or not top.keys.keys() >= set(key) or {top.keys[name] for name in key} != set(found[0].key):
        return None
    return Pairs(select(top.node, pair.pair_columns(columns(tree))))


@dataclass(frozen=True)
class _Path:
    """The way from the one source that changed to the top of a tree."""

    changed: frozenset[TableName]
    small: frozenset[TableName]

    def follow(self, node: Node) -> Paired | None:
        """The node's pairs; None where a row of the source may give several rows, or rows that others give too."""
        match node:
            case Scan():
                return pair.scanned(node)
            case Project(child=child, expressions=expressions):
                below = self.follow(child)
                return below and pair.projected(below, expressions)
            case Filter(child=child, condition=condition):
                below = self.follow(child)
                return below and pair.filtered(below, condition)
            case Join(kind="inner" | "left" as kind, left=left, right=right, on=on):
                if not changes(right, self.changed):
                    return self._joined(kind, self.follow(left), right, on)
                return self._joined(kind, self.follow(right), left, on) if kind == "inner" else None
            case SemiJoin() if not changes(node.right, self.changed):
                return self._asked(node, self.follow(node.left))
            case _:
                return None

    def _joined(self, kind: pair.Kept, below: Paired | None, partner: Node, on: exp.Expr | None) -> Paired | None:
        if below is None or not is_one_partner(below.names, partner, on):
            return None
        if below.settles(on):
            return pair.joined_once(below, kind, partner, on) if self._is_cheap(partner) else None
        return pair.joined_twice(below, kind, partner, on) if self._is_small(partner) else None

    def _asked(self, node: SemiJoin, below: Paired | None) -> Paired | None:
        if below is None or not self._is_cheap(node.right):
            return None
        if below.settles(node.on):
            return pair.asked_once(below, node.kind, node.right, node.on)
        probe = _probe(below, node.right, node.on) if self._is_small(node.right) else None
        return pair.asked_twice(below, node.kind, probe, node.on) if probe else None

    def _is_small(self, node: Node) -> bool:
        return all(scan.source in self.small for scan in scans(node))

    def _is_cheap(self, node: Node) -> bool:
        """Whether little more is computed of a node than the partners of changed rows."""
        return self._is_small(node) or not any(isinstance(part, _WHOLE) for part in walk(node))


def _probe(below: Paired, right: Node, on: exp.Expr | None) -> Node | None:
    """What a semi join's right side is asked for, at most one row of which a row on the left finds."""
    own = tuple(name for name in used(on) if name in columns(right))
    if is_one_partner(below.names, right, on):
        return select(right, own)
    is_equal = len(equalities(on, below.names, columns(right))) == len(conjuncts(on))
    return Distinct(select(right, own)) if is_equal else None
