"""Restates a part of a table: computes the rows that a predicate selects anew, and publishes the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import Node, list_scans
from arctic_runtime.ivm.frontend.row_predicate import cast_column
from arctic_runtime.ivm.render import render_sql
from arctic_runtime.model.columns import ACTION, Column, find_column
from arctic_runtime.model.run_summary import UNFROZEN, RunSummary
from arctic_runtime.model.shape import DELETE, INSERT, ChangeSet, Shape, build_shape
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.decide import explain_session_change
from arctic_runtime.plan.refresh.event_rules import select_stored_columns
from arctic_runtime.plan.refresh.increment import Upstreams, pin_query
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.restate import (
    MOVED,
    Restatement,
    build_run_first_error,
    plan_restatement,
)
from arctic_runtime.plan.refresh.schema import check_query, plan_schema
from arctic_runtime.plan.refresh.session_changes import SessionState
from arctic_runtime.refresh_planner import NO_ROWS
from arctic_runtime.spark.changes.diff import diff_states, refresh_changes
from arctic_runtime.spark.engine.java.java_errors import explain_damaged_files
from arctic_runtime.spark.engine.statement import Sql, quote_name, write_expression
from arctic_runtime.spark.events.rules import choose_rules, net_events
from arctic_runtime.spark.events.truncate import spread_over_own_keys
from arctic_runtime.spark.refresh.from_events import select_live_rows
from arctic_runtime.spark.refresh.frozen import (
    build_frozen_entries,
    check_row_predicate,
    read_model_predicate,
    separate_frozen,
)
from arctic_runtime.spark.refresh.images import SourceWindows
from arctic_runtime.spark.refresh.increments import as_query
from arctic_runtime.spark.refresh.query_analysis import check_same_reading, pin_time
from arctic_runtime.spark.refresh.query_inputs import read_past_events
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.bounds import lookup_keys
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    combine_all,
    conform_frame,
    list_frame_columns,
    match_key,
    name_key_column,
    read_current_rows,
    to_column,
)


@dataclass(frozen=True)
class RestatedPart:
    """What a restatement publishes, or would publish: numbers of change rows by action, and what it reads.

    `version` is that of the table after it, as a snapshot id; None if nothing was published. `frozen` is the number of
    changes that are not applied, since they would touch frozen rows.
    """

    rows: Mapping[str, int]
    reads: tuple[str, ...]
    version: int | None = None
    frozen: int = 0


def restate_part(refresh: Refresh, where: str, with_frozen: bool = False) -> RestatedPart:
    """Computes the rows for which the predicate `where` is true anew, and publishes the differences in one commit.

    Rows are compared by key: a row that enters or leaves the part is updated. Frozen rows stay as they are, unless
    `with_frozen`. Offsets stay those of the last run. Raises ConfigError, PlanError and DataError as `plan_restatement`
    and runs do, and CommitConflict if other writers are faster at every attempt.
    """
    attempts = refresh.table.reader.thresholds.commits.attempts
    try:
        with explain_damaged_files(refresh.model.table):
            return retry_on_conflict(partial(_restate_once, refresh, where, with_frozen), attempts)
    finally:
        refresh.planner.pins.invalidate_table(refresh.model.table)


def count_restated(refresh: Refresh, where: str, with_frozen: bool = False) -> RestatedPart:
    """Counts the change rows that `restate_part` would publish, and writes nothing.

    Rows that can't be written count as well, by the action `!…` that names their flaw.
    """
    with explain_damaged_files(refresh.model.table):
        state, upstreams = refresh.table.observe_state(), refresh.planner.observe_upstreams()
        with _compare_part(refresh, state, upstreams, where, with_frozen) as part:
            counts = _count_actions(part.changes)
    return RestatedPart({**NO_ROWS, **counts}, part.plan.describe_reads(), frozen=part.frozen)


def _restate_once(refresh: Refresh, where: str, with_frozen: bool) -> RestatedPart:
    session = refresh.table
    state = session.reconcile_until_done(session.observe_state())
    # Observed after the table, so that they have all versions that its newest run has read.
    upstreams = refresh.planner.observe_upstreams()
    with _compare_part(refresh, state, upstreams, where, with_frozen) as part:
        assert state.changes is not None
        assert state.changes.head is not None
        commit = AppendChanges(session.model.table.changes, state.changes.head.snapshot, "full", "RESTATED")
        confirm = partial(refresh.confirm_upstreams, upstreams) if part.plan.reads_present else _confirm_nothing
        summary = _build_summary(part, commit)
        changes = ChangeSet(commit, part.changes, part.shape, summary, confirm=confirm)
        appended = publish_changes(changes, part.context)
    state = session.reconcile_until_done(session.observe_state())
    head = state.changes.head if state.changes else None
    version = head.snapshot if head else None
    return RestatedPart(appended.rows, part.plan.describe_reads(), version, appended.frozen)


def _build_summary(part: _ComparedPart, commit: AppendChanges) -> RunSummary:
    """Builds the summary of the commit of a restatement from that of the last run, whose offsets it repeats.

    It has no aggregate state, since that may have the values that are corrected. All rows are of the present query if
    all were restated.
    """
    last, predicate = part.plan.last, part.plan.predicate
    summary = replace(
        last.to_repeat(commit.mode, commit.reason),
        run=part.context.token,
        aggregate_state=None,
        where=predicate.text,
        forward=None if predicate.selects_all else last.forward,
    )
    return summary.with_entries_from(part.entries)


def _confirm_nothing() -> None:
    """Does nothing: rows that were computed from fixed versions stay right if the upstreams change."""


@dataclass(frozen=True)
class _ComparedPart:
    """The part of a table as compared with its query: `changes` are the change rows, without a commit.

    `entries` are those of its record that tell about frozen rows.
    """

    context: Context
    plan: Restatement
    shape: Shape
    changes: DataFrame
    entries: RunSummary

    @property
    def frozen(self) -> int:
        return self.entries.count_frozen()


@contextmanager
def _compare_part(
    refresh: Refresh, state: TableState, upstreams: Upstreams, where: str, with_frozen: bool
) -> Iterator[_ComparedPart]:
    """Compares the part with the query by key; the change rows can be read until the `with` block ends."""
    plan = plan_restatement(refresh.model, state, upstreams, where)
    context = refresh.table.build_context(state)
    query = _run_query(context, plan, upstreams)
    shape = _build_shape(context, plan, query)
    plan = _confirm_reading(context.model, upstreams, plan, query)
    with ExitStack() as stack:
        rows = _PartRows(context, upstreams, plan, query, shape, stack)
        changes, entries = rows.compare_events() if plan.events else rows.compare(), RunSummary()
        frozen = read_model_predicate(context.model, shape.columns, upstreams.clock)
        if frozen is not None and with_frozen:
            entries = RunSummary(frozen=UNFROZEN)
        elif frozen is not None:
            changes, count = separate_frozen(rows.hold(changes), shape, frozen)
            entries = build_frozen_entries(plan.last, count)
        yield _ComparedPart(context, plan, shape, changes, entries)


def _run_query(context: Context, plan: Restatement, upstreams: Upstreams) -> DataFrame:
    """Runs the query: over the events that the table has read, or else over the present upstreams."""
    spark, model = context.spark, context.model
    if plan.events:
        return read_past_events(spark, model, upstreams, "all", plan.events)
    _check_session(context, plan)
    if upstreams.reads.clocks and plan.last.clock is not None:
        pin_time(spark, plan.last.clock.micros, plan.last.clock)
    return spark.sql(pin_query(model, upstreams))


def _check_session(context: Context, plan: Restatement) -> None:
    """Raises PlanError if the rows of the part would be computed by another Spark than the others were."""
    spark = context.spark
    request = Request(session=SessionState(spark.version, spark.conf.getAll))
    changed = explain_session_change(context.model, plan.last, request)
    if changed:
        raise build_run_first_error(context.model, changed)


def _build_shape(context: Context, plan: Restatement, query: DataFrame) -> Shape:
    """Builds the shape of the change rows; raises PlanError if the query has other columns than the table."""
    model, columns = context.model, list_frame_columns(query)
    stored = select_stored_columns(model, columns)
    check_query(model, columns, stored)
    if not plan_schema(model, plan.columns, stored).is_empty:
        raise build_run_first_error(model, "its query has other columns than the table")
    missing = [name for name in plan.predicate.columns if find_column(columns, name) is None]
    if missing:
        raise ConfigError(
            f"{model.table}: the query has no column {', '.join(missing)}, by which rows could be selected.",
            expected=f"columns of the query: {', '.join(column.name for column in stored)}",
            actual=plan.predicate.text,
        )
    return build_shape(model, context.state, stored)


def _confirm_reading(model: Model, upstreams: Upstreams, plan: Restatement, query: DataFrame) -> Restatement:
    """Returns the plan without its tree if Spark reads the query in another way than our analysis."""
    if plan.pinned is None:
        return plan
    try:
        check_same_reading(model, upstreams, query)
    except NotMaintained as refused:
        plan = plan.without_pins(refused.because)
        plan.check_versions(model)
    return plan


@dataclass(frozen=True)
class _PartRows:
    """Reads the rows of the part from the table and from the query, and compares them.

    Rows that are kept in memory are released when `stack` is closed.
    """

    context: Context
    upstreams: Upstreams
    plan: Restatement
    query: DataFrame
    shape: Shape
    stack: ExitStack

    def compare(self) -> DataFrame:
        """Computes the change rows of the part.

        A row that is in the part on one side only may be outside of it on the other side. Such rows are looked up there
        by their keys, if the predicate reads a column outside of the key.
        """
        key = self.context.model.config.primary_key
        is_keyed = self.plan.pinned is not None and self.plan.pinned.is_keyed
        stored = self._select_table_part()  # First, since it checks the predicate.
        changes = diff_states(self._select_query_part(), stored, self.shape, is_keyed)
        if not self.plan.may_move_rows(key):
            return changes
        changes = self.hold(changes)
        counts = _count_actions(changes)
        came, gone = (counts.get(action, 0) for action in (INSERT, DELETE))
        if not came + gone:
            return changes
        is_one_sided = F.col(ACTION).isin(INSERT, DELETE)
        keys = changes.where(is_one_sided).select(*map(to_column, key))
        stored = self._read_table(keys, came + gone)
        given = [column for column in self.shape.columns if find_column(_to_columns(self.shape.given), column.name)]
        rows = conform_frame(changes.where(F.col(ACTION) == INSERT), given)
        if gone:
            moved = self._read_query(changes.where(F.col(ACTION) == DELETE).select(*map(to_column, key)))
            rows = rows.unionByName(conform_frame(moved, given))
        return changes.where(~is_one_sided).unionByName(diff_states(rows, stored, self.shape))

    def compare_events(self) -> DataFrame:
        """Computes the change rows of keys whose row is in the part, in the table or by all events of the key."""
        model, plan, shape = self.context.model, self.plan, self.shape
        stored = self._select_table_part()  # First, since it checks the predicate.
        events = spread_over_own_keys(model, self.query)
        if not plan.may_move_rows(model.config.primary_key):
            events = events.where(self._write_query_condition())
        net = net_events(choose_rules(model, shape), events)
        made = select_live_rows(net, shape).where(write_expression(plan.predicate.bind_names()))
        key, table = model.config.primary_key, self._read_table()
        keys = self.hold(made.select(*as_key(key)).unionByName(stored.select(*as_key(key))).distinct())
        places = {column.name.lower(): f"a{i}" for i, column in enumerate(shape.columns)}
        is_same = combine_all([F.col(places[part.lower()]) == F.col(name_key_column(i)) for i, part in enumerate(key)])
        return refresh_changes(
            net.join(keys, is_same, "left_semi"),
            table.join(keys, match_key(table, key), "left_semi"),
            shape,
            plan.last.high_watermark,
        )

    def hold(self, rows: DataFrame) -> DataFrame:
        """Marks `rows` to be kept in memory until `stack` is closed, and returns them."""
        held = rows.persist()
        self.stack.callback(held.unpersist)
        return held

    def _select_table_part(self) -> DataFrame:
        rows = self._read_table()
        predicate = self.plan.predicate
        condition = write_expression(predicate.bind_names())
        check_row_predicate(self.context.model, rows, predicate, predicate.text)
        return rows.where(condition)

    def _read_table(self, keys: DataFrame | None = None, count: int = 0) -> DataFrame:
        state, thresholds = self.context.state, self.context.thresholds.pruning
        assert state.base is not None
        only = None if keys is None else lookup_keys(keys, count, state.base.rows, thresholds)
        rows = read_current_rows(self.context.spark, self.context.model, state, thresholds, only)
        assert rows is not None
        return rows

    def _select_query_part(self) -> DataFrame:
        casts = self._list_casts()
        if self.plan.pinned is not None:
            return self._run_tree(self.plan.pinned.select_part(self.plan.predicate, casts))
        return self.query.where(self._write_query_condition())

    def _write_query_condition(self) -> Sql:
        """Writes the predicate over columns of the query, cast to the types that they have in the table."""
        casts = self._list_casts()
        values = {name: cast_column(name, casts.get(name)) for name in self.plan.predicate.columns}
        return write_expression(self.plan.predicate.bind_columns(values))

    def _list_casts(self) -> dict[str, str]:
        """Maps columns of the predicate to their types in the table, if these are other ones than in the query."""
        made, names = list_frame_columns(self.query), self.plan.predicate.columns
        pairs = ((name, find_column(made, name), find_column(self.plan.columns, name)) for name in names)
        return {name: own.type for name, other, own in pairs if own and other and own.type != other.type}

    def _read_query(self, keys: DataFrame) -> DataFrame:
        """Reads the rows of the query with the given keys of the table, wherever their other values put them."""
        key = self.context.model.config.primary_key
        if self.plan.pinned is None:
            named = keys.select(*as_key(key))
            return self.query.join(named, match_key(self.query, key), "left_semi")
        pairs = dict(zip(self.plan.pinned.key, key, strict=True))
        spool = keys.select(*[to_column(own).alias(made) for made, own in pairs.items()])
        spool.createOrReplaceTempView(quote_name(MOVED))
        return self._run_tree(self.plan.pinned.select_moved())

    def _run_tree(self, tree: Node) -> DataFrame:
        assert self.plan.pinned is not None
        spark, thresholds = self.context.spark, self.context.thresholds
        sources = SourceWindows(spark, self.upstreams, self.plan.pinned.windows, thresholds)
        sources.register_views(list_scans(tree))
        return as_query(spark.sql(render_sql(tree)), self.plan.pinned.outputs, self.query)


def _to_columns(names: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(name, "") for name in names)


def _count_actions(changes: DataFrame) -> dict[str, int]:
    return {str(row[ACTION]): int(row["count"]) for row in changes.groupBy(ACTION).count().collect()}
