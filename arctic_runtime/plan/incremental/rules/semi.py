"""Semi and anti joins: linear on the left; on the right, rows whose partners may have changed are looked at again."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from arctic_runtime.plan.incremental.expressions import column
from arctic_runtime.plan.incremental.rules.inputs import Inputs, Names, has_changes, old
from arctic_runtime.plan.incremental.rules.partners import (
    pairs_by_right,
    partners_of_changed,
    replaced_by_right,
    touched_by,
    with_partners,
)
from arctic_runtime.plan.incremental.rules.terms import present, project, union, weighted
from arctic_runtime.plan.incremental.tree import WEIGHT, Node, SemiJoin, columns
from arctic_runtime.plan.incremental.unique import is_one_partner


def delta(node: SemiJoin, of: Inputs) -> Node:
    terms: list[Node] = []
    left = of.delta(node.left)
    if left is not None:
        right = partners_of_changed(old(node.right, of), node.left, node.on, of)
        terms.append(replace(node, left=left, right=right))
    if has_changes(node.right, of):
        terms.extend(_by_right(node, of))
    return present(union(terms, weighted(columns(node))))


def _by_right(node: SemiJoin, of: Inputs) -> list[Node]:
    """A row with one partner at most comes and goes with it; in an anti join it goes and comes."""
    if not is_one_partner(columns(node.left), node.right, node.on):
        return replaced_by_right(node, of)
    weight = column(WEIGHT) if node.kind == "semi" else exp.Neg(this=column(WEIGHT))
    own = [(name, column(name)) for name in columns(node)]
    return [project(pairs_by_right(node, of), [*own, (WEIGHT, weight)])]


def touched(node: SemiJoin, names: Names, of: Inputs) -> Node:
    """Rows of the left that changed, most of them whether or not they have a partner, and those whose partners did."""
    by_right = touched_by(node.right, node.left, node.on, names, of) if has_changes(node.right, of) else None
    return present(union((_by_left(node, names, of), by_right), names))


def _by_left(node: SemiJoin, names: Names, of: Inputs) -> Node | None:
    if node.kind == "anti" or not has_changes(node.left, of):
        return of.touched(node.left, names)
    return with_partners(node.left, node.right, node.on, names, of)


def either(node: SemiJoin, names: Names, of: Inputs) -> Node:
    return of.either(node.left, names)
