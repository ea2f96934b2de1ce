"""Runs a model: observes, plans, prepares, computes, publishes and settles, until its table is up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    PySparkException,
    PythonException,
    QueryExecutionException,
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CommitConflict, SourceError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal, get_first_line, locate_error
from arctic_runtime.ivm.algebra.tree import Join, SemiJoin, walk_tree
from arctic_runtime.ivm.strategies.aggregate_state import AggregateState
from arctic_runtime.model.columns import Column, strip_change_columns
from arctic_runtime.model.names import format_changes_view, list_changes_read
from arctic_runtime.model.properties import QUERY_TEXT, REPAIRED, RESUMED
from arctic_runtime.model.query_text import QueryText
from arctic_runtime.model.run_summary import SCHEMA_ONLY, RunSummary, find_last_run
from arctic_runtime.model.shape import ChangeSet, build_shape
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.step import AppendChanges, SetProperties
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh import decide as decisions
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.event_rules import check_events, find_sequence_type, select_stored_columns
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint
from arctic_runtime.plan.refresh.increment import Increment, Upstreams, drop_aggregate_state, pin_query
from arctic_runtime.plan.refresh.reconcile import plan_branch_cleanup
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.schema import check_query
from arctic_runtime.plan.refresh.session_changes import SessionState
from arctic_runtime.refresh_planner import NO_ROWS, Outcome, PlannedRefresh, RefreshPlanner
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS, explain_damaged_files, was_too_large_to_broadcast
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.history.versions import add_intervals
from arctic_runtime.spark.refresh.attempt import PreparedAttempt, RefreshAttempt, prepare_attempt
from arctic_runtime.spark.refresh.compute import AggregateStateRefused, compute_changes
from arctic_runtime.spark.refresh.frozen import check_frozen_where
from arctic_runtime.spark.refresh.integrity import list_broken_promises
from arctic_runtime.spark.refresh.prepare import append_events, prepare_tables, prepare_to_append
from arctic_runtime.spark.refresh.query_analysis import analyse_query, pin_clock
from arctic_runtime.spark.refresh.query_inputs import Narrowed, QueryInputs
from arctic_runtime.spark.refresh.rebase import RebaseAttempt
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Appended
from arctic_runtime.spark.tables.merge import WITHOUT_DYNAMIC_PRUNING, build_lookup_settings
from arctic_runtime.spark.tables.rows.frames import (
    drop_lineage,
    list_frame_columns,
    read_until,
    to_column,
    with_source_position,
)
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession
from arctic_runtime.thresholds import EngineThresholds, JoinThresholds

_OF_DATA = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    PythonException,
    QueryExecutionException,
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)
_OF_THE_MOMENT = (
    "OutOfMemory",
    "cancelled",
    "OPERATION_CANCELED",
    "StatusCode.",
    "shut down",
    "stopped SparkContext",
    "ExecutorLostFailure",
    "No space left on device",
)
_FOR_OTHERS = (ArcticError, MemoryError, OSError)

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Refresh:
    """One run of a model: brings its table up to date with its query, and publishes the differences as change rows.

    `spark` is called only if the table is not up to date, so that other runs do not start Spark. `narrowed` has filters
    for the change rows of upstreams; change rows that a filter drops count as read, and change nothing.
    """

    def __init__(
        self, planner: RefreshPlanner, spark: Callable[[], SparkSession], narrowed: Narrowed | None = None
    ) -> None:
        self.planner = planner
        self.table = TableSession(planner.model, planner.reader, spark, planner.now, planner.timings)
        self._narrowed = narrowed or {}

    @classmethod
    def from_model(
        cls,
        model: Model,
        reader: CatalogReader,
        spark: Callable[[], SparkSession],
        request: Request | None = None,
        narrowed: Narrowed | None = None,
        pins: PinnedSnapshots | None = None,
    ) -> Refresh:
        """Creates a run of `model`, which plans for `request`, and reads upstreams at the versions of `pins`."""
        return cls(RefreshPlanner(model, reader, request, pins=pins), spark, narrowed)

    @property
    def model(self) -> Model:
        return self.table.model

    def run_refresh(self, planned: PlannedRefresh | None = None) -> Outcome:
        """Brings the table up to date by the plan `planned`, or by a new plan if it is None.

        After a commit conflict it plans and runs again. Raises ConfigError, SourceError, DataError, PlanError,
        CatalogError, CorruptState, and CommitConflict if other writers are faster at every attempt.
        """
        try:
            with explain_damaged_files(self.model.table):
                return self._run_until_published(planned)
        finally:
            self.planner.pins.invalidate_table(self.model.table)

    def _run_until_published(self, planned: PlannedRefresh | None) -> Outcome:
        """Plans and attempts the run until it has published its change rows, or has nothing to publish.

        An attempt that another run overtakes, or that learns something which a plan must know, is followed by another.
        So is one after which sources may have changes to follow, as after an edit of the query.
        """
        request, conflicts = self.planner.request, 0
        published: Published | None = None
        while True:
            try:
                plan = planned or self.planner.plan_refresh(request)
                planned = None
                state = self._settle_tables(plan.state, published)
                if plan.decision.mode == "unchanged":
                    self._end_wait(plan.decision, state)
                    return self._build_outcome(published or Published(plan.decision), state)
                result = self._attempt_run(plan, state, request)
                if isinstance(result, Request):
                    request = result
                    continue
                published = result if published is None else published.add_later(result)
                if result.decision.has_later_changes:
                    continue
                return self._build_outcome(published, self._settle_tables(self.table.observe_state(), published))
            except CommitConflict as conflict:
                conflicts += 1
                if conflicts == self.table.reader.thresholds.commits.attempts:
                    raise
                request = replace(request, was_overtaken=request.was_overtaken or isinstance(conflict, UpstreamMoved))

    def _settle_tables(self, state: TableState, published: Published | None) -> TableState:
        """Brings the base table and the view up to date with the change table; returns the state after that."""
        return self.table.reconcile_until_done(state, appended=published.appended if published else None)

    def _end_wait(self, decision: Decision, state: TableState) -> None:
        """Notes that the runs of a restored table no longer wait for a query, since the model has it."""
        last = find_last_run(state.changes)
        if last is not None and decisions.has_awaited_query(decision, state):
            values = {RESUMED: last.run or ""}
            step = SetProperties("restore.resume", self.model.table.changes, values)
            perform_step(step, self.table.build_context(state))

    def _build_outcome(self, published: Published, state: TableState) -> Outcome:
        outcome = self.planner.build_outcome(published.decision, published.rows, state)
        return replace(outcome, frozen=published.frozen)

    def _attempt_run(self, plan: PlannedRefresh, state: TableState, request: Request) -> Published | Request:
        """Performs a plan, for the present `state` of the tables, and returns what it has published.

        Returns the request for another plan instead if this one can't be performed in this session, or fails and a
        computation of the whole query may not.
        """
        decisions.check_not_overtaken(plan.state, state, f"bring {self.model.table} up to date with its changes")
        context = self.table.build_context(state)
        request = replace(request, session=SessionState(context.spark.version, context.spark.conf.getAll))
        attempt = RefreshAttempt(context=context, upstreams=plan.upstreams, decision=plan.decision, request=request)
        if attempt.is_incremental and decisions.explain_session_change(self.model, attempt.last_run, request):
            return request
        for step in plan_branch_cleanup(self.model, state, self.table.now, context.thresholds.expiry):
            perform_step(step, context)
        attempt = self._add_repairs(_drop_refused_state(attempt))
        settings = build_compiler_settings(state, attempt.decision, attempt.upstreams, context.thresholds.engine)
        planning = build_planning_settings(attempt.decision.increment, context.thresholds.joins)
        with override_settings(context.spark, {**settings, **planning}):
            try:
                appended = self._publish_rows(attempt)
            except AggregateStateRefused as refused:
                return replace(request, refused_state=refused.state)
            except Exception as error:
                return replace(request, given_up=self._refuse_increment(attempt, error))
        self._note_query(attempt)
        decision = replace(attempt.decision, because=appended.because or attempt.decision.because)
        return Published(decision, appended, appended.rows, appended.frozen)

    def _note_query(self, attempt: RefreshAttempt) -> None:
        """Stores the text of the query that the table now holds, with which a later run compares an edited query."""
        changes = self.table.observe_state().changes
        text = QueryText.from_model(self.model, attempt.upstreams.views).encode()
        if self.model.config.input == "state" and changes and changes.properties.get(QUERY_TEXT, "") != text:
            step = SetProperties("query.note", self.model.table.changes, {QUERY_TEXT: text})
            perform_step(step, attempt.context)

    def _add_repairs(self, attempt: RefreshAttempt) -> RefreshAttempt:
        """Checks the table if a full refresh was requested, and adds the names of failed checks to the decision.

        A run with such names repairs the table. Change rows can't be repaired: if any check fails, the existing change
        rows are marked, so that later checks skip them. Returns the new attempt.
        """
        state, decision = attempt.context.state, attempt.decision
        if decision.reason != "FULL_REFRESH" or state.changes is None or state.base is None:
            return attempt
        assert state.changes.head is not None
        with self.table.timings.measure_step("check"):
            shape = build_shape(self.model, state, strip_change_columns(state.changes.columns))
            broken = list_broken_promises(attempt.spark, self.table.reader, self.model, state, shape)
        if not broken:
            return attempt
        until = {REPAIRED: str(state.changes.head.sequence)}
        perform_step(SetProperties("repair.mark", self.model.table.changes, until), attempt.context)
        repaired = replace(decision, repairs=broken, because=f"mended: {', '.join(broken)}")
        return replace(attempt, decision=repaired)

    def _refuse_increment(self, attempt: RefreshAttempt, error: Exception) -> Refusal:
        """Returns the reason to abandon the incremental plan after `error`, and to compute the whole query.

        Raises `error` instead, which ends the run, in three cases: the failed attempt was not incremental; the whole
        query would probably fail as well (see `to_refusal`); or the model has `refresh: strict`, which forbids a full
        computation after any error except NotMaintained.
        """
        refusal = to_refusal(error) if attempt.is_incremental else None
        is_strict = self.model.config.refresh == "strict" and not isinstance(error, NotMaintained)
        if refusal is None or is_strict:
            raise error
        return refusal

    def _publish_rows(self, attempt: RefreshAttempt) -> Appended:
        """Runs the query, prepares the tables for its rows, computes the change rows and publishes them."""
        with self.table.timings.measure_step("analyse"):
            attempt = pin_clock(attempt)
            pinned = replace(self.model, sql=pin_query(self.model, attempt.upstreams))
            inputs = QueryInputs(pinned, attempt.upstreams, self._narrowed)
            query = inputs.run_query(attempt.spark, attempt.decision.windows)
            columns = list_frame_columns(query)
            stored = add_intervals(self.model.config, select_stored_columns(self.model, columns), columns)
            check_query(self.model, columns, stored)
            check_events(self.model, columns, stored)
            check_frozen_where(self.model, query, stored, attempt.upstreams.clock)
            if self.model.is_appended:
                return self._append_events(attempt, query, stored)
            attempt = analyse_query(attempt, query)
            sequence_type = find_sequence_type(self.model, columns)
            context, shape = prepare_tables(self.table, attempt.context, stored, sequence_type)
            prepared = prepare_attempt(replace(attempt, context=context), query, shape)
        with self.table.timings.measure_step("changes"):
            try:
                return self._publish_changes(prepared)
            except SPARK_ERRORS as error:
                if prepared.decision.increment is None or not was_too_large_to_broadcast(error):
                    raise
            return self._publish_changes(prepared.remove_join_hints())

    def _append_events(self, attempt: RefreshAttempt, query: DataFrame, stored: tuple[Column, ...]) -> Appended:
        """Appends the rows of `query`, which are computed from new change events, to a table without a primary key."""
        ready = replace(attempt, context=prepare_to_append(self.table, attempt.context.state, stored))
        rows = query.select(*[to_column(column.name) for column in stored])
        shown = rows.limit(0) if attempt.request.schema_only else rows
        return append_events(self.table, ready.context, shown, build_summary(ready))

    def _publish_changes(self, attempt: PreparedAttempt) -> Appended:
        """Computes the change rows and publishes them; if another run commits first, rebases them if possible."""
        context, decision, background = attempt.context, attempt.decision, attempt.background
        assert context.state.changes is not None
        assert context.state.changes.head is not None
        summary, begun = build_summary(attempt), _build_estimate_summary(decision)
        with attempt.caching(), background:
            computed = compute_changes(attempt)

            def confirm_upstreams() -> None:
                background.wait_for_all()
                if not computed.is_pinned:
                    self.confirm_upstreams(attempt.upstreams)

            summary = summary.with_entries_from(begun) if computed.as_decided else summary
            head = context.state.changes.head.snapshot
            changes = ChangeSet(
                AppendChanges(self.model.table.changes, head, decision.mode, decision.reason),
                computed.rows,
                attempt.shape,
                summary.with_entries_from(attempt.recorded).with_entries_from(computed.summary),
                computed.is_gathered,
                confirm_upstreams,
            )
            with override_settings(context.spark, build_lookup_settings(computed.keys, context.thresholds.pruning)):
                times = 0 if self._narrowed else context.thresholds.commits.attempts
                rebase = RebaseAttempt(self.planner, self.table, attempt, changes, times)
                return publish_changes(changes, context, rebase.publish_on_top)

    def confirm_upstreams(self, upstreams: Upstreams) -> None:
        """Raises UpstreamMoved if an upstream has changed since it was observed.

        The change rows may then contain later rows of the upstream than the offsets say.
        """
        now = self.planner.observe_upstreams().states
        moved = [
            name for name, state in upstreams.states.items() if state and _get_version(now.get(name)) != state.version
        ]
        if moved:
            raise UpstreamMoved(
                f"{self.model.table}: the upstream {', '.join(moved)} changed while the query ran.",
                fix="run again; if the upstream changes all the time, put a model between it and this one",
            )


class UpstreamMoved(CommitConflict):
    """Raised if an upstream has changed while a query read its newest version."""


@dataclass(frozen=True)
class Published:
    """The decision that a run has performed, and its commit of change rows; None if there was nothing to commit."""

    decision: Decision
    appended: Appended | None = None
    rows: Mapping[str, int] = field(default_factory=lambda: dict(NO_ROWS))
    """Number of change rows by action, of all commits of the run."""

    frozen: int = 0
    """Number of changes that none of these commits applied, since they would touch frozen rows."""

    def add_later(self, later: Published) -> Published:
        """Returns what the run has published after a further commit; the reason remains that of the first one."""
        rows = {action: count + later.rows.get(action, 0) for action, count in self.rows.items()}
        first = self.decision
        decision = replace(later.decision, reason=first.reason, because=first.because)
        return Published(decision, later.appended, rows, self.frozen + later.frozen)


def _drop_refused_state(attempt: RefreshAttempt) -> RefreshAttempt:
    """Returns the attempt without the aggregate state that an earlier attempt could not keep.

    The costs that were estimated with the state are dropped.
    """
    increment = attempt.decision.increment
    if attempt.request.refused_state is None or increment is None:
        return attempt
    if not isinstance(increment.maintenance, AggregateState):
        return attempt
    return replace(attempt, decision=replace(attempt.decision, increment=drop_aggregate_state(increment), ways=()))


def build_summary(attempt: RefreshAttempt) -> RunSummary:
    """Builds the summary of an attempt's commit, without the entries that the attempt has recorded."""
    decision, request = attempt.decision, attempt.request
    last = None if request.full_refresh else find_last_run(attempt.context.state.log)
    kept = _keep_aggregate_state(last) if decision.edit is not None and last else RunSummary()
    stays_forward = decision.mode == "incremental" and decision.promotion is None and last is not None
    sources = RunSummary(offsets={}) if request.schema_only else attempt.summarize_sources(decision.consumed)
    is_without_before_images = attempt.model.config.changelog == "input" and decision.mode == "incremental"
    return RunSummary(
        run=attempt.context.token,
        mode=SCHEMA_ONLY if request.schema_only else decision.mode,
        reason=decision.reason,
        query=compute_fingerprint(attempt.model, attempt.upstreams),
        session=request.session.encode() if request.session else None,
        no_aggregate_state=request.refused_state or (last.no_aggregate_state if last else None),
        given_up=str(decision.given_up) if decision.given_up else None,
        forward=decision.forward or (attempt.last_run.forward if stays_forward else None),
        repaired=", ".join(decision.repairs) or None,
        changelog="input" if is_without_before_images else None,
    ).with_entries_from(sources.with_entries_from(kept))


def _keep_aggregate_state(last: RunSummary) -> RunSummary:
    """Returns the entries by which the stored aggregate state of the last run stays that of the newest run."""
    return RunSummary(run=last.run, aggregate_state=last.aggregate_state) if last.aggregate_state else RunSummary()


def _build_estimate_summary(decision: Decision) -> RunSummary:
    """Builds summary entries with the run's start time and estimated cost, from which later runs correct estimates."""
    if decision.estimate is None:
        return RunSummary()
    return RunSummary(started_ms=round(time.time() * 1000), estimated=decision.estimate.unadjusted)


def _get_version(state: SourceState | None) -> Version | None:
    return state.version if state else None


def build_compiler_settings(
    state: TableState, decision: Decision, upstreams: Upstreams, thresholds: EngineThresholds
) -> Mapping[str, str]:
    """Builds session settings by which Spark interprets the expressions of a run that reads few rows.

    Empty for a run that reads many rows, or whose number of rows is not known: one that reads no table, or a table that
    is no Iceberg table.
    """
    if not upstreams.states:
        return {}
    rows = state.base.rows if state.base else 0
    for name, source in upstreams.states.items():
        if source is None:
            return {}
        rows += _count_rows(source, decision, name)
    return _INTERPRETED if rows <= thresholds.interpreted_rows else {}


def build_planning_settings(increment: Increment | None, thresholds: JoinThresholds) -> Mapping[str, str]:
    """Builds session settings by which Spark plans the many joins of an incremental plan in a short time.

    With dynamic pruning, Spark plans each join again below every scan that the join could prune, and those joins again:
    six joined tables that have all changed are a plan of thousands of scans. Empty for few joins, of which Spark prunes
    files and buckets.
    """
    trees = increment.trees if increment is not None else ()
    joins = sum(isinstance(node, Join | SemiJoin) for tree in trees for node in walk_tree(tree))
    return WITHOUT_DYNAMIC_PRUNING if joins > thresholds.pruned_joins else {}


def _count_rows(source: SourceState, decision: Decision, name: str) -> int:
    """Counts the rows of a source and the rows in its window, whichever of the two a run reads."""
    window = decision.windows.get(name)
    return source.rows + (source.count_rows_in(window) if window else 0)


def to_refusal(error: Exception) -> Refusal | None:
    """Returns why the whole query is computed after `error` of an incremental run; None if that would not help.

    The incremental plan evaluates expressions on other rows and in another order than the query, so it can fail if
    the query does not. A computation of the whole query does not help after a broken contract or a conflict with other
    writers, or if Spark has stopped or is out of memory.

    The refusal also applies to later runs if the query or its rows cause the error. Spark gives such errors an error
    condition, such as `CAST_INVALID_INPUT`.
    """
    if isinstance(error, NotMaintained):
        return Refusal(error.reason, error.because, lasts=error.reason not in ("COST", "QUERY_CHANGED"))
    if isinstance(error, _FOR_OTHERS) or (isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)):
        return None
    if not isinstance(error, SPARK_ERRORS):
        return Refusal("INCREMENT_FAILED", locate_error(error))
    if isinstance(error, PySparkException) and isinstance(error, _OF_DATA):
        return Refusal("INCREMENT_FAILED", get_first_line(error), lasts=error.getCondition() is not None)
    if any(sign in str(error) for sign in _OF_THE_MOMENT):
        return None
    return Refusal(
        "INCREMENT_FAILED",
        get_first_line(error.java_exception) if isinstance(error, Py4JJavaError) else get_first_line(error),
        lasts=False,
    )


def preview_changes(spark: SparkSession, reader: CatalogReader, sql: str) -> None:
    """Creates, for each `changes(…)` of a query, a temporary view of all rows that it could read.

    With these views, the query can be run without a refresh of its model. Raises SourceError if a source does not exist
    or has no snapshot.
    """
    for source in list_changes_read(sql):
        state = observe_source(reader, source)
        if state is None:
            raise SourceError(
                f"{source} has no snapshot, so its changes can't be read.",
                fix="write to the table first",
            )
        rows = read_until(spark, state, state.version)
        shown = with_source_position(rows, state.keeps_all) if state.format_version >= 3 else rows
        shown = drop_lineage(shown) if state.baseline else shown
        shown.createOrReplaceTempView(quote_name(format_changes_view(source)))
