"""Moves conditions down to the operators whose columns they read.

Spark does that as well, but the rules of maintenance need it before: they find the equalities of a join only in the
join, and check conditions on changed rows of one source without a read of another only if these are below the join.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.clock import reads_clock
from arctic_runtime.ivm.algebra.conditions import (
    build_conjunction,
    derive_implied,
    factor_conjuncts,
    substitute_columns,
)
from arctic_runtime.ivm.algebra.expressions import list_used_columns
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Distinct,
    Explode,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    WindowColumns,
    list_columns,
    map_children,
)

_Conditions = tuple[exp.Expr, ...]


def push_down_filters(node: Node) -> Node:
    """Moves each condition of a tree as close to the scans as its meaning allows; the result stays the same."""
    return _push_under(node, ())


def _push_under(node: Node, conditions: _Conditions) -> Node:
    """Filters the result of `node` by `conditions`, as close to the scans as possible."""
    match node:
        case Filter(child=child, condition=condition):
            return _push_under(child, (*factor_conjuncts(condition), *conditions))
        case Projection(child=child, expressions=expressions):
            inner = tuple(substitute_columns(part, dict(expressions)) for part in conditions)
            return replace(node, child=_push_under(child, inner))
        case Distinct(child=child):
            return replace(node, child=_push_under(child, conditions))
        case Join():
            return _push_under_join(node, conditions)
        case SemiJoin():
            return _push_under_semi_join(node, conditions)
        case Aggregate(child=child, keys=allowed) | WindowColumns(child=child, partition=allowed):
            return _push_under_part(node, child, allowed, conditions)
        case Explode(child=child):
            return _push_under_part(node, child, list_columns(child), conditions)
        case _:
            return _apply_filter(map_children(node, push_down_filters), conditions)


def _push_under_part(
    node: Aggregate | WindowColumns | Explode, child: Node, allowed: Collection[str], conditions: _Conditions
) -> Node:
    below, rest = _split_by_columns(conditions, allowed)
    return _apply_filter(replace(node, child=_push_under(child, below)), rest)


def _push_under_join(node: Join, conditions: _Conditions) -> Node:
    if node.kind == "full":
        return _apply_filter(map_children(node, push_down_filters), conditions)
    if node.kind == "left":
        left, rest = _split_by_columns(conditions, list_columns(node.left))
        right, on = _split_by_columns(factor_conjuncts(node.on), list_columns(node.right))
        return _apply_filter(_rebuild_join(node, left, right, on), rest)
    left, others = _split_by_columns((*factor_conjuncts(node.on), *conditions), list_columns(node.left))
    right, on = _split_by_columns(others, list_columns(node.right))
    # The rules of joins need conditions that are the same before and after the changes.
    joined = _rebuild_join(node, left, right, tuple(part for part in on if not reads_clock(part)))
    return _apply_filter(joined, tuple(filter(reads_clock, on)))


def _push_under_semi_join(node: SemiJoin, conditions: _Conditions) -> Node:
    left, rest = _split_by_columns(conditions, list_columns(node.left))
    right, on = _split_by_columns(factor_conjuncts(node.on), list_columns(node.right))
    if node.kind == "semi":
        more, on = _split_by_columns(on, list_columns(node.left))
        left = (*left, *more)
    return _apply_filter(_rebuild_join(node, left, right, on), rest)


def _rebuild_join(node: Join | SemiJoin, left: _Conditions, right: _Conditions, on: _Conditions) -> Node:
    return replace(
        node, left=_push_under(node.left, left), right=_push_under(node.right, right), on=build_conjunction(on)
    )


def _split_by_columns(conditions: Iterable[exp.Expr], allowed: Collection[str]) -> tuple[_Conditions, _Conditions]:
    """Splits conditions into those that read only `allowed` columns, and the others.

    The first part also has conditions on `allowed` columns that the others imply. Conditions that read no column are in
    the second part, so that they are not moved.
    """
    inside: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for part in conditions:
        read = list_used_columns(part)
        is_inside = read and set(allowed).issuperset(read)
        pushed = part if is_inside else derive_implied(part, allowed)
        if pushed is not None:
            inside.append(pushed)
        if not is_inside:
            others.append(part)
    return tuple(inside), tuple(others)


def _apply_filter(node: Node, conditions: _Conditions) -> Node:
    condition = build_conjunction(conditions)
    return node if condition is None else Filter(node, condition)
