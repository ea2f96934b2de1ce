"""Replaces join conditions that a rule must not evaluate by conditions that it can evaluate safely.

A rule evaluates a join condition again, also for rows that exist neither before nor after the changes. So the condition
must give the same result again, and must not raise an error for such rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from sqlglot import exp

from arctic_runtime.ivm.algebra.conditions import build_conjunction, list_hash_links, split_conjuncts
from arctic_runtime.ivm.algebra.expressions import build_column, list_used_columns
from arctic_runtime.ivm.algebra.failing import can_fail
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Join, Node, Projection, SemiJoin, list_columns
from arctic_runtime.ivm.algebra.unique import has_single_row
from arctic_runtime.ivm.rules.existing_rows import has_only_existing
from arctic_runtime.ivm.rules.inputs import Inputs, has_changes

_Joined = TypeVar("_Joined", Join, SemiJoin)

_LINK = "__arctic_link_"


def close_condition(node: _Joined, inputs: Inputs) -> _Joined:
    """Removes conditions of a join that read columns in `known.chosen` or can raise an error.

    The returned join may have more pairs. If an equality can raise an error, its sides are not removed but computed
    below the join, only for rows that exist before or after the changes. Raises NotMaintained if the join had an
    equality of both sides and has none left.
    """
    parts_of_on = split_conjuncts(node.on)
    closed = [part for part in parts_of_on if inputs.known.chosen.isdisjoint(list_used_columns(part))]
    if len(closed) < len(parts_of_on):
        _check_link_remains(node, closed, inputs)
    risky = [part for part in closed if _can_fail(part, node, inputs)]
    if len(closed) == len(parts_of_on) and not risky:
        return node
    sides = [(node.left, dict[str, exp.Expr]()), (node.right, dict[str, exp.Expr]())]
    equal = list_hash_links(build_conjunction(risky), list_columns(node.left), list_columns(node.right))
    safe_parts = [part for part in closed if part not in risky]
    for part in equal:
        safe_parts.append(
            type(part)(this=_compute_below(part.this, sides), expression=_compute_below(part.expression, sides))
        )
    left, right = (_add_computed(side, made) for side, made in sides)
    return replace(node, left=left, right=right, on=build_conjunction(safe_parts))


def _can_fail(part: exp.Expr, node: Join | SemiJoin, inputs: Inputs) -> bool:
    sides = (part.this, part.expression) if isinstance(part, exp.EQ | exp.NullSafeEQ) else (part,)
    if not any(can_fail(side, inputs.known.types) for side in sides):
        return False
    read = list_used_columns(part)
    return not all(
        has_only_existing(side, tuple(name for name in read if name in list_columns(side)), inputs)
        for side in (node.left, node.right)
    )


def _compute_below(value: exp.Expr, sides: list[tuple[Node, dict[str, exp.Expr]]]) -> exp.Expr:
    """Adds `value`, one side of an equality, to the computed columns of the input that it reads.

    `sides` are the inputs of the join, each with its computed columns, to which the new one is added. Returns the new
    column.
    """
    made = next(made for side, made in sides if set(list_used_columns(value)) <= set(list_columns(side)))
    name = f"{_LINK}{sum(len(added_columns) for _, added_columns in sides)}"
    made[name] = value
    return build_column(name)


def _add_computed(side: Node, made: dict[str, exp.Expr]) -> Node:
    own = ((name, build_column(name)) for name in list_columns(side))
    return Projection(side, (*own, *made.items())) if made else side


def _check_link_remains(node: Join | SemiJoin, closed: list[exp.Expr], inputs: Inputs) -> None:
    """Raises NotMaintained if the join had an equality of both sides, but its remaining conditions `closed` have none.

    Any row could then be the partner of a changed row. Also raises it if the right side of a semi or anti join is a
    single row that has changed.
    """
    names = list_columns(node.left), list_columns(node.right)
    was_linked, is_linked = (bool(list_hash_links(on, *names)) for on in (node.on, build_conjunction(closed)))
    is_judged = isinstance(node, SemiJoin) and has_single_row(node) and has_changes(node.right, inputs)
    if is_judged or was_linked > is_linked:
        raise NotMaintained("NOT_REPEATABLE", "a join compares a value that may differ if it is recomputed")
