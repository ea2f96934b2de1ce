"""Joins as they are followed: by conditions that say the same whenever they are computed, and of whichever rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import conjunction, conjuncts, links
from arctic_runtime.ivm.algebra.expressions import column, used
from arctic_runtime.ivm.algebra.failing import can_fail
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Join, Node, Project, SemiJoin, columns
from arctic_runtime.ivm.algebra.unique import has_single_row
from arctic_runtime.ivm.rules.existing_rows import has_only_real
from arctic_runtime.ivm.rules.inputs import Inputs, has_changes

_Joined = TypeVar("_Joined", Join, SemiJoin)

_LINK = "__arctic_link_"


def linked(node: _Joined, of: Inputs) -> _Joined:
    """The same join, perhaps of more pairs, without conditions on what is chosen; what links its sides cannot fail.

    An equality that can fail is computed below, of no rows but those that are there or were.
    """
    found = conjuncts(node.on)
    closed = [part for part in found if of.known.chosen.isdisjoint(used(part))]
    if len(closed) < len(found):
        _check(node, closed, of)
    risky = [part for part in closed if _can_fail(part, node, of)]
    if len(closed) == len(found) and not risky:
        return node
    sides = [(node.left, dict[str, exp.Expr]()), (node.right, dict[str, exp.Expr]())]
    equal = links(conjunction(risky), columns(node.left), columns(node.right))
    kept = [part for part in closed if part not in risky]
    for part in equal:
        kept.append(type(part)(this=_below(part.this, sides), expression=_below(part.expression, sides)))
    left, right = (_with(side, made) for side, made in sides)
    return replace(node, left=left, right=right, on=conjunction(kept))


def _can_fail(part: exp.Expr, node: Join | SemiJoin, of: Inputs) -> bool:
    sides = (part.this, part.expression) if isinstance(part, exp.EQ | exp.NullSafeEQ) else (part,)
    if not any(can_fail(side, of.known.types) for side in sides):
        return False
    read = used(part)
    return not all(
        has_only_real(side, tuple(name for name in read if name in columns(side)), of)
        for side in (node.left, node.right)
    )


def _below(value: exp.Expr, sides: list[tuple[Node, dict[str, exp.Expr]]]) -> exp.Expr:
    """One side of an equality as a column of the input that it is computed of."""
    made = next(made for side, made in sides if set(used(value)) <= set(columns(side)))
    name = f"{_LINK}{sum(len(found) for _, found in sides)}"
    made[name] = value
    return column(name)


def _with(side: Node, made: dict[str, exp.Expr]) -> Node:
    own = ((name, column(name)) for name in columns(side))
    return Project(side, (*own, *made.items())) if made else side


def _check(node: Join | SemiJoin, closed: list[exp.Expr], of: Inputs) -> None:
    """Raises NotMaintained where nothing is left that tells which partners rows may have had."""
    names = columns(node.left), columns(node.right)
    was_linked, is_linked = (bool(links(on, *names)) for on in (node.on, conjunction(closed)))
    is_judged = isinstance(node, SemiJoin) and has_single_row(node) and has_changes(node.right, of)
    if is_judged or was_linked > is_linked:
        raise NotMaintained("NOT_REPEATABLE", "a join compares a value that may differ if it is recomputed")
