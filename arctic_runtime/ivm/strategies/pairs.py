"""Plans maintenance by pairs: each operator processes the new and the old version of a changed row in one row."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import CLOCK
from arctic_runtime.ivm.algebra.conditions import list_equalities, split_conjuncts
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    Projection,
    Scan,
    SemiJoin,
    SetOperation,
    WindowColumns,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import is_one_partner
from arctic_runtime.ivm.rules import pairs as pair
from arctic_runtime.ivm.rules.pairs import Paired
from arctic_runtime.ivm.rules.terms import has_changed, select_columns
from arctic_runtime.model.names import TableName

_WHOLE = (Aggregate, Distinct, SetOperation, WindowColumns)
"""Operators that must read all input rows before they return a result row."""


@dataclass(frozen=True)
class Pairs:
    """Maintenance by pairs: for each changed row of the only changed source, the new and the old result row.

    The tree `rows` computes the pairs. Its columns are those of the query with the new values, a column named by
    `name_before` for each old value, and the flags HAS_AFTER and HAS_BEFORE. The key columns are set even if only the
    old row exists.
    """

    rows: Node


def plan_pairs(
    tree: Node,
    key: tuple[str, ...],
    changed: frozenset[TableName],
    paired: frozenset[TableName],
    small: frozenset[TableName],
) -> Pairs | None:
    """Plans the maintenance of a result by pairs; None if pairs are not possible.

    They are possible if a single source has changed, is in `paired`, the sources that have an image `pair`, and each of
    its rows gives at most one result row. The key of the result must be the source's key, so that no result row comes
    from two source rows, and the change of a row keeps the key of its result row. `small` are the sources that cost
    little to read twice.
    """
    changed_scans = [scan for scan in list_scans(tree) if scan.source in changed]
    if CLOCK in changed or len(changed_scans) != 1 or changed_scans[0].source not in paired or not changed_scans[0].key:
        return None
    top = _Path(frozenset({changed_scans[0].source}), small).follow_node(tree)
    if top is None or not top.keys.keys() >= set(key) or {top.keys[name] for name in key} != set(changed_scans[0].key):
        return None
    return Pairs(select_columns(top.node, pair.list_pair_columns(list_columns(tree))))


@dataclass(frozen=True)
class _Path:
    """Builds pairs for each operator on the path from the only changed source up to the root of the tree.

    `changed` has this source; `small` are the sources that cost little to read twice.
    """

    changed: frozenset[TableName]
    small: frozenset[TableName]

    def follow_node(self, node: Node) -> Paired | None:
        """Builds the pairs of an operator's result.

        None if a source row may give several result rows, if several source rows may give the same one, or if the pairs
        would cost too much.
        """
        match node:
            case Scan():
                return pair.scan_pairs(node)
            case Projection(child=child, expressions=expressions):
                below = self.follow_node(child)
                return below and pair.project_pairs(below, expressions)
            case Filter(child=child, condition=condition):
                below = self.follow_node(child)
                return below and pair.filter_pairs(below, condition)
            case Join(kind="inner" | "left" as kind, left=left, right=right, on=on):
                if not has_changed(right, self.changed):
                    return self._follow_join(kind, self.follow_node(left), right, on)
                return self._follow_join(kind, self.follow_node(right), left, on) if kind == "inner" else None
            case SemiJoin() if not has_changed(node.right, self.changed):
                return self._follow_semi_join(node, self.follow_node(node.left))
            case _:
                return None

    def _follow_join(self, kind: pair.Kept, below: Paired | None, partner: Node, on: exp.Expr | None) -> Paired | None:
        if below is None or not is_one_partner(below.names, partner, on):
            return None
        if below.is_same_for_both(on):
            return pair.join_shared_partner(below, kind, partner, on) if self._is_cheap(partner) else None
        return pair.join_own_partners(below, kind, partner, on) if self._is_small(partner) else None

    def _follow_semi_join(self, node: SemiJoin, below: Paired | None) -> Paired | None:
        if below is None or not self._is_cheap(node.right):
            return None
        if below.is_same_for_both(node.on):
            return pair.semi_join_once(below, node.kind, node.right, node.on)
        probe = _build_probe(below, node.right, node.on) if self._is_small(node.right) else None
        return pair.semi_join_twice(below, node.kind, probe, node.on) if probe else None

    def _is_small(self, node: Node) -> bool:
        return all(scan.source in self.small for scan in list_scans(node))

    def _is_cheap(self, node: Node) -> bool:
        """Whether the computation of all rows of `node` costs little more than that of partners of changed rows."""
        return self._is_small(node) or not any(isinstance(part, _WHOLE) for part in walk_tree(node))


def _build_probe(below: Paired, right: Node, on: exp.Expr | None) -> Node | None:
    """Builds a right side for a semi-join of which each left row matches at most one row; None if that is impossible.

    It has the distinct values of the columns of `right` that the condition `on` reads.
    """
    own = tuple(name for name in list_used_columns(on) if name in list_columns(right))
    if is_one_partner(below.names, right, on):
        return select_columns(right, own)
    is_equal = len(list_equalities(on, below.names, list_columns(right))) == len(split_conjuncts(on))
    return Distinct(select_columns(right, own)) if is_equal else None
