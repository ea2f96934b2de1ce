"""Builds the incremental plan of a run of one model, from the model's analysed query and its changed sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from arctic_runtime.ivm.algebra.clock import CLOCK, DATES, is_between_times, pin_clock
from arctic_runtime.ivm.algebra.refusal import NotMaintained, refuse_on_error
from arctic_runtime.ivm.algebra.tree import (
    Filter,
    Node,
    Projection,
    Scan,
    SpoolScan,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.reads import Reads
from arctic_runtime.ivm.frontend.scope import Relation, ViewText
from arctic_runtime.ivm.render import draw_outline
from arctic_runtime.ivm.rewrite.predicate_pushdown import check_clock_places
from arctic_runtime.ivm.rewrite.semi_join_reducers import SemiJoinReducer, add_reducers
from arctic_runtime.ivm.rewrite.statistics import SourceStatistics, Statistics
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState, hash_state
from arctic_runtime.ivm.strategies.determinism import is_deterministic
from arctic_runtime.ivm.strategies.maintain import (
    AffectedKeys,
    Deltas,
    Facts,
    Maintenance,
    Spool,
    plan_maintenance,
    with_spools,
)
from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.model.columns import is_same_name, strip_change_columns
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.readable_columns import check_defaults, check_images
from arctic_runtime.plan.refresh.window_rows import check_changed_share, check_window, has_before_images
from arctic_runtime.thresholds import SHIPPED, IncrementalThresholds, JoinThresholds, ServiceThresholds, Thresholds

NO_TABLE = TableState()
"""State of a model whose tables do not exist yet."""

_WAYS: Mapping[type[Maintenance], str] = {
    Deltas: "changed rows are joined to the rest of the query",
    Pairs: "changed rows are joined to the rest of the query, each together with what it was before",
    AggregateState: "what changes add to the sums, counts and extremes of each group is added to those that are kept",
    AffectedKeys: "the keys of rows that may differ are worked out, and these rows are computed again",
}


@dataclass(frozen=True)
class Upstreams:
    """Observed sources of a model, by name."""

    states: Mapping[str, SourceState | None] = field(default_factory=dict)
    """States of tables; None for one that does not exist or can't be observed, as a table that is no Iceberg table."""

    reads: Reads = field(default_factory=Reads)
    """The tables that the query names."""

    views: Mapping[str, str] = field(default_factory=dict)
    """SQL texts of views."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """SQL settings of the dbt profile, without those of catalogs."""

    clock: int = 0
    """The time that the run pins for its query, in microseconds since 1970."""

    former: Mapping[str, SourceState | None] = field(default_factory=dict)
    """States of the tables that the query of the last run read and this one does not; empty if it is not known."""

    own: SourceState | None = None
    """State of the model's own table, as that of an upstream; None if its last run had the same query."""

    def count_seconds_to_renewal(self, last: RunSummary | None, limits: ServiceThresholds) -> float | None:
        """Number of seconds after which the result may differ because time has passed; None if it never does.

        A query that reads only the day may differ on the next day, in the time zone of the `last` run.
        """
        if not self.reads.clocks:
            return None
        if not DATES.issuperset(self.reads.clocks):
            return limits.clock_seconds
        reading = last.clock if last else None
        seconds = reading.count_seconds_to_next_day(self.clock) if reading else None
        return limits.unknown_day_seconds if seconds is None else seconds

    def has_moved_clock(self, last: RunSummary | None) -> bool:
        """Whether the query reads the clock, and may have another result since the `last` run for this reason alone."""
        is_by_day = DATES.issuperset(self.reads.clocks)
        reading = last.clock if last else None
        return bool(self.reads.clocks) and (reading is None or reading.has_moved(self.clock, is_by_day))

    @property
    def reassigned_columns(self) -> tuple[str, ...]:
        """Lists the columns of the sources that were renamed, recreated, or given another type, sorted.

        Each is a text that begins with `table.column`, followed by the column's id or its type.
        """
        columns = [
            f"{name}.{column}" for name, state in self.states.items() if state for column in state.reassigned_columns
        ]
        return tuple(sorted(columns))


@dataclass(frozen=True)
class Increment:
    """The incremental plan of one run."""

    maintenance: Maintenance
    """The trees that the run computes.

    They read the semi-join reducers and the spools. All trees have join hints, except those that read affected keys,
    whose number is not known in advance.
    """

    outputs: tuple[tuple[str, str], ...]
    """Pairs of a column name of the query and the column of the tree."""

    key: tuple[str, ...]
    """The tree's column for each column of the table's key; a column that the query selects twice can occur twice."""

    tree: Node
    """Operator tree of the query."""

    changed: frozenset[TableName]
    """Sources of the query that have changed."""

    reducers: tuple[SemiJoinReducer, ...] = ()
    """Semi-join reducers, in the order in which they must be computed."""

    spools: tuple[Spool, ...] = ()
    """Parts of the plan that are computed once and read several times; the reducers read them as well."""

    types: Mapping[str, str] = field(default_factory=dict)
    """Types of the query's columns, as far as they are known."""

    @property
    def is_deterministic(self) -> bool:
        """Whether the query returns the same rows whenever it is computed from the same rows of its sources."""
        return is_deterministic(self.tree, self.types)

    @property
    def trees(self) -> tuple[Node, ...]:
        match self.maintenance:
            case Deltas(changes):
                return (changes,)
            case Pairs(rows):
                return (rows,)
            case AggregateState(state=state, state_changes=state_changes, result=result, old_result=old_result):
                return (state, state_changes, result, old_result)
            case AffectedKeys(affected, new):
                return (affected, new)

    @property
    def change_scans(self) -> tuple[Scan, ...]:
        """Lists the scans of an incremental run, on the assumption that aggregate state is already stored."""
        return tuple(scan for tree in self._change_trees for scan in list_scans(tree))

    @property
    def slice_scans(self) -> tuple[Scan, ...]:
        """Lists those of `change_scans` that read only rows between two times, because the clock has moved."""
        nodes = (node for tree in self._change_trees for node in walk_tree(tree))
        slices = (node for node in nodes if isinstance(node, Filter) and is_between_times(node.condition))
        return tuple(scan for node in slices if (scan := _find_filtered_scan(node)) is not None)

    @property
    def _change_trees(self) -> tuple[Node, ...]:
        maintenance = self.maintenance
        trees = (
            (maintenance.state_changes, maintenance.result, maintenance.old_result)
            if isinstance(maintenance, AggregateState)
            else self.trees
        )
        parts = (tree for part in self.reducers for tree in (part.full_scan, *part.input_trees))
        return (*trees, *parts, *(one.rows for one in self.spools))

    def count_rows_read(self, upstreams: Upstreams) -> int:
        """Sums up the row counts of the sources over all scans of a full computation."""
        states = (upstreams.states[str(scan.source)] for scan in list_scans(self.tree))
        return sum(state.rows for state in states if state)

    def describe_plan(self) -> tuple[str, ...]:
        """Describes the plan for users in a few lines: strategy, semi-join reducers, and operators of the query."""
        read_once = dict.fromkeys(part.source for part in self.reducers)
        once = [f"all that these look for in {source} is read once" for source in read_once]
        return (_WAYS[type(self.maintenance)], *once, *(f"  {line}" for line in draw_outline(self.tree, self.changed)))

    def select_reducers(self, trees: Iterable[Node]) -> tuple[SemiJoinReducer, ...]:
        """Returns all semi-join reducers if one of the trees reads any of them; otherwise none."""
        names = _list_spools_read(trees)
        return self.reducers if any(names & set(part.images.values()) for part in self.reducers) else ()

    def select_spools(self, trees: Iterable[Node]) -> tuple[Spool, ...]:
        """Selects the spools that at least one of the trees reads."""
        names = _list_spools_read(trees)
        return tuple(one for one in self.spools if one.name in names)

    @property
    def scans(self) -> tuple[Scan, ...]:
        return tuple(scan for tree in self.trees for scan in list_scans(tree))


def _find_filtered_scan(node: Node) -> Scan | None:
    """Returns the scan whose rows a tree only filters and projects; None for any other tree."""
    while isinstance(node, Filter | Projection):
        node = node.child
    return node if isinstance(node, Scan) else None


def plan_increment(
    model: Model,
    upstreams: Upstreams,
    windows: Mapping[str, Window],
    state: TableState = NO_TABLE,
    thresholds: Thresholds = SHIPPED,
) -> Increment | None:
    """Builds the incremental plan for the changes in `windows`; None if the query's result depends on none of them.

    `state` is the state of the model's own tables. Raises NotMaintained if the table has to be computed in full. An
    unexpected error during planning counts as such a case.
    """
    with refuse_on_error():
        return _build_increment(model, upstreams, windows, state, thresholds)


def _build_increment(
    model: Model,
    upstreams: Upstreams,
    windows: Mapping[str, Window],
    state: TableState,
    thresholds: Thresholds,
) -> Increment | None:
    limits, last = thresholds.incremental, find_last_run(state.log)
    analysed, key = analyse_model(model, upstreams)
    read = {scan.source for scan in list_scans(analysed.tree)}
    changed = [window for window in windows.values() if not window.is_empty]
    states = {window.upstream: upstreams.states[window.upstream] for window in changed}
    sources = frozenset(source.name for source in states.values() if source and source.name in read)
    if upstreams.has_moved_clock(last):
        if last is None or last.clock is None:
            raise NotMaintained("SOURCE_UNKNOWN", "the time with which the last run computed the query is not known")
        sources |= {CLOCK}
    if not sources:
        return None
    for window in changed:
        source = states[window.upstream]
        if source is not None and source.name in sources:
            check_window(source, window)
            check_changed_share(model, source, window, limits)
    check_images(list_scans(analysed.tree), upstreams.states, sources)
    check_defaults(list_scans(analysed.tree), upstreams.states, windows)
    facts = replace(
        _collect_facts(model, upstreams, analysed, state.base.rows if state.base else 0, limits),
        paired=_list_paired_sources(upstreams, changed),
        small=_list_small_sources(upstreams, limits.paired_table_rows),
        few_row_sources=_list_small_sources(upstreams, limits.state_groups),
        filter_sources=_map_filter_sources(upstreams, changed, limits),
    )
    if last is not None and last.forward is not None:
        facts = replace(facts, few_rows=False)
    maintenance = plan_maintenance(analysed.tree, key, sources, facts)
    refused_state = last.no_aggregate_state if last else None
    if isinstance(maintenance, AggregateState) and hash_state(maintenance) == refused_state:
        maintenance = plan_maintenance(analysed.tree, key, sources, replace(facts, few_rows=False))
    tree, spools = with_spools(_get_change_tree(maintenance))
    tree, reducers = _add_reducers(tree, {one.name for one in spools}, upstreams, windows, limits)
    plan = Increment(
        _replace_change_tree(maintenance, tree),
        analysed.outputs,
        key,
        analysed.tree,
        sources,
        reducers,
        spools,
        analysed.types,
    )
    return _add_join_hints(plan, collect_statistics(upstreams, windows, thresholds.joins))


def _add_join_hints(plan: Increment, statistics: Statistics) -> Increment:
    """Returns the plan with a join hint, the broadcast side, for each join of a small with a large side."""
    spools, parts = [], []
    for one in plan.spools:
        spools.append(replace(one, rows=statistics.with_join_hints(one.rows)))
        statistics = statistics.with_spool(one.name, statistics.estimate_rows(one.rows))
    for part in plan.reducers:
        lookups = tuple(replace(one, values=statistics.with_join_hints(one.values)) for one in part.lookups)
        parts.append(replace(part, lookups=lookups))
        statistics = statistics.with_reducer(part)
    return replace(
        plan,
        maintenance=_with_hinted_trees(plan.maintenance, statistics),
        reducers=tuple(parts),
        spools=tuple(spools),
    )


def remove_join_hints(increment: Increment) -> Increment:
    """Returns the plan without join hints, for another try after a broadcast was too large.

    Hints are based on average numbers of join partners, which are wrong if a few values have most partners.
    """
    return _add_join_hints(increment, Statistics())


def collect_statistics(
    upstreams: Upstreams, windows: Mapping[str, Window], thresholds: JoinThresholds = SHIPPED.joins
) -> Statistics:
    """Collects row counts and value sizes of the sources from the summaries of their commits.

    `windows` are the versions that the run reads of each source.
    """
    statistics: dict[TableName, SourceStatistics] = {}
    for source, state in upstreams.states.items():
        if state is not None:
            images = 2 if state.kind == "changes" else 1
            values = images * len(strip_change_columns(state.columns)) * sum(commit.rows for commit in state.commits)
            file_bytes = sum(commit.bytes for commit in state.commits)
            statistics[state.name] = SourceStatistics(
                state.rows,
                state.count_rows_in(windows[source]),
                file_bytes / values if values else thresholds.unknown_value_bytes,
            )
    return Statistics(statistics, thresholds=thresholds)


def _list_spools_read(trees: Iterable[Node]) -> set[str]:
    return {node.name for tree in trees for node in walk_tree(tree) if isinstance(node, SpoolScan)}


def _add_reducers(
    tree: Node,
    few: Collection[str],
    upstreams: Upstreams,
    windows: Mapping[str, Window],
    limits: IncrementalThresholds,
) -> tuple[Node, tuple[SemiJoinReducer, ...]]:
    """Adds semi-join reducers to `tree` for sources that are costly to read; returns the new tree and the reducers.

    A source is costly if it has many rows and is read several times, or if it is large and has unmerged change rows.
    `few` are the names of spools, which have few rows.
    """
    read = [scan for scan in list_scans(tree) if scan.reads_rows]
    saved: dict[TableName, int] = {}
    for source, times in Counter(scan.source for scan in read).items():
        state = upstreams.states[str(source)]
        if state is None or not all(scan.key for scan in read if scan.source == source):
            continue
        repeated = (times - 1) * state.rows
        is_laid_over = state.rows > limits.unmerged_table_rows and state.count_unmerged_at(windows[str(source)].end) > 0
        if repeated > limits.repeated_read_rows or is_laid_over:
            saved[source] = repeated + is_laid_over * state.rows
    (reduced,), reducers = add_reducers((tree,), sorted(saved, key=lambda source: -saved[source]), few)
    return reduced, reducers


def _get_change_tree(maintenance: Maintenance) -> Node:
    """Returns the tree of `maintenance` that reads the changes: affected keys, or changed rows or amounts."""
    match maintenance:
        case Deltas(changes):
            return changes
        case Pairs(rows):
            return rows
        case AggregateState(state_changes=state_changes):
            return state_changes
        case AffectedKeys(affected):
            return affected


def _with_hinted_trees(maintenance: Maintenance, statistics: Statistics) -> Maintenance:
    match maintenance:
        case AggregateState(result=result, old_result=old_result):
            maintenance = replace(
                maintenance,
                result=statistics.with_join_hints(result),
                old_result=statistics.with_join_hints(old_result),
            )
    return _replace_change_tree(maintenance, statistics.with_join_hints(_get_change_tree(maintenance)))


def _replace_change_tree(maintenance: Maintenance, tree: Node) -> Maintenance:
    match maintenance:
        case Deltas():
            return Deltas(tree)
        case Pairs():
            return Pairs(tree)
        case AggregateState():
            return replace(maintenance, state_changes=tree)
        case AffectedKeys():
            return replace(maintenance, affected=tree)


def drop_aggregate_state(increment: Increment) -> Increment:
    """Returns another plan for the same changes, without aggregate state; for a state whose sums are not exact.

    Raises NotMaintained if no other strategy is possible.
    """
    maintenance = plan_maintenance(increment.tree, increment.key, increment.changed, Facts(increment.types))
    return replace(increment, maintenance=maintenance, reducers=(), spools=())


def check_maintained(model: Model, upstreams: Upstreams, may_keep_state: bool = True) -> None:
    """Raises NotMaintained if the query can't be maintained incrementally for a change of any of its sources.

    Without `may_keep_state` it has to be maintained without aggregate state.
    """
    analysed, key = analyse_model(model, upstreams)
    refused: NotMaintained | None = None
    facts = Facts(types=analysed.types, few_rows=may_keep_state)
    for source in dict.fromkeys(scan.source for scan in list_scans(analysed.tree)):
        try:
            with refuse_on_error():
                plan_maintenance(analysed.tree, key, frozenset({source}), facts)
            return
        except NotMaintained as error:
            refused = error
    if refused is not None:
        raise refused


def analyse_model(model: Model, upstreams: Upstreams) -> tuple[Analysed, tuple[str, ...]]:
    """Analyses the model's query; also returns the columns of the tree that are the columns of the primary key.

    Raises NotMaintained if the query is not supported, or reads the model's own table.
    """
    table = model.table
    if str(table) in upstreams.states:
        raise NotMaintained("SELF_REFERENCE", "the query reads the model's own table")
    relations = tuple((name, build_relation(state)) for name, state in upstreams.states.items() if state is not None)
    sql = pin_clock(model.sql) if upstreams.reads.clocks else model.sql
    with refuse_on_error():
        declared = frozenset(name.lower() for name in model.config.deterministic_functions)
        views = tuple(upstreams.views.items())
        analysed = _analyse_query(sql, relations, views, table.catalog, table.schema, declared)
    if isinstance(analysed, NotMaintained):
        raise NotMaintained(analysed.reason, analysed.because)
    if upstreams.reads.clocks:
        check_clock_places(analysed.tree, upstreams.reads.clocks)
    return analysed, tuple(_find_output_column(analysed, part) for part in model.config.entity_key)


def analyse_events(
    model: Model, upstreams: Upstreams, joined: Iterable[SourceState] = ()
) -> tuple[Analysed, tuple[str, ...], Mapping[TableName, TableName]]:
    """Analyses a query of change events; also returns the columns of the tree that are the columns of the entity key.

    `joined` are the states of tables that the query reads beside its events. The third element maps what the query
    reads in the place of `changes(…)` to the sources of the events. Raises NotMaintained if the query is not supported.
    """
    table = model.table
    views = {
        TableName(table.catalog, table.schema, format_changes_view(state.name)): state
        for state in upstreams.states.values()
        if state is not None
    }
    relations = (
        *((str(name), Relation(state.columns)) for name, state in views.items()),
        *((str(state.name), build_relation(state)) for state in joined),
    )
    with refuse_on_error():
        declared = frozenset(name.lower() for name in model.config.deterministic_functions)
        analysed = _analyse_query(model.sql, relations, (), table.catalog, table.schema, declared)
    if isinstance(analysed, NotMaintained):
        raise NotMaintained(analysed.reason, analysed.because)
    key = tuple(_find_output_column(analysed, part) for part in model.config.entity_key)
    return analysed, key, {name: state.name for name, state in views.items()}


def pin_query(model: Model, upstreams: Upstreams) -> str:
    """Returns the model's query, with its clock pinned if its result can be maintained as time passes."""
    if not upstreams.reads.clocks or model.config.input == "changes":
        return model.sql
    try:
        analyse_model(model, upstreams)
    except NotMaintained:
        return model.sql
    return pin_clock(model.sql)


@lru_cache(maxsize=16)
def _analyse_query(
    sql: str,
    relations: tuple[tuple[str, Relation], ...],
    views: tuple[tuple[str, str], ...],
    catalog: str,
    schema: str,
    declared: frozenset[str],
) -> Analysed | NotMaintained:
    """Returns the analysed query, or the NotMaintained error that the analysis raises.

    The result is cached, because a run needs it several times, and the analysis of a wide query is slow.
    """
    try:
        texts = {name: ViewText(text) for name, text in views}
        return analyse_query(sql, dict(relations), texts, catalog, schema, declared)
    except NotMaintained as refused:
        return NotMaintained(refused.reason, refused.because)


def is_keyed(model: Model, upstreams: Upstreams, known: Increment | None = None) -> bool:
    """Whether the keys of the sources prove that the primary key is unique in the query's result.

    If the incremental plan is `known`, its tree is used, so that the query is not analysed again.
    """
    if known is not None:
        return is_unique(known.tree, known.key)
    try:
        analysed, key = analyse_model(model, upstreams)
    except NotMaintained:
        return False
    return is_unique(analysed.tree, key)


def _collect_facts(
    model: Model, upstreams: Upstreams, analysed: Analysed, rows: int, limits: IncrementalThresholds
) -> Facts:
    """Collects the facts for planning that do not depend on the changes; `rows` is the row count of the model's table.

    Aggregate state is allowed for few rows, and only if the sources are large or the model must be incremental.
    """
    read = sum(state.rows for state in upstreams.states.values() if state)
    is_worth_it = read > limits.large_source_rows or model.config.refresh in ("incremental", "strict")
    return Facts(types=analysed.types, few_rows=rows <= limits.state_groups and is_worth_it)


def _list_paired_sources(upstreams: Upstreams, changed: Iterable[Window]) -> frozenset[TableName]:
    """Lists the changed sources for which all change rows in the window to be read also hold the row before the change.

    A source is left out if commits of its window have expired, because it is not known whether their change rows do.
    """
    windows = ((upstreams.states[window.upstream], window) for window in changed)
    return frozenset(
        state.name
        for state, window in windows
        if state and state.key and state.keeps_version(window.start) and has_before_images(state, window)
    )


def _list_small_sources(upstreams: Upstreams, max_rows: int) -> frozenset[TableName]:
    return frozenset(state.name for state in upstreams.states.values() if state and state.rows <= max_rows)


def _map_filter_sources(
    upstreams: Upstreams, changed: Iterable[Window], limits: IncrementalThresholds
) -> dict[TableName, frozenset[TableName]]:
    """Maps each source with many changes to the far smaller sources that are worth a read as a runtime filter."""
    states = [state for state in upstreams.states.values() if state]
    windows = ((upstreams.states[window.upstream], window) for window in changed)
    return {
        state.name: frozenset(other.name for other in states if other.rows * limits.reducer_row_ratio <= state.rows)
        for state, window in windows
        if state and state.count_rows_in(window) > limits.always_incremental_rows
    }


def _find_output_column(analysed: Analysed, name: str) -> str:
    columns = [made for output, made in analysed.outputs if is_same_name(output, name)]
    if len(columns) != 1:
        raise NotMaintained("UNRESOLVED", f"the key column {name} is not exactly one column of the query")
    return columns[0]


def build_relation(state: SourceState) -> Relation:
    return Relation(strip_change_columns(state.columns), state.key, state.not_null)
