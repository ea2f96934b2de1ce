"""Joins: pairs are linear in both sides; rows without a partner on the right are looked at again where it changed."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from arctic_runtime.plan.incremental.rules.inputs import Inputs, Names, has_changes, new, old, some
from arctic_runtime.plan.incremental.rules.partners import (
    affected_left,
    pairs_of_either,
    partner_images,
    partners_of_changed,
    touched_by,
)
from arctic_runtime.plan.incremental.rules.terms import present, project, select, signed, union, weighted
from arctic_runtime.plan.incremental.tree import Join, Node, SemiJoin, UnionAll, column, columns


def delta(node: Join, of: Inputs) -> Node:
    if node.kind == "full":
        return present(of.delta(halves(node)))
    terms: list[Node] = []
    left = of.delta(node.left)
    if left is not None:
        right = partners_of_changed(old(node.right, of), node.left, node.on, of)
        terms.append(replace(node, left=left, right=right))
    if has_changes(node.right, of):
        terms.extend(_pairs_by_right(node, of) if node.kind == "inner" else _replaced_by_right(node, of))
    return present(union(terms, weighted(columns(node))))


def touched(node: Join, names: Names, of: Inputs) -> Node:
    if node.kind == "full":
        return present(of.touched(halves(node), names))
    terms: list[Node] = []
    if has_changes(node.left, of):
        terms.append(touched_by(node.left, node.right, node.on, names, of))
        terms.extend(_padded(of.touched(node.left, _of_left(node, names)), node, names))
    if has_changes(node.right, of):
        terms.append(touched_by(node.right, node.left, node.on, names, of))
        terms.extend(_padded(touched_by(node.right, node.left, node.on, _of_left(node, names), of), node, names))
    return present(union(terms, names))


def either(node: Join, names: Names, of: Inputs) -> Node:
    if not has_changes(node, of) and not set(names) <= set(columns(node.left)):
        return select(node, names)
    if node.kind == "full":
        return of.either(halves(node), names)
    pairs = pairs_of_either(node.left, node.right, node.on, names, of)
    padded = _padded(of.either(node.left, _of_left(node, names)), node, names)
    return present(union((pairs, *padded), names))


def halves(node: Join) -> UnionAll:
    """A full join as a left join and the rows of the right without a partner."""
    alone = SemiJoin("anti", node.right, node.left, node.on)
    pads = project(alone, [_or_null(name, node.right) for name in columns(node)])
    return UnionAll((replace(node, kind="left"), pads), columns(node))


def _pairs_by_right(node: Join, of: Inputs) -> list[Node]:
    left = partners_of_changed(new(node.left), node.right, node.on, of)
    return [replace(node, left=left, right=present(of.delta(node.right)))]


def _replaced_by_right(node: Join, of: Inputs) -> list[Node]:
    affected = affected_left(new(node.left), node.right, node.on, of)
    before, after = partner_images(node.left, node.right, node.on, of)
    return [
        signed(replace(node, left=affected, right=before), -1),
        signed(replace(node, left=affected, right=after), 1),
    ]


def _padded(rows: Node | None, node: Join, names: Names) -> list[Node]:
    """The rows of a left join's left side as they are without a partner, where that shows in the columns asked for."""
    if rows is None or node.kind == "inner" or set(names) <= set(columns(node.left)):
        return []
    return [project(rows, [_or_null(name, node.left) for name in names])]


def _of_left(node: Join, names: Names) -> Names:
    return some(tuple(name for name in names if name in columns(node.left)), node.left)


def _or_null(name: str, node: Node) -> tuple[str, exp.Expr]:
    return (name, column(name) if name in columns(node) else exp.null())
