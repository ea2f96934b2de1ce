"""Conditions moved to where they apply: into the joins of a FROM clause and below them.

Joins written with commas keep their conditions in WHERE, where no rule would see an equality of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction
from arctic_runtime.ivm.algebra.expressions import form, used
from arctic_runtime.ivm.algebra.tree import Filter, Join, Node, columns


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that all have to hold; what every branch of an OR asks for is one of its own."""
    if condition is None:
        return []
    bare = condition.unnest()
    if isinstance(bare, exp.And):
        return [*conjuncts(bare.this), *conjuncts(bare.expression)]
    return _factored(bare) if isinstance(bare, exp.Or) else [bare]


def filtered(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """The rows for which all conditions hold."""
    condition = conjunction(conditions)
    return node if condition is None else Filter(node, condition)


def arrange(node: Node, conditions: Sequence[exp.Expr]) -> Node:
    """The rows of inner joins for which all conditions hold, joined so that each one shares a condition if it can."""
    leaves, own = _leaves(node)
    if len(leaves) == 1:
        return filtered(node, conditions)
    waiting = [*own, *conditions]
    parts = []
    for leaf in leaves:
        here, waiting = _split(waiting, set(columns(leaf)))
        parts.append(filtered(leaf, [part for part in here if used(part)]))
        waiting = [part for part in here if not used(part)] + waiting
    return _connected(parts, waiting)


def _factored(condition: exp.Or) -> list[exp.Expr]:
    branches = [conjuncts(branch) for branch in _branches(condition)]
    shared = set.intersection(*({form(part) for part in branch} for branch in branches))
    if not shared:
        return [condition]
    common = {form(part): part for part in branches[0] if form(part) in shared}
    rest = [conjunction(part for part in branch if form(part) not in shared) for branch in branches]
    left = [part for part in rest if part is not None]
    return [*common.values(), exp.or_(*left)] if len(left) == len(rest) else list(common.values())


def _branches(condition: exp.Expr) -> list[exp.Expr]:
    bare = condition.unnest()
    return [*_branches(bare.this), *_branches(bare.expression)] if isinstance(bare, exp.Or) else [bare]


def _leaves(node: Node) -> tuple[list[Node], list[exp.Expr]]:
    """What a tree of inner joins joins, and under which conditions."""
    if not isinstance(node, Join) or node.kind != "inner":
        return [node], []
    left, before = _leaves(node.left)
    right, behind = _leaves(node.right)
    return left + right, before + behind + conjuncts(node.on)


def _connected(parts: Sequence[Node], conditions: Iterable[exp.Expr]) -> Node:
    found, *left = parts
    waiting = list(conditions)
    while left:
        have = set(columns(found))
        place = next((at for at, part in enumerate(left) if _shares(waiting, have, set(columns(part)))), 0)
        part = left.pop(place)
        here, waiting = _split(waiting, have | set(columns(part)))
        found = Join("inner", found, part, conjunction(here))
    return filtered(found, waiting)


def _shares(conditions: Iterable[exp.Expr], have: set[str], more: set[str]) -> bool:
    read = (used(condition) for condition in conditions if isinstance(condition, exp.EQ | exp.NullSafeEQ))
    return any(have.intersection(names) and more.intersection(names) and not set(names) - have - more for names in read)


def _split(conditions: Iterable[exp.Expr], available: set[str]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Those that read nothing but `available`, and the others."""
    here: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for condition in conditions:
        (here if available.issuperset(used(condition)) else others).append(condition)
    return here, others
