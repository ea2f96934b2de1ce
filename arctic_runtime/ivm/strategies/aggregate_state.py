"""Aggregate state: stored sums, counts and extremes of few groups, to which a run adds the changes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import column
from arctic_runtime.ivm.algebra.tree import (
    MULTIPLICITY,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    OneRow,
    Project,
    SemiJoin,
    SpoolScan,
    columns,
    map_children,
    scans,
    sources,
    walk,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.render import render
from arctic_runtime.ivm.rewrite.nullability import never_null
from arctic_runtime.ivm.rewrite.predicate_pushdown import pushed_down
from arctic_runtime.ivm.rules.apply import delta
from arctic_runtime.ivm.rules.inputs import Known
from arctic_runtime.ivm.rules.restrict import restrict
from arctic_runtime.ivm.rules.runtime_filters import NO_FILTER_SOURCES, FilterSources, reduced
from arctic_runtime.ivm.rules.terms import at, changes, present, project, rename, signed
from arctic_runtime.ivm.strategies.aggregates import Kept, total
from arctic_runtime.ivm.strategies.determinism import is_deterministic
from arctic_runtime.ivm.strategies.extremes import Extreme, Values, added_and_removed, extreme_of, made_good, netted
from arctic_runtime.ivm.strategies.invalidation import changing, why_all
from arctic_runtime.model.names import TableName

TOTALS = "__arctic_totals"
"""The spool of the aggregate state, from which `AggregateState.result` computes the rows of the query."""

LOST = "__arctic_lost"
"""The spool of the keys of groups whose state has to be recomputed from the sources."""

ROWS = "__arctic_rows"
"""The column that counts a group's rows; a group without rows does not exist."""


@dataclass(frozen=True)
class AggregateState:
    """Aggregate state: counts and sums of exact numbers, 0 where there is nothing to sum, and extremes.

    `state` computes it for all groups of the current sources; `moved` computes what the changes add, for the groups
    that changed. Both have the columns `keys` and then `names`, of which the first is ROWS and the last are those of
    `extremes`; `moved` also has the extremes of removed rows. `recomputed` is the state of lost groups, whose keys it
    reads as `SpoolScan(LOST, keys)`. `result` has the query's columns and reads the state as
    `SpoolScan(TOTALS, (*keys, *names), keys)`; so does `was`, over the other sources as they were. If `by_group`, each
    result row follows from one group. Without `keys` there is one group, which exists even if it is empty.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    state: Node
    moved: Node
    recomputed: Node
    result: Node
    was: Node
    by_group: bool
    extremes: tuple[Extreme, ...] = ()

    @property
    def sums(self) -> tuple[str, ...]:
        """The names of the columns to which changes are added: all besides the extremes."""
        return self.names[: len(self.names) - len(self.extremes)]


def with_state_view(result: Node, name: str) -> Node:
    """The same result over an aggregate state that has another name."""
    if isinstance(result, SpoolScan):
        return replace(result, name=name) if result.name == TOTALS else result
    return map_children(result, lambda child: with_state_view(child, name))


def fingerprint(plan: AggregateState) -> str:
    """A hash that changes if the columns of the aggregate state, or their order, change."""
    return hashlib.sha256(render(plan.state).encode()).hexdigest()[:16]


def plan_aggregate_state(
    tree: Node,
    key: tuple[str, ...],
    changed: frozenset[TableName],
    types: Mapping[str, str],
    filter_sources: FilterSources = NO_FILTER_SOURCES,
    few_row_sources: frozenset[TableName] = frozenset(),
) -> AggregateState | None:
    """Plans the maintenance of a result by aggregate state; None if its rows do not follow from such state.

    `few_row_sources` are sources with so few rows that the result of these and of the whole state may be computed in
    full, which windows over groups and comparisons between groups need. So does a key that is not proven to be unique,
    such as `coalesce(region, 'all')`: all rows of the result are compared, so that two of one key are noticed.

    A sum of values of unknown type counts as exact. The caller checks the type of the computed state: it must be a
    whole number, or a decimal with fewer than 35 fractional digits.
    """
    is_proven = is_unique(tree, key)
    found = (
        _followed(tree, groups, changed, types, filter_sources)
        for groups in _candidates(tree, changed, few_row_sources)
        if is_proven or not groups.by_group
    )
    return next((plan for plan in found if plan is not None), None)


def possible_aggregate_states(tree: Node, types: Mapping[str, str]) -> Iterator[AggregateState]:
    """All plans that maintain a result by aggregate state, whichever source changes.

    The state depends on the groups, not on the changed source.
    """
    found = pushed_down(tree)
    for node in walk(found):
        if isinstance(node, Aggregate | Distinct) and scans(node):
            some = frozenset({scans(node)[0].source})
            plan = _followed(found, _Groups((node,), by_group=False), some, types, NO_FILTER_SOURCES)
            if plan is not None:
                yield plan


@dataclass(frozen=True)
class _Groups:
    """Groups that contain all changes; the `nodes` of the tree that compute them differ only in column names."""

    nodes: tuple[Aggregate | Distinct, ...]
    by_group: bool

    @property
    def first(self) -> Aggregate:
        node = self.nodes[0]
        return Aggregate(node.child, columns(node), ()) if isinstance(node, Distinct) else node


def _candidates(tree: Node, changed: frozenset[TableName], few_row_sources: frozenset[TableName]) -> Iterator[_Groups]:
    """Groups from which a tree can be computed; first the groups that each give result rows of their own."""
    apart = _changed_groups(tree, changed)
    if apart is not None:
        yield _Groups((apart,), by_group=True)
    for node in walk(tree):
        if isinstance(node, Aggregate | Distinct) and changes(node, changed):
            groups = _Groups(_alike(tree, node), by_group=False)
            rest = _over(tree, dict.fromkeys(groups.nodes, OneRow()))
            if sources(rest) <= few_row_sources:
                yield groups


def _changed_groups(node: Node, changed: frozenset[TableName]) -> Aggregate | Distinct | None:
    """The groups that contain all changes, if each row above follows from one group and from unchanged rows."""
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


def _alike(tree: Node, groups: Aggregate | Distinct) -> tuple[Aggregate | Distinct, ...]:
    """The groups, and all others that differ only in column names."""
    wanted = _renamed(groups)
    others = [node for node in walk(tree) if isinstance(node, Aggregate | Distinct) and node is not groups]
    similar = (node for node in others if sources(node) == sources(groups))
    return (groups, *(node for node in similar if _renamed(node) == wanted))


def _renamed(node: Node) -> Node:
    return with_fresh_attributes(Derived(node, ()), Names()).node


def _followed(
    tree: Node, found: _Groups, changed: frozenset[TableName], types: Mapping[str, str], filter_sources: FilterSources
) -> AggregateState | None:
    groups = found.first
    if any(why_all(node, changed, types) for node in changing(groups.child, changed)):
        return None
    moved = reduced(groups.child, filter_sources)
    plan = _planned(tree, found, present(delta(moved, changed, filter_sources, Known(types))), changed, types)
    if plan is None or not all(is_deterministic(part, types) for part in (groups.child, plan.result)):
        return None
    return plan


def _planned(
    tree: Node, found: _Groups, moved: Node, changed: frozenset[TableName], types: Mapping[str, str]
) -> AggregateState | None:
    groups = found.first
    kept = Kept(ROWS, types, never_null(groups.child, frozenset()), is_one=not groups.keys)
    values = [(name, total(call, kept)) for name, call in groups.aggregates]
    made = tuple((name, value) for name, value in values if value is not None)
    if len(made) < len(values):
        return None
    extremes = tuple(extreme for extreme, _ in kept.extremes.values())
    names = (ROWS, *(name for name, _ in kept.made.values()), *(extreme.name for extreme in extremes))
    kept_rows = SpoolScan(TOTALS, (*groups.keys, *names), groups.keys)
    shown = Project(kept_rows, (*((key, column(key)) for key in groups.keys), *made))
    result = _over(tree, {node: rename(shown, columns(node)) for node in found.nodes})
    state = _state(signed(groups.child, 1), groups.keys, kept)
    return AggregateState(
        keys=groups.keys,
        names=names,
        state=state,
        moved=_moved(moved, groups.keys, kept),
        recomputed=restrict(state, groups.keys, SpoolScan(LOST, groups.keys)) if groups.keys else state,
        result=result,
        was=at(result, "old", changed),
        by_group=found.by_group,
        extremes=extremes,
    )


def _over(node: Node, made: Mapping[Node, Node]) -> Node:
    """The same tree with some nodes replaced."""
    if isinstance(node, Aggregate | Distinct) and node in made:
        return made[node]
    return map_children(node, lambda child: _over(child, made))


def _state(rows: Node, keys: tuple[str, ...], kept: Kept) -> Node:
    """The state of a Z-set by group, for rows of which none is removed."""
    extremes = ((extreme.name, extreme_of(extreme, value)) for extreme, value in kept.extremes.values())
    return Aggregate(rows, keys, (*_added_up(kept.made.values()), *extremes))


def _moved(rows: Node, keys: tuple[str, ...], kept: Kept) -> Node:
    """What a Z-set adds to the state, by group."""
    sums: Values = tuple(kept.made.values())
    extremes = [extreme for extreme, _ in kept.extremes.values()]
    if not extremes:
        return Aggregate(rows, keys, _added_up(sums))
    values: Values = [(extreme.name, value) for extreme, value in kept.extremes.values()]
    rows, sums, values = netted(rows, keys, sums, values)
    ends = [added_and_removed(extreme, value) for extreme, (_, value) in zip(extremes, values, strict=True)]
    found = Aggregate(rows, keys, (*_added_up(sums), *(came for came, _ in ends), *(went for _, went in ends)))
    made = {extreme.gone: made_good(extreme) for extreme in extremes}
    return project(found, [(name, made.get(name, column(name))) for name in columns(found)])


def _added_up(added: Iterable[tuple[str, exp.Expr]]) -> tuple[tuple[str, exp.Expr], ...]:
    """The sums. The zero is a number of few digits, which makes no type any wider."""
    zero = exp.cast(exp.Literal.number(0), "tinyint", dialect="spark")
    found = ((ROWS, column(MULTIPLICITY)), *added)
    return tuple((name, exp.Coalesce(this=exp.Sum(this=value), expressions=[zero.copy()])) for name, value in found)
