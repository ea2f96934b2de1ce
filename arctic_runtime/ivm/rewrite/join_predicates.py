"""Moves conditions of WHERE into the joins of the FROM clause, and below these joins.

The conditions of joins that are written with commas stand in WHERE; the rules of maintenance read those in joins only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction
from arctic_runtime.ivm.algebra.expressions import get_form, list_used_columns
from arctic_runtime.ivm.algebra.tree import Filter, Join, Node, list_columns


def split_conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Splits a condition into conjuncts; `a and b or a and c` is split into `a` and `b or c`."""
    if condition is None:
        return []
    bare = condition.unnest()
    if isinstance(bare, exp.And):
        return [*split_conjuncts(bare.this), *split_conjuncts(bare.expression)]
    return _factor_disjunction(bare) if isinstance(bare, exp.Or) else [bare]


def apply_filter(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """Filters the rows of `node` by all conditions; returns `node` itself if there are none."""
    condition = build_conjunction(conditions)
    return node if condition is None else Filter(node, condition)


def arrange_joins(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """Reorders the inner joins at the top of a tree, and applies `conditions` to their rows as early as possible.

    If possible, each input is joined to inputs with which a condition equates some of its columns.
    """
    leaves, own = _collect_leaves(node)
    if len(leaves) == 1:
        return apply_filter(node, conditions)
    waiting = [*own, *conditions]
    parts = []
    for leaf in leaves:
        here, waiting = _split_by_columns(waiting, set(list_columns(leaf)))
        parts.append(apply_filter(leaf, [part for part in here if list_used_columns(part)]))
        waiting = [part for part in here if not list_used_columns(part)] + waiting
    return _connect_parts(parts, waiting)


def _factor_disjunction(condition: exp.Or) -> list[exp.Expr]:
    branches = [split_conjuncts(branch) for branch in _split_branches(condition)]
    shared = set.intersection(*({get_form(part) for part in branch} for branch in branches))
    if not shared:
        return [condition]
    common = {get_form(part): part for part in branches[0] if get_form(part) in shared}
    rest = [build_conjunction(part for part in branch if get_form(part) not in shared) for branch in branches]
    left = [part for part in rest if part is not None]
    return [*common.values(), exp.or_(*left)] if len(left) == len(rest) else list(common.values())


def _split_branches(condition: exp.Expr) -> list[exp.Expr]:
    bare = condition.unnest()
    return [*_split_branches(bare.this), *_split_branches(bare.expression)] if isinstance(bare, exp.Or) else [bare]


def _collect_leaves(node: Node) -> tuple[list[Node], list[exp.Expr]]:
    """Lists the inputs of a tree of inner joins, and the conjuncts of all its join conditions."""
    if not isinstance(node, Join) or node.kind != "inner":
        return [node], []
    left, before = _collect_leaves(node.left)
    right, behind = _collect_leaves(node.right)
    return left + right, before + behind + split_conjuncts(node.on)


def _connect_parts(parts: Sequence[Node], conditions: Iterable[exp.Expr]) -> Node:
    joined, *left = parts
    waiting = list(conditions)
    while left:
        have = set(list_columns(joined))
        place = next(
            (at for at, part in enumerate(left) if _shares_condition(waiting, have, set(list_columns(part)))), 0
        )
        part = left.pop(place)
        here, waiting = _split_by_columns(waiting, have | set(list_columns(part)))
        joined = Join("inner", joined, part, build_conjunction(here))
    return apply_filter(joined, waiting)


def _shares_condition(conditions: Iterable[exp.Expr], have: set[str], more: set[str]) -> bool:
    read = (list_used_columns(condition) for condition in conditions if isinstance(condition, exp.EQ | exp.NullSafeEQ))
    return any(have.intersection(names) and more.intersection(names) and not set(names) - have - more for names in read)


def _split_by_columns(conditions: Iterable[exp.Expr], available: set[str]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Splits conditions into those that read only `available` columns, and the others."""
    here: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for condition in conditions:
        (here if available.issuperset(list_used_columns(condition)) else others).append(condition)
    return here, others
