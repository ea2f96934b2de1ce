"""Sums and counts of few groups, kept by adding to them what changes add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.incremental.average import average, is_averaged
from arctic_runtime.plan.incremental.conditions import conjunction
from arctic_runtime.plan.incremental.exact import digits, is_exact, is_whole
from arctic_runtime.plan.incremental.inferred import type_of
from arctic_runtime.plan.incremental.nulls import is_never_null, never_null
from arctic_runtime.plan.incremental.reach import changing, why_all
from arctic_runtime.plan.incremental.repeatable import is_repeatable
from arctic_runtime.plan.incremental.rules.apply import delta
from arctic_runtime.plan.incremental.rules.terms import changes, present, signed
from arctic_runtime.plan.incremental.scope import text
from arctic_runtime.plan.incremental.tree import (
    WEIGHT,
    Aggregate,
    Distinct,
    Filter,
    Given,
    Join,
    Node,
    Project,
    SemiJoin,
    column,
    columns,
    map_children,
)
from arctic_runtime.plan.incremental.unique import is_unique

TOTALS = "__arctic_totals"
"""The name of the groups' totals, from which `Totals.result` computes the rows that the query shows."""

ROWS = "__arctic_rows"
"""The total that is the number of a group's rows; a group with none is no group."""


@dataclass(frozen=True)
class Totals:
    """Totals are numbers that add up: counts, and sums of exact numbers, 0 where there is nothing to sum.

    `state` computes them for all groups of the sources as they are now, `moved` what the changes add to them, for
    the groups that they touch; both have the columns `keys` and then `names`, of which the first is ROWS. `result`
    has the query's columns and reads totals as `Given(TOTALS, (*keys, *names))`; each group gives it rows of its own.
    Without `keys` there is one group, which is there even when it is empty.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    state: Node
    moved: Node
    result: Node


def totals(tree: Node, key: tuple[str, ...], changed: frozenset[TableName], types: Mapping[str, str]) -> Totals | None:
    """Plans the maintenance of a result by its groups' totals; None where its rows do not follow from those.

    A sum of values whose type is not known is taken to be exact, so whoever keeps its total looks at the type that it
    has: a total is kept by adding if it is a whole number, or a decimal with fewer than 35 digits behind its point.
    """
    found = _changed_groups(tree, changed)
    if found is None or not is_unique(tree, key):
        return None
    groups = Aggregate(found.child, columns(found), ()) if isinstance(found, Distinct) else found
    if any(why_all(node, changed) for node in changing(groups.child, changed)):
        return None
    plan = _planned(tree, found, groups, changed, types)
    if plan is None or not all(is_repeatable(part, types) for part in (groups.child, plan.result)):
        return None
    return plan


def _changed_groups(node: Node, changed: frozenset[TableName]) -> Aggregate | Distinct | None:
    """The groups that all changes are in, where each row above is made of one of them and of what has not changed."""
    match node:
        case Aggregate() | Distinct():
            return node
        case Project(child=child) | Filter(child=child):
            return _changed_groups(child, changed)
        case Join(kind="inner", left=left, right=right):
            one, other = (left, right) if changes(left, changed) else (right, left)
        case Join(kind="left", left=one, right=other) | SemiJoin(left=one, right=other):
            pass
        case _:
            return None
    return None if changes(other, changed) else _changed_groups(one, changed)


def _planned(
    tree: Node, found: Node, groups: Aggregate, changed: frozenset[TableName], types: Mapping[str, str]
) -> Totals | None:
    kept = _Kept(types, never_null(groups.child, frozenset()), is_one=not groups.keys)
    values = [(name, _value(call, kept)) for name, call in groups.aggregates]
    made = tuple((name, value) for name, value in values if value is not None)
    if len(made) < len(values):
        return None
    names = (ROWS, *(name for name, _ in kept.made.values()))
    shown = Project(Given(TOTALS, (*groups.keys, *names)), (*((key, column(key)) for key in groups.keys), *made))
    return Totals(
        keys=groups.keys,
        names=names,
        state=_added_up(signed(groups.child, 1), groups.keys, kept),
        moved=_added_up(present(delta(groups.child, changed)), groups.keys, kept),
        result=_replaced(tree, found, shown),
    )


def _replaced(node: Node, old: Node, new: Node) -> Node:
    return new if node is old else map_children(node, lambda child: _replaced(child, old, new))


@dataclass
class _Kept:
    """Collects the totals that values are computed from: by its text, each one's name and what a row adds to it.

    `never_null` are columns of the rows that are grouped, `is_one` says that there is one group, which may be empty.
    """

    types: Mapping[str, str]
    never_null: frozenset[str]
    is_one: bool
    made: dict[str, tuple[str, exp.Expr]] = field(default_factory=dict)

    def count(self, condition: exp.Expr | None) -> exp.Column:
        """The number of rows for which a condition is true; without one, of all."""
        if condition is None:
            return column(ROWS)
        return self._total(exp.case().when(condition, column(WEIGHT)).else_(exp.Literal.number(0)))

    def sum(self, value: exp.Expr) -> exp.Column:
        """The sum of what is not null; whole numbers are widened so that each has an opposite."""
        is_whole_number = is_whole(type_of(value, self.types))
        wide = exp.cast(value, "bigint", dialect="spark") if is_whole_number else exp.paren(value)
        went = exp.LT(this=column(WEIGHT), expression=exp.Literal.number(0))
        return self._total(exp.case().when(went, exp.Neg(this=wide)).else_(wide))

    def if_any(self, count: exp.Column, value: exp.Expr) -> exp.Expr:
        """A value of those that are counted; null where there are none."""
        if count.name == ROWS and not self.is_one:
            return value
        return exp.case().when(exp.NEQ(this=count, expression=exp.Literal.number(0)), value)

    def _total(self, added: exp.Expr) -> exp.Column:
        name, _ = self.made.setdefault(text(added), (f"__arctic_total_{len(self.made) + 1}", added))
        return column(name)


def _added_up(rows: Node, keys: tuple[str, ...], kept: _Kept) -> Node:
    """The totals of a signed bag, by group. The zero is a number of few digits, which makes no type any wider."""
    zero = exp.cast(exp.Literal.number(0), "tinyint", dialect="spark")
    added = ((ROWS, column(WEIGHT)), *kept.made.values())
    sums = ((name, exp.Coalesce(this=exp.Sum(this=value), expressions=[zero.copy()])) for name, value in added)
    return Aggregate(rows, keys, tuple(sums))


def _value(call: exp.Expr, kept: _Kept) -> exp.Expr | None:
    """An aggregate in terms of totals; None where it does not follow from any."""
    condition = None
    if isinstance(call, exp.Filter):
        call, condition = call.this, call.expression.this
    make = _VALUES.get(type(call))
    parts = [part for part in (call.this, *call.expressions) if isinstance(part, exp.Expr)]
    if make is None or any(isinstance(part, _MODIFIERS) for part in parts):
        return None
    return make(parts, condition, kept)


_MODIFIERS = (exp.Distinct, exp.Order, exp.Limit, exp.HavingMax, exp.IgnoreNulls, exp.RespectNulls)


def _count(parts: list[exp.Expr], condition: exp.Expr | None, kept: _Kept) -> exp.Expr | None:
    return kept.count(_and_not_null(parts, condition, kept))


def _count_if(parts: list[exp.Expr], condition: exp.Expr | None, kept: _Kept) -> exp.Expr | None:
    return kept.count(conjunction((*_given(condition), *parts)))


def _sum(parts: list[exp.Expr], condition: exp.Expr | None, kept: _Kept) -> exp.Expr | None:
    (value,) = parts
    size = digits(type_of(value, kept.types))
    if is_exact(value, kept.types) is False or (size and size[1] > _MOST_BEHIND):
        return None
    return kept.if_any(kept.count(_and_not_null(parts, condition, kept)), kept.sum(_where(condition, value)))


def _avg(parts: list[exp.Expr], condition: exp.Expr | None, kept: _Kept) -> exp.Expr | None:
    (value,) = parts
    of_type = type_of(value, kept.types)
    if of_type is None or not is_averaged(of_type):
        return None
    count = kept.count(_and_not_null(parts, condition, kept))
    return average(kept.sum(_where(condition, value)), kept.if_any(count, count), of_type)


_VALUES: Mapping[type[exp.Expr], Callable[[list[exp.Expr], exp.Expr | None, _Kept], exp.Expr | None]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _avg,
}

_MOST_BEHIND = 35
"""Digits behind the point that a sum of decimals keeps when it stands beside a whole number of three digits."""


def _and_not_null(parts: list[exp.Expr], condition: exp.Expr | None, kept: _Kept) -> exp.Expr | None:
    asked = [part for part in parts if not isinstance(part, exp.Star) and not is_never_null(part, kept.never_null)]
    return conjunction((*_given(condition), *(exp.paren(part).is_(exp.null()).not_() for part in asked)))


def _given(condition: exp.Expr | None) -> tuple[exp.Expr, ...]:
    return () if condition is None else (condition,)


def _where(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    return value if condition is None else exp.case().when(condition, value)
