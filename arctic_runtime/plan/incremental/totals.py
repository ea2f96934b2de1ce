"""Sums, counts and extremes of few groups, kept by adding to them what changes add."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.incremental.aggregates import Kept, total
from arctic_runtime.plan.incremental.expressions import column
from arctic_runtime.plan.incremental.extremes import (
    Extreme,
    Values,
    came_and_went,
    extreme_of,
    made_good,
    netted,
)
from arctic_runtime.plan.incremental.nulls import never_null
from arctic_runtime.plan.incremental.pushdown import pushed_down
from arctic_runtime.plan.incremental.reach import changing, why_all
from arctic_runtime.plan.incremental.repeatable import is_repeatable
from arctic_runtime.plan.incremental.rules.apply import delta
from arctic_runtime.plan.incremental.rules.restrict import restrict
from arctic_runtime.plan.incremental.rules.terms import changes, present, project, signed
from arctic_runtime.plan.incremental.rules.witness import NOTHING_WORTH, Worth, reduced
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
    columns,
    map_children,
    scans,
    walk,
)
from arctic_runtime.plan.incremental.unique import is_unique

TOTALS = "__arctic_totals"
"""The name of the groups' totals, from which `Totals.result` computes the rows that the query shows."""

LOST = "__arctic_lost"
"""The name of the keys of groups whose totals are to be computed again."""

ROWS = "__arctic_rows"
"""The total that is the number of a group's rows; a group with none is no group."""


@dataclass(frozen=True)
class Totals:
    """Totals are numbers that add up, counts and sums of exact numbers, 0 where there is nothing to sum; and extremes.

    `state` computes them for all groups of the sources as they are now, `moved` what the changes add to them, for
    the groups that they touch; both have the columns `keys` and then `names`, of which the first is ROWS and the last
    are those of `extremes`; after them `moved` has what of these is gone. `again` is the state of lost groups, whose
    keys it reads as `Given(LOST, keys)`. `result` has the query's columns and reads totals as
    `Given(TOTALS, (*keys, *names))`; each group gives it rows of its own. Without `keys` there is one group, which is
    there even when it is empty.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    state: Node
    moved: Node
    again: Node
    result: Node
    extremes: tuple[Extreme, ...] = ()

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of those that add up."""
        return self.names[: len(self.names) - len(self.extremes)]

    def result_of(self, name: str) -> Node:
        """The result of totals that are at hand under another name."""
        given = next(node for node in walk(self.result) if isinstance(node, Given) and node.name == TOTALS)
        return _replaced(self.result, given, replace(given, name=name))


def totals(
    tree: Node,
    key: tuple[str, ...],
    changed: frozenset[TableName],
    types: Mapping[str, str],
    worth: Worth = NOTHING_WORTH,
) -> Totals | None:
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
    moved = reduced(groups.child, worth)
    plan = _planned(tree, found, groups, present(delta(moved, changed, worth)), types)
    if plan is None or not all(is_repeatable(part, types) for part in (groups.child, plan.result)):
        return None
    return plan


def possible_totals(tree: Node, key: tuple[str, ...], types: Mapping[str, str]) -> Iterator[Totals]:
    """All ways to keep a result by totals, whichever source changes.

    What is kept does not depend on what has changed as long as it is in the same groups.
    """
    found = pushed_down(tree)
    plans = (totals(found, key, frozenset({source}), types) for source in dict.fromkeys(s.source for s in scans(found)))
    return (plan for plan in plans if plan is not None)


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


def _planned(tree: Node, found: Node, groups: Aggregate, moved: Node, types: Mapping[str, str]) -> Totals | None:
    kept = Kept(ROWS, types, never_null(groups.child, frozenset()), is_one=not groups.keys)
    values = [(name, total(call, kept)) for name, call in groups.aggregates]
    made = tuple((name, value) for name, value in values if value is not None)
    if len(made) < len(values):
        return None
    extremes = tuple(extreme for extreme, _ in kept.extremes.values())
    names = (ROWS, *(name for name, _ in kept.made.values()), *(extreme.name for extreme in extremes))
    shown = Project(Given(TOTALS, (*groups.keys, *names)), (*((key, column(key)) for key in groups.keys), *made))
    state = _state(signed(groups.child, 1), groups.keys, kept)
    return Totals(
        keys=groups.keys,
        names=names,
        state=state,
        moved=_moved(moved, groups.keys, kept),
        again=restrict(state, groups.keys, Given(LOST, groups.keys)) if groups.keys else state,
        result=_replaced(tree, found, shown),
        extremes=extremes,
    )


def _replaced(node: Node, old: Node, new: Node) -> Node:
    return new if node is old else map_children(node, lambda child: _replaced(child, old, new))


def _state(rows: Node, keys: tuple[str, ...], kept: Kept) -> Node:
    """The totals of rows that are all there, with weights, by group."""
    extremes = ((extreme.name, extreme_of(extreme, value)) for extreme, value in kept.extremes.values())
    return Aggregate(rows, keys, (*_added_up(kept.made.values()), *extremes))


def _moved(rows: Node, keys: tuple[str, ...], kept: Kept) -> Node:
    """What a signed bag adds to totals, by group."""
    sums: Values = tuple(kept.made.values())
    extremes = [extreme for extreme, _ in kept.extremes.values()]
    if not extremes:
        return Aggregate(rows, keys, _added_up(sums))
    values: Values = [(extreme.name, value) for extreme, value in kept.extremes.values()]
    rows, sums, values = netted(rows, keys, sums, values)
    ends = [came_and_went(extreme, value) for extreme, (_, value) in zip(extremes, values, strict=True)]
    found = Aggregate(rows, keys, (*_added_up(sums), *(came for came, _ in ends), *(went for _, went in ends)))
    made = {extreme.gone: made_good(extreme) for extreme in extremes}
    return project(found, [(name, made.get(name, column(name))) for name in columns(found)])


def _added_up(added: Iterable[tuple[str, exp.Expr]]) -> tuple[tuple[str, exp.Expr], ...]:
    """The sums. The zero is a number of few digits, which makes no type any wider."""
    zero = exp.cast(exp.Literal.number(0), "tinyint", dialect="spark")
    found = ((ROWS, column(WEIGHT)), *added)
    return tuple((name, exp.Coalesce(this=exp.Sum(this=value), expressions=[zero.copy()])) for name, value in found)
