"""Semi and anti joins: linear on the left; on the right, rows whose partners may have changed are looked at again."""

from __future__ import annotations

from dataclasses import replace

from arctic_runtime.plan.incremental.rules.inputs import Inputs, Names, has_changes, new, old
from arctic_runtime.plan.incremental.rules.partners import (
    affected_left,
    partner_images,
    partners_of_changed,
    touched_by,
)
from arctic_runtime.plan.incremental.rules.terms import present, signed, union, weighted
from arctic_runtime.plan.incremental.tree import Node, SemiJoin, columns


def delta(node: SemiJoin, of: Inputs) -> Node:
    terms: list[Node] = []
    left = of.delta(node.left)
    if left is not None:
        right = partners_of_changed(old(node.right, of), node.left, node.on, of)
        terms.append(replace(node, left=left, right=right))
    if has_changes(node.right, of):
        affected = affected_left(new(node.left), node.right, node.on, of)
        before, after = partner_images(node.left, node.right, node.on, of)
        terms.append(signed(replace(node, left=affected, right=before), -1))
        terms.append(signed(replace(node, left=affected, right=after), 1))
    return present(union(terms, weighted(columns(node))))


def touched(node: SemiJoin, names: Names, of: Inputs) -> Node:
    """Rows of the left that changed, whether or not they have a partner, and those whose partners changed."""
    by_right = touched_by(node.right, node.left, node.on, names, of) if has_changes(node.right, of) else None
    return present(union((of.touched(node.left, names), by_right), names))


def either(node: SemiJoin, names: Names, of: Inputs) -> Node:
    return of.either(node.left, names)
