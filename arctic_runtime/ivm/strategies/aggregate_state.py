"""Plans maintenance by aggregate state: a run adds its changes to stored sums, counts and extremes of groups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.tree import (
    MULTIPLICITY,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    SemiJoin,
    SpoolScan,
    list_columns,
    list_scans,
    list_sources,
    map_children,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.ivm.rewrite.nullability import find_never_null
from arctic_runtime.ivm.rewrite.predicate_pushdown import push_down_filters
from arctic_runtime.ivm.rules.apply import derive_delta
from arctic_runtime.ivm.rules.inputs import Known
from arctic_runtime.ivm.rules.restrict import restrict_to_keys
from arctic_runtime.ivm.rules.runtime_filters import NO_FILTER_SOURCES, FilterSources, add_runtime_filters
from arctic_runtime.ivm.rules.terms import (
    has_changed,
    project_columns,
    read_image,
    rename_columns,
    require_term,
    to_zset,
)
from arctic_runtime.ivm.strategies.aggregates import (
    Extreme,
    StateColumns,
    Values,
    build_extreme,
    express_by_state,
    express_replaced,
    net_rows,
    split_added_removed,
)
from arctic_runtime.ivm.strategies.determinism import explain_full_invalidation, is_deterministic, walk_changing
from arctic_runtime.model.names import TableName

TOTALS = "__arctic_totals"
"""Name of the spool of the aggregate state, from which `AggregateState.result` computes the rows of the query."""

LOST = "__arctic_lost"
"""Name of the spool of the keys of lost groups, whose state has to be recomputed from the sources."""

ROWS = "__arctic_rows"
"""Column of the state with the number of a group's rows; a group without rows does not exist."""


@dataclass(frozen=True)
class AggregateState:
    """Plan of maintenance by aggregate state: stored sums of exact numbers, counts and extremes of each group.

    `state` is a tree that computes the state of all groups from the current sources. `state_changes` computes, for the
    changed groups, the amounts that a run must add to the state. Both trees have the columns `keys`, and then the
    columns `names`, of which the first is ROWS and the last are those of `extremes`. A sum without values is 0.
    `state_changes` also has the extremes of removed rows.

    `recomputed` computes the state of lost groups (see `Extreme`), whose keys it reads as `SpoolScan(LOST, keys)`.
    `result` has the query's columns and reads the state as `SpoolScan(TOTALS, (*keys, *names), keys)`. `old_result`
    does the same, but reads the sources outside of the groups as they were before the changes. If `by_group`, each
    result row follows from one group. Without `keys` there is one group, which exists even if it is empty.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    state: Node
    state_changes: Node
    recomputed: Node
    result: Node
    old_result: Node
    by_group: bool
    extremes: tuple[Extreme, ...] = ()

    @property
    def sums(self) -> tuple[str, ...]:
        """Names of the state's columns to which changes are added: all columns besides the keys and the extremes."""
        return self.names[: len(self.names) - len(self.extremes)]


def with_state_view(result: Node, name: str) -> Node:
    """Replaces scans of the spool TOTALS in `result` by scans of `name`, a view of the aggregate state."""
    if isinstance(result, SpoolScan):
        return replace(result, name=name) if result.name == TOTALS else result
    return map_children(result, lambda child: with_state_view(child, name))


def hash_state(plan: AggregateState) -> str:
    """Hash of the query that computes the aggregate state, by which a run decides whether a stored state is usable.

    The hash changes if the columns of the aggregate state, or their order, change.
    """
    return hashlib.sha256(render_sql(plan.state).encode()).hexdigest()[:16]


def plan_aggregate_state(
    tree: Node,
    key: tuple[str, ...],
    changed: frozenset[TableName],
    types: Mapping[str, str],
    filter_sources: FilterSources = NO_FILTER_SOURCES,
    few_row_sources: frozenset[TableName] = frozenset(),
) -> AggregateState | None:
    """Plans the maintenance of the result of `tree` by aggregate state; None if its rows can't be computed from state.

    `few_row_sources` are sources with so few rows that a run may compute the whole result from them and the state of
    all groups. It has to do so for window functions over groups and for comparisons between groups. It also has to do
    so if `key` is not proven to be unique, as with `coalesce(region, 'all')`, to notice two rows with the same key.

    A sum of values of unknown type counts as exact. The caller must check the type of such a column in the computed
    state: an integer, or a decimal with fewer than 35 fractional digits.
    """
    is_proven = is_unique(tree, key)
    plans = (
        _plan_followed(tree, groups, changed, types, filter_sources)
        for groups in _list_candidates(tree, changed, few_row_sources)
        if is_proven or not groups.by_group
    )
    return next((plan for plan in plans if plan is not None), None)


def list_aggregate_states(tree: Node, types: Mapping[str, str]) -> Iterator[AggregateState]:
    """Yields the plans by which aggregate state can maintain the result of `tree`, one for each suitable aggregate.

    Each is planned as if one of its sources had changed; the stored state is the same whichever source changes.
    """
    optimized = push_down_filters(tree)
    for node in walk_tree(optimized):
        if isinstance(node, Aggregate | Distinct) and list_scans(node):
            some = frozenset({list_scans(node)[0].source})
            plan = _plan_followed(optimized, _Groups((node,), by_group=False), some, types, NO_FILTER_SOURCES)
            if plan is not None:
                yield plan


@dataclass(frozen=True)
class _Groups:
    """Operators of a tree that compute the same groups, apart from column names.

    All changed sources are below these operators. If `by_group`, each result row follows from one group.
    """

    nodes: tuple[Aggregate | Distinct, ...]
    by_group: bool

    @property
    def first(self) -> Aggregate:
        node = self.nodes[0]
        return Aggregate(node.child, list_columns(node), ()) if isinstance(node, Distinct) else node


def _list_candidates(
    tree: Node, changed: frozenset[TableName], few_row_sources: frozenset[TableName]
) -> Iterator[_Groups]:
    """Yields candidates for groups from whose aggregate state the result of a tree can be computed.

    Groups come first if each result row follows from one of them. Others are candidates only if all sources outside of
    the groups are in `few_row_sources`.
    """
    apart = _find_changed_groups(tree, changed)
    if apart is not None:
        yield _Groups((apart,), by_group=True)
    for node in walk_tree(tree):
        if isinstance(node, Aggregate | Distinct) and has_changed(node, changed):
            groups = _Groups(_find_alike_groups(tree, node), by_group=False)
            rest = _replace_nodes(tree, dict.fromkeys(groups.nodes, OneRow()))
            if list_sources(rest) <= few_row_sources:
                yield groups


def _find_changed_groups(node: Node, changed: frozenset[TableName]) -> Aggregate | Distinct | None:
    """Finds the operator that computes groups and is above all changed sources.

    None if a row of the result may follow from several groups, or from changed rows outside of the groups.
    """
    match node:
        case Aggregate() | Distinct():
            return node
        case Projection(child=child) | Filter(child=child):
            return _find_changed_groups(child, changed)
        case Join(kind="inner", left=left, right=right):
            one, other = (left, right) if has_changed(left, changed) else (right, left)
        case Join(kind="left", left=one, right=other) | SemiJoin(left=one, right=other):
            pass
        case _:
            return None
    return None if has_changed(other, changed) else _find_changed_groups(one, changed)


def _find_alike_groups(tree: Node, groups: Aggregate | Distinct) -> tuple[Aggregate | Distinct, ...]:
    """Returns `groups` and the operators in `tree` that compute the same rows, apart from column names."""
    wanted = _rename_freshly(groups)
    others = [node for node in walk_tree(tree) if isinstance(node, Aggregate | Distinct) and node is not groups]
    similar = (node for node in others if list_sources(node) == list_sources(groups))
    return (groups, *(node for node in similar if _rename_freshly(node) == wanted))


def _rename_freshly(node: Node) -> Node:
    return with_fresh_attributes(Derived(node, ()), Names()).node


def _plan_followed(
    tree: Node,
    candidate: _Groups,
    changed: frozenset[TableName],
    types: Mapping[str, str],
    filter_sources: FilterSources,
) -> AggregateState | None:
    groups = candidate.first
    if any(explain_full_invalidation(node, changed, types) for node in walk_changing(groups.child, changed)):
        return None
    moved = add_runtime_filters(groups.child, filter_sources)
    plan = _plan_state(
        tree, candidate, require_term(derive_delta(moved, changed, filter_sources, Known(types))), changed, types
    )
    if plan is None or not all(is_deterministic(part, types) for part in (groups.child, plan.result)):
        return None
    return plan


def _plan_state(
    tree: Node, candidate: _Groups, moved: Node, changed: frozenset[TableName], types: Mapping[str, str]
) -> AggregateState | None:
    groups = candidate.first
    state_columns = StateColumns(ROWS, types, find_never_null(groups.child, frozenset()), is_one=not groups.keys)
    values = [(name, express_by_state(call, state_columns)) for name, call in groups.aggregates]
    made = tuple((name, value) for name, value in values if value is not None)
    if len(made) < len(values):
        return None
    extremes = tuple(extreme for extreme, _ in state_columns.extremes.values())
    names = (ROWS, *(name for name, _ in state_columns.made.values()), *(extreme.name for extreme in extremes))
    kept_rows = SpoolScan(TOTALS, (*groups.keys, *names), groups.keys)
    shown = Projection(kept_rows, (*((key, build_column(key)) for key in groups.keys), *made))
    result = _replace_nodes(tree, {node: rename_columns(shown, list_columns(node)) for node in candidate.nodes})
    state = _build_state(to_zset(groups.child, 1), groups.keys, state_columns)
    return AggregateState(
        keys=groups.keys,
        names=names,
        state=state,
        state_changes=_build_state_change(moved, groups.keys, state_columns),
        recomputed=restrict_to_keys(state, groups.keys, SpoolScan(LOST, groups.keys)) if groups.keys else state,
        result=result,
        old_result=read_image(result, "old", changed),
        by_group=candidate.by_group,
        extremes=extremes,
    )


def _replace_nodes(node: Node, made: Mapping[Node, Node]) -> Node:
    """Returns the tree with each operator that is a key of `made` replaced by its value."""
    if isinstance(node, Aggregate | Distinct) and node in made:
        return made[node]
    return map_children(node, lambda child: _replace_nodes(child, made))


def _build_state(rows: Node, keys: tuple[str, ...], state_columns: StateColumns) -> Node:
    """Builds the tree that computes the state of each group of `keys` from `rows`, a Z-set without removed rows.

    `state_columns` has the columns of the state and their expressions.
    """
    extremes = ((extreme.name, build_extreme(extreme, value)) for extreme, value in state_columns.extremes.values())
    return Aggregate(rows, keys, (*_sum_added(state_columns.made.values()), *extremes))


def _build_state_change(rows: Node, keys: tuple[str, ...], state_columns: StateColumns) -> Node:
    """Builds the tree that computes the change of each group's state from `rows`, a Z-set of added and removed rows.

    `state_columns` has the columns of the state and their expressions.
    """
    sums: Values = tuple(state_columns.made.values())
    extremes = [extreme for extreme, _ in state_columns.extremes.values()]
    if not extremes:
        return Aggregate(rows, keys, _sum_added(sums))
    values: Values = [(extreme.name, value) for extreme, value in state_columns.extremes.values()]
    rows, sums, values = net_rows(rows, keys, sums, values)
    ends = [split_added_removed(extreme, value) for extreme, (_, value) in zip(extremes, values, strict=True)]
    grouped = Aggregate(rows, keys, (*_sum_added(sums), *(came for came, _ in ends), *(went for _, went in ends)))
    made = {extreme.removed_extreme: express_replaced(extreme) for extreme in extremes}
    return project_columns(grouped, [(name, made.get(name, build_column(name))) for name in list_columns(grouped)])


def _sum_added(added: Iterable[tuple[str, exp.Expr]]) -> tuple[tuple[str, exp.Expr], ...]:
    """Builds the aggregate calls of the state's sums, ROWS included; a sum without values is 0.

    `added` has the name of each column, and the expression that each row adds to the sum. The 0 is a tinyint, so that
    it does not change the type of a sum.
    """
    zero = exp.cast(exp.Literal.number(0), "tinyint", dialect="spark")
    additions = ((ROWS, build_column(MULTIPLICITY)), *added)
    return tuple((name, exp.Coalesce(this=exp.Sum(this=value), expressions=[zero.copy()])) for name, value in additions)
