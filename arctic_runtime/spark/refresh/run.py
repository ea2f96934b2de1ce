"""Runs a model: observes its tables, plans, computes and publishes changes, until the table is up to date."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import CommitConflict, SourceError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import Column, strip_change_columns
from arctic_runtime.model.names import format_changes_view, list_changes_read
from arctic_runtime.model.properties import REPAIRED
from arctic_runtime.model.run_summary import SCHEMA_ONLY, RunSummary, find_last_run
from arctic_runtime.model.shape import build_shape
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.step import AppendChanges, SetProperties
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh import decide as decisions
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.event_columns import check_events, find_sequence_type, select_stored_columns
from arctic_runtime.plan.refresh.fingerprint import compute_fingerprint, hash_query_reading, hash_session
from arctic_runtime.plan.refresh.increment import Upstreams, pin_query, remove_join_hints
from arctic_runtime.plan.refresh.reconcile import plan_branch_cleanup
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.schema import check_query
from arctic_runtime.refresh_planner import NO_ROWS, Outcome, PlannedRefresh, RefreshPlanner
from arctic_runtime.spark.engine.java.damage import explain_damaged_files
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS, was_too_large_to_broadcast
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.engine.settings import override_settings
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.history.versions import add_intervals
from arctic_runtime.spark.refresh.clock import pin_time
from arctic_runtime.spark.refresh.compiler import build_compiler_settings
from arctic_runtime.spark.refresh.compute import compute_changes
from arctic_runtime.spark.refresh.failures import to_refusal
from arctic_runtime.spark.refresh.from_query.day_texts import find_day_texts
from arctic_runtime.spark.refresh.from_query.parser_check import check_predicates, check_same_reading
from arctic_runtime.spark.refresh.inputs import RefreshInputs
from arctic_runtime.spark.refresh.integrity import list_broken_promises
from arctic_runtime.spark.refresh.keyless import append_events, prepare_to_append
from arctic_runtime.spark.refresh.prepare import prepare_tables
from arctic_runtime.spark.refresh.query_inputs import Narrowed, QueryInputs
from arctic_runtime.spark.refresh.rebase import RebaseAttempt
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.merge import build_lookup_settings
from arctic_runtime.spark.tables.rows.frames import (
    drop_lineage,
    list_frame_columns,
    read_until,
    to_column,
    with_source_position,
)
from arctic_runtime.spark.tables.steps import perform_step
from arctic_runtime.spark.tables.table_session import TableSession


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


class Refresh:
    """One run of a model: brings its table up to date with its query, and publishes the differences as change rows.

    `spark` is called only if the table is not up to date, so that other runs do not start Spark. `narrowed` has filters
    for the change rows of upstreams; change rows that a filter drops count as read, and change nothing.
    """

    def __init__(
        self, planner: RefreshPlanner, spark: Callable[[], SparkSession], narrowed: Narrowed | None = None
    ) -> None:
        self.planner = planner
        self._narrowed = narrowed or {}
        self.table = TableSession(planner.model, planner.reader, spark, planner.now, planner.timings)
        self._request = planner.request
        self._committed: tuple[Decision, Appended] | None = None
        self._recorded = RunSummary()

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
        first = [planned] if planned is not None else []
        attempts = self.table.reader.thresholds.commits.attempts
        try:
            with explain_damaged_files(self.model.table):
                return retry_on_conflict(
                    lambda: self._attempt_run(first.pop() if first else self._plan_again()), attempts
                )
        finally:
            self.planner.pins.invalidate_table(self.model.table)

    def _plan_again(self) -> PlannedRefresh:
        return self.planner.plan_refresh(self._request)

    def _attempt_run(self, planned: PlannedRefresh) -> Outcome:
        decision, upstreams = planned.decision, planned.upstreams
        state = self._reconcile_tables(planned.state)
        if decision.mode == "unchanged":
            if self._committed is None:
                return self.planner.build_outcome(decision, NO_ROWS, state)
            decision, committed = self._committed
            return self.planner.build_outcome(decision, committed.rows, state)
        decisions.check_not_overtaken(planned.state, state, f"bring {self.model.table} up to date with its changes")
        context = self.table.build_context(state)
        if self._is_other_session(context, decision):
            return self._attempt_run(self._plan_again())
        for step in plan_branch_cleanup(self.model, state, self.table.now, self.table.reader.thresholds.expiry):
            perform_step(step, context)
        decision = self._add_repairs(context, decision)
        settings = build_compiler_settings(context.state, decision, upstreams, context.thresholds.engine)
        with override_settings(context.spark, settings):
            try:
                committed = self._commit_run(context, decision, upstreams)
            except Exception as error:
                self._give_up(decision, error)
            else:
                return self._finish_run(decision, committed)
        return self._attempt_run(self._plan_again())

    def _reconcile_tables(self, state: TableState) -> TableState:
        return self.table.reconcile_until_done(state, appended=self._committed[1] if self._committed else None)

    def _add_repairs(self, context: Context, decision: Decision) -> Decision:
        """Checks the table if a full refresh was requested, and adds the names of failed checks to `decision`.

        A run with such names repairs the table. Change rows can't be repaired: if any check fails, the existing change
        rows are marked, so that later checks skip them. Returns the new decision.
        """
        state = context.state
        if decision.reason != "FULL_REFRESH" or state.changes is None or state.base is None:
            return decision
        assert state.changes.head is not None
        with self.table.timings.measure_step("check"):
            shape = build_shape(self.model, state, strip_change_columns(state.changes.columns))
            broken = list_broken_promises(context.spark, self.table.reader, self.model, state, shape)
        if not broken:
            return decision
        until = {REPAIRED: str(state.changes.head.sequence)}
        perform_step(SetProperties("repair.mark", self.model.table.changes, until), context)
        return replace(decision, repairs=broken, because=f"mended: {', '.join(broken)}")

    def _finish_run(self, decision: Decision, committed: Appended) -> Outcome:
        decision = replace(decision, because=committed.because or decision.because)
        self._committed = (decision, committed)
        state = self._reconcile_tables(self.table.observe_state())
        return self.planner.build_outcome(decision, committed.rows, state)

    def _is_other_session(self, context: Context, decision: Decision) -> bool:
        """Whether an incremental run would build on rows that another Spark version or other session settings computed.

        Also stores the hash of this session in the request, for the next plan.
        """
        session = hash_session(context.spark.version, context.spark.conf.getAll)
        self._request = replace(self._request, session=session)
        last = find_last_run(context.state.changes) or RunSummary()
        return decision.increment is not None and last.session != session

    def _give_up(self, decision: Decision, error: Exception) -> None:
        """Abandons the incremental plan after `error`, so that the next attempt of this run computes the whole query.

        Raises `error` instead, which ends the run, in three cases: the failed attempt was not incremental; the whole
        query would probably fail as well (see `to_refusal`); or the model has `refresh: strict`, which forbids a full
        computation after any error except NotMaintained.
        """
        given_up = to_refusal(error) if decision.increment is not None else None
        is_strict = self.model.config.refresh == "strict" and not isinstance(error, NotMaintained)
        if given_up is None or is_strict:
            raise error
        self._request = replace(self._request, given_up=given_up)

    def _commit_run(self, context: Context, decision: Decision, upstreams: Upstreams) -> Appended:
        with self.table.timings.measure_step("analyse"):
            self._pin_clock(context, decision, upstreams)
            pinned = replace(self.model, sql=pin_query(self.model, upstreams))
            query = QueryInputs(pinned, upstreams, self._narrowed).run_query(context.spark, decision.windows)
            columns = list_frame_columns(query)
            stored = add_intervals(self.model.config, select_stored_columns(self.model, columns), columns)
            check_query(self.model, columns, stored)
            check_events(self.model, columns, stored)
            if self.model.is_appended:
                return self._append_events(context, decision, query, stored, upstreams)
            self._check_predicates(context, upstreams, query)
            is_parser_confirmed = self._is_parser_confirmed(context, decision, upstreams, query)
            self._look_for_day_texts(context, decision, upstreams)
            sequence_type = find_sequence_type(self.model, columns)
            context, shape = prepare_tables(self.table, context, stored, sequence_type)
        inputs = RefreshInputs(
            *(context, decision, query, shape, upstreams, _open_background(context)),
            schema_only=self._request.schema_only,
            is_parser_confirmed=is_parser_confirmed,
            record_for_later_runs=self._record_for_later_runs,
        )
        with self.table.timings.measure_step("changes"):
            try:
                return self._publish_changes(inputs)
            except SPARK_ERRORS as error:
                if decision.increment is None or not was_too_large_to_broadcast(error):
                    raise
            without_hints = replace(decision, increment=remove_join_hints(decision.increment))
            background = _open_background(context)
            return self._publish_changes(
                replace(inputs, decision=without_hints, background=background, has_join_hints=False)
            )

    def _pin_clock(self, context: Context, decision: Decision, upstreams: Upstreams) -> None:
        """Pins the time for a query that reads the clock.

        Raises NotMaintained in an incremental run if the session has another time zone than that of the last run.
        """
        if not upstreams.reads.clocks or self.model.config.input == "changes":
            return
        last = find_last_run(context.state.changes)
        reading = last.clock if last else None
        now = pin_time(context.spark, upstreams.clock, reading)
        if decision.increment is not None and reading is not None and reading.zone != now.zone:
            raise NotMaintained("QUERY_CHANGED", f"the time zone is {now.zone} now, and was {reading.zone}")
        self._recorded = replace(self._recorded, clock=now)

    def _append_events(
        self,
        context: Context,
        decision: Decision,
        query: DataFrame,
        stored: tuple[Column, ...],
        upstreams: Upstreams,
    ) -> Appended:
        """Appends the rows of `query`, which are computed from new change events, to a table without a primary key."""
        ready = prepare_to_append(self.table, context.state, stored)
        rows = query.select(*[to_column(column.name) for column in stored])
        shown = rows.limit(0) if self._request.schema_only else rows
        return append_events(self.table, ready, shown, self._build_summary(ready, decision, upstreams))

    def _publish_changes(self, inputs: RefreshInputs) -> Appended:
        """Computes the change rows and publishes them; if another run commits first, rebases them if possible."""
        context, decision, background = inputs.context, inputs.decision, inputs.background
        assert context.state.changes is not None
        assert context.state.changes.head is not None
        summary, begun = self._build_summary(context, decision, inputs.upstreams), _build_estimate_summary(decision)
        with inputs.caching(), background:
            computed = compute_changes(inputs)

            def confirm_upstreams() -> None:
                background.wait_for_all()
                if not computed.is_pinned:
                    self._confirm_upstreams(inputs.upstreams)

            summary = summary.with_entries_from(begun) if computed.as_decided else summary
            head = context.state.changes.head.snapshot
            changes = ChangeSet(
                AppendChanges(self.model.table.changes, head, decision.mode, decision.reason),
                computed.rows,
                inputs.shape,
                summary.with_entries_from(self._recorded).with_entries_from(computed.summary),
                computed.is_gathered,
                confirm_upstreams,
            )
            with override_settings(context.spark, build_lookup_settings(computed.keys, context.thresholds.pruning)):
                times = 0 if self._narrowed else context.thresholds.commits.attempts
                rebase = RebaseAttempt(self.planner, self.table, inputs, changes, times)
                return publish_changes(changes, context, rebase.publish_on_top)

    def _record_for_later_runs(self, entries: RunSummary) -> None:
        self._recorded = self._recorded.with_entries_from(entries)

    def _check_predicates(self, context: Context, upstreams: Upstreams, query: DataFrame) -> None:
        """Raises ConfigError if Spark and our parser understand the contract's checks differently.

        Does nothing if the last run had the same query.
        """
        last = find_last_run(context.state.changes) or RunSummary()
        if self.model.checks and last.query != compute_fingerprint(self.model, upstreams):
            check_predicates(query, self.model)

    def _look_for_day_texts(self, context: Context, decision: Decision, upstreams: Upstreams) -> None:
        """Records for later runs whether the query's result depends on the day of the run.

        It does if upstreams have texts with a time but no date that the query converts to timestamps.
        """
        if upstreams.reads.day_columns and not self._request.schema_only:
            follows, thresholds = decision.increment is not None, context.thresholds.pruning
            day_texts = find_day_texts(context.spark, upstreams, decision.windows, follows, thresholds)
            self._recorded = replace(self._recorded, day_texts=day_texts)

    def _is_parser_confirmed(
        self, context: Context, decision: Decision, upstreams: Upstreams, query: DataFrame
    ) -> bool:
        """Whether Spark understands the query as our analysis does; this is compared once per query text.

        Returns False without a comparison if the query can't be refreshed incrementally, or if an earlier attempt gave
        up an incremental refresh. If Spark understands it differently, raises NotMaintained in an incremental run, and
        PlanError in a run that creates a table with `refresh: strict`.
        """
        is_query = self.model.config.input == "state" and not self._request.schema_only
        if not is_query or not decisions.can_follow_changes(upstreams):
            return False
        judged = hash_query_reading(self.model, upstreams)
        self._recorded = replace(self._recorded, judged=judged)
        if decision.given_up is not None:
            return False
        last = find_last_run(context.state.changes) or RunSummary()
        if last.judged != judged or last.given_up is not None:
            try:
                check_same_reading(self.model, upstreams, query)
            except NotMaintained as refused:
                self._record_difference(decision, refused)
                return False
        return True

    def _record_difference(self, decision: Decision, refused: NotMaintained) -> None:
        """Records for later runs that Spark understands the query differently than our analysis.

        Raises NotMaintained in an incremental run, and PlanError in a run that creates a table with `refresh: strict`.
        """
        if decision.increment is not None:
            raise refused
        if self.model.config.refresh == "strict" and decision.mode == "create":
            raise decisions.build_never_strict_error(self.model, refused) from refused
        if refused.reason == "NOT_SAME_TO_SPARK":
            refusal = Refusal(refused.reason, refused.because)
            self._recorded = replace(self._recorded, given_up=str(refusal))

    def _confirm_upstreams(self, upstreams: Upstreams) -> None:
        """Raises CommitConflict if an upstream has changed since it was observed.

        The change rows may then contain later rows of the upstream than the offsets say.
        """
        now = self.planner.observe_upstreams().states
        moved = [
            name for name, state in upstreams.states.items() if state and _get_version(now.get(name)) != state.version
        ]
        if moved:
            self._request = replace(self._request, was_overtaken=True)
            raise CommitConflict(
                f"{self.model.table}: the upstream {', '.join(moved)} changed while the query ran.",
                fix="run again; if the upstream changes all the time, put a model between it and this one",
            )

    def _build_summary(self, context: Context, decision: Decision, upstreams: Upstreams) -> RunSummary:
        last = None if self._request.full_refresh else find_last_run(context.state.log)
        return RunSummary(
            run=context.token,
            mode=SCHEMA_ONLY if self._request.schema_only else decision.mode,
            reason=decision.reason,
            offsets=decision.consumed,
            query=compute_fingerprint(self.model, upstreams),
            session=self._request.session,
            no_aggregate_state=last.no_aggregate_state if last else None,
            given_up=str(decision.given_up) if decision.given_up else None,
            repaired=", ".join(decision.repairs) or None,
            changelog="input" if self._is_without_before_images(decision) else None,
        )

    def _is_without_before_images(self, decision: Decision) -> bool:
        return self.model.config.changelog == "input" and decision.mode == "incremental"


def _open_background(context: Context) -> Parallel:
    return Parallel(context.spark, context.thresholds.engine)


def _build_estimate_summary(decision: Decision) -> RunSummary:
    """Builds summary entries with the run's start time and estimated cost, from which later runs correct estimates."""
    if decision.estimate is None:
        return RunSummary()
    return RunSummary(started_ms=round(time.time() * 1000), estimated=decision.estimate.unadjusted)


def _get_version(state: SourceState | None) -> Version | None:
    return state.version if state else None
