"""One run of a model: observe → plan → execute → confirm, until nothing is left to do."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog.observe import observe_source
from arctic_runtime.catalog.pinned_snapshots import Pins
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retried
from arctic_runtime.errors import CommitConflict, CorruptState, SourceError
from arctic_runtime.ivm.algebra.refusal import NotMaintained, Refusal
from arctic_runtime.ivm.frontend.reads import with_position
from arctic_runtime.model.columns import SEQUENCE, Column, find_column, plain_columns
from arctic_runtime.model.names import TableName, changes_read, changes_view
from arctic_runtime.model.properties import (
    CHANGELOG,
    ESTIMATED,
    GIVEN_UP,
    JUDGED,
    MODE,
    NO_AGGREGATE_STATE,
    OFFSETS,
    QUERY,
    REASON,
    REPAIRED,
    RUN,
    SESSION,
    STARTED,
)
from arctic_runtime.model.run_summary import SCHEMA_ONLY, last_run, said_again
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.step import AppendChanges, CreateChangeTable, DropBase, EvolveSchema, describe
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window, encode_versions
from arctic_runtime.plan import decide as decisions
from arctic_runtime.plan.decide import Decision, Request
from arctic_runtime.plan.fingerprint import fingerprint, judged, session_text
from arctic_runtime.plan.increment import Upstreams, untold
from arctic_runtime.plan.reconcile import settle, stale_branches
from arctic_runtime.plan.schema import TypeConflict, check_query, plan_schema
from arctic_runtime.spark.engine.java_errors import SPARK_ERRORS, was_too_large_to_send
from arctic_runtime.spark.engine.parallel import Parallel
from arctic_runtime.spark.engine.settings import settings
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.refresh import events
from arctic_runtime.spark.refresh.compute import Computation
from arctic_runtime.spark.refresh.failures import refusal_for
from arctic_runtime.spark.refresh.judge import check_predicates, check_same
from arctic_runtime.spark.refresh.planning import NO_ROWS, Look, Outcome, Seen
from arctic_runtime.spark.tables.commit import set_properties
from arctic_runtime.spark.tables.diff import Shape
from arctic_runtime.spark.tables.frames import appended, columns_of, with_source_position
from arctic_runtime.spark.tables.integrity import broken_promises
from arctic_runtime.spark.tables.steps import Appended, Context, append_changes, looking_up, perform

MAX_SETTLING = 20


def preview_changes(spark: SparkSession, reader: CatalogReader, sql: str) -> None:
    """Gives every `changes(…)` of a query all rows that there are; raises SourceError where there is no such table."""
    for source in changes_read(sql):
        state = observe_source(reader, source)
        if state is None:
            raise SourceError(f"{source} can't be read for its changes: it has no snapshot")
        register_changes(spark, source, state, None, placed=state.format_version >= 3)


def register_changes(
    spark: SparkSession, source: TableName, state: SourceState, window: Window | None, placed: bool
) -> None:
    """Makes the temporary view that stands for a source's new rows, all that there are without a window.

    Where `placed`, each row tells its position in the source.
    """
    rows = appended(spark, state, window or Window(str(source), None, state.version))
    shown = with_source_position(rows) if placed else rows
    shown.createOrReplaceTempView(name(changes_view(source)))


class Run(Look):
    """One model's run. `session` is called only when Spark is needed, so that what needs none starts none."""

    def __init__(
        self,
        model: Model,
        reader: CatalogReader,
        session: Callable[[], SparkSession],
        request: Request | None = None,
        now: datetime.datetime | None = None,
        pins: Pins | None = None,
    ) -> None:
        super().__init__(model, reader, request, now, pins)
        self.session = session
        self._committed: tuple[Decision, Appended] | None = None
        self._learned: dict[str, str] = {}
        self._positions_known = True

    def run(self, seen: Seen | None = None) -> Outcome:
        """Brings the table up to date, from what was `seen` a moment ago; retries where another run was faster.

        Raises ConfigError, SourceError, DataError, CatalogError, and CommitConflict where others were always faster.
        """
        first = [seen] if seen is not None else []
        try:
            return retried(lambda: self._attempt(first.pop() if first else self.look()))
        finally:
            self.pins.forget(self.model.table)

    def _attempt(self, seen: Seen) -> Outcome:
        decision, upstreams = seen.decision, seen.upstreams
        state = self.settled(seen.state)
        if decision.mode == "unchanged":
            if self._committed is None:
                return self.outcome(decision, NO_ROWS, state)
            decision, committed = self._committed
            return self.outcome(decision, committed.rows, state)
        context = self.context(state)
        if self._is_other_session(context, decision):
            return self._attempt(self.look())
        for step in stale_branches(self.model, state, self.now):
            perform(step, context)
        decision = self._repairing(context, decision)
        try:
            committed = self._commit(context, decision, upstreams)
        except Exception as error:
            self._give_up(decision, error)
        else:
            return self._done(decision, committed)
        return self._attempt(self.look())

    def _repairing(self, context: Context, decision: Decision) -> Decision:
        """The decision with the promises that the table breaks, which somebody who refreshes it in full wants restored.

        What can't be mended, change rows up to now, is left out of later checks.
        """
        state = context.state
        if decision.reason != "FULL_REFRESH" or state.changes is None or state.base is None:
            return decision
        assert state.changes.head is not None
        with self.timed("check"):
            shape = self.shape_of(state, plain_columns(state.changes.columns))
            broken = broken_promises(context.spark, self.reader, self.model, state, shape)
        if not broken:
            return decision
        until = {REPAIRED: str(state.changes.head.sequence)}
        set_properties("repair.mark", context.spark, self.model.table.changes, until)
        return replace(decision, repairs=broken, because=f"mended: {', '.join(broken)}")

    def _done(self, decision: Decision, committed: Appended) -> Outcome:
        self._committed = (decision, committed)
        state = self.settled(self.observe())
        return self.outcome(decision, committed.rows, state)

    def _is_other_session(self, context: Context, decision: Decision) -> bool:
        """Whether changes were to be followed from rows that another Spark, or one set up otherwise, has computed."""
        session = session_text(context.spark.version, context.spark.conf.getAll)
        self.request = replace(self.request, session=session)
        last = last_run(context.state.changes) or {}
        return decision.increment is not None and last.get(SESSION) != session

    def _give_up(self, decision: Decision, error: Exception) -> None:
        """After this the run computes in full; raises the error where that would not get around it."""
        given_up = refusal_for(error) if decision.increment is not None else None
        is_strict = self.model.config.refresh == "strict" and not isinstance(error, NotMaintained)
        if given_up is None or is_strict:
            raise error
        self.request = replace(self.request, given_up=given_up)

    def _commit(self, context: Context, decision: Decision, upstreams: Upstreams) -> Appended:
        with self.timed("analyse"):
            self._register_inputs(context.spark, decision.windows, upstreams)
            query = self.query(context.spark)
            columns = columns_of(query)
            stored = events.stored_columns(self.model, columns)
            check_query(self.model, columns, stored)
            self._check_predicates(context, upstreams, query)
            is_same = self._is_same(context, decision, upstreams)
            context, shape = self._prepared(context, columns, stored)
        assert context.state.changes is not None
        assert context.state.changes.head is not None
        step = AppendChanges(
            self.model.table.changes, context.state.changes.head.snapshot, decision.mode, decision.reason
        )
        summary, begun = self._summary(context, decision, upstreams), _begun(decision)

        def append(decision: Decision, is_told: bool) -> Appended:
            beside = Parallel(context.spark)
            computation = Computation(
                context,
                decision,
                query,
                shape,
                upstreams,
                beside,
                self.request.schema_only,
                is_told,
                is_same,
                self._learned,
            )
            return self._append(step, computation, summary, begun)

        with self.timed("changes"):
            try:
                return append(decision, is_told=True)
            except SPARK_ERRORS as error:
                if decision.increment is None or not was_too_large_to_send(error):
                    raise
            return append(replace(decision, increment=untold(decision.increment)), is_told=False)

    def _check_predicates(self, context: Context, upstreams: Upstreams, query: DataFrame) -> None:
        """Has Spark read the contract's checks where the last run had others."""
        last = last_run(context.state.changes) or {}
        if self.model.checks and last.get(QUERY) != fingerprint(self.model, upstreams):
            check_predicates(query, self.model)

    def _is_same(self, context: Context, decision: Decision, upstreams: Upstreams) -> bool:
        """Whether Spark reads the query as its analysis does, which it is asked once.

        Raises NotMaintained where changes are to be followed and it does not, and PlanError for `refresh: strict`.
        """
        is_query = self.model.config.input == "state" and not self.request.schema_only
        if not is_query or not decisions.may_be_followed(upstreams):
            return False
        query = self._learned[JUDGED] = judged(self.model, upstreams)
        if decision.given_up is not None:
            return False
        last = last_run(context.state.changes) or {}
        if last.get(JUDGED) != query or GIVEN_UP in last:
            try:
                check_same(context.spark, self.model, upstreams.views)
            except NotMaintained as refused:
                self._differs(decision, refused)
                return False
        return True

    def _differs(self, decision: Decision, refused: NotMaintained) -> None:
        """Where all is computed anyway, later runs know that changes are not to be followed."""
        if decision.increment is not None:
            raise refused
        if self.model.config.refresh == "strict" and decision.mode == "create":
            raise decisions.never_strict(self.model, refused) from refused
        if refused.reason == "NOT_SAME_TO_SPARK":
            self._learned[GIVEN_UP] = str(Refusal(refused.reason, refused.because))

    def _append(
        self, step: AppendChanges, computation: Computation, summary: Mapping[str, str], begun: Mapping[str, str]
    ) -> Appended:
        """Computes the change rows and commits them; what had `begun` is said of what is computed as it was decided."""
        context, beside = computation.context, computation.beside
        with computation.held(), beside:
            found = computation.compute()

            def confirm() -> None:
                beside.wait()
                if not found.is_pinned:
                    self._confirm(computation.upstreams)

            said = {**summary, **computation.learned, **found.summary, **(begun if found.as_decided else {})}
            with settings(context.spark, looking_up(found.keys)):
                return append_changes(step, context, found.rows, computation.shape, said, found.is_gathered, confirm)

    def _confirm(self, upstreams: Upstreams) -> None:
        """A query reads its upstreams as they are when it runs, so the offsets are right only if they stood still."""
        now = self.observe_upstreams().states
        moved = [name for name, state in upstreams.states.items() if state and _version(now.get(name)) != state.version]
        if moved:
            raise CommitConflict(
                f"{self.model.table}: its upstream {', '.join(moved)} changed while the query ran.\n"
                "  what to do: run again; if it changes all the time, keep it in a model that this one can follow"
            )

    def _prepared(
        self, context: Context, columns: tuple[Column, ...], stored: tuple[Column, ...]
    ) -> tuple[Context, Shape]:
        """Makes the change table, or brings its columns and the base's to the query's."""
        model = self.model
        seq_type = events.sequence_type(model, columns)
        state = context.state
        if state.changes is None:
            perform(CreateChangeTable(model.table.changes, stored, seq_type), context)
            state = self.observe()
        assert state.changes is not None
        behind = self._evolution(context, state, stored)
        for step in behind:
            perform(step, context)
        if behind:
            state = self.observe()
        return replace(context, state=state), self.shape_of(state, stored)

    def _evolution(self, context: Context, state: TableState, stored: tuple[Column, ...]) -> list[EvolveSchema]:
        """What brings the columns to the query's; where they can't be and no row is there, the tables are made anew."""
        model = self.model
        assert state.changes is not None
        own = [(model.table.changes, plain_columns(state.changes.columns), True)]
        if state.base is not None:
            own.append((model.base, state.base.columns, False))
        try:
            steps = [EvolveSchema(table, plan_schema(model, of, stored), is_log) for table, of, is_log in own]
        except TypeConflict:
            if not decisions.holds_nothing(model, state):
                raise
            for table in (model.base, model.table.changes):
                perform(DropBase(table), context)
            raise CommitConflict(f"{model.table}: its tables, which had no rows, are made anew") from None
        return [step for step in steps if not step.change.is_empty]

    def shape_of(self, state: TableState, given: tuple[Column, ...]) -> Shape:
        """The shape of change rows of the table as it is, for a query with the columns `given`."""
        assert state.changes is not None
        sequence = find_column(state.changes.columns, SEQUENCE)
        return Shape(
            columns=plain_columns(state.changes.columns),
            key=self.model.config.primary_key,
            given=tuple(column.name for column in given),
            sequence_type=sequence.type if sequence else "bigint",
            is_ordered=self.model.config.sequence_by is not None,
            not_null=self.model.not_null,
            checks=self.model.checks,
        )

    def query(self, spark: SparkSession) -> DataFrame:
        is_placed = self.model.config.input == "changes" and self._positions_known
        placed = with_position(self.model.sql) if is_placed else None
        return spark.sql(placed or self.model.sql)

    def register_consumed(self, offsets: Mapping[str, Version], upstreams: Upstreams) -> None:
        """Gives every `changes(…)` of the query all rows that were consumed so far."""
        windows = {name: Window(name, None, end) for name, end in offsets.items()}
        self._register_inputs(self.session(), windows, upstreams)

    def _register_inputs(self, spark: SparkSession, windows: Mapping[str, Window], upstreams: Upstreams) -> None:
        """Gives every `changes(…)` of the query the rows of its window; all there are where it has none.

        Tables of format version 2 keep no row lineage, so the order of their rows is not known.
        """
        sources = changes_read(self.model.sql)
        states = [upstreams.states.get(str(source)) for source in sources]
        self._positions_known = all(state is None or state.format_version >= 3 for state in states)
        for source in sources:
            state = upstreams.states.get(str(source))
            if state is None:
                raise SourceError(f"{self.model.table}: {source} can't be read for its changes: it has no snapshot")
            register_changes(spark, source, state, windows.get(str(source)), self._positions_known)

    def _summary(self, context: Context, decision: Decision, upstreams: Upstreams) -> dict[str, str]:
        last = None if self.request.full_refresh else last_run(context.state.changes)
        return {
            RUN: context.token,
            MODE: SCHEMA_ONLY if self.request.schema_only else decision.mode,
            REASON: decision.reason,
            OFFSETS: encode_versions(decision.consumed),
            QUERY: fingerprint(self.model, upstreams),
            SESSION: self.request.session or "",
            **said_again(last, NO_AGGREGATE_STATE),
            **({GIVEN_UP: str(decision.given_up)} if decision.given_up else {}),
            **({REPAIRED: ", ".join(decision.repairs)} if decision.repairs else {}),
            **({CHANGELOG: "input"} if self._tells_no_old_rows(decision) else {}),
        }

    def _tells_no_old_rows(self, decision: Decision) -> bool:
        return self.model.config.changelog == "input" and decision.mode == "incremental"

    def settled(self, state: TableState, fold: bool = False) -> TableState:
        """Performs what has to follow the change table, until base and view show its head; see `settle`."""
        steps = settle(self.model, state, fold)
        for _ in range(MAX_SETTLING):
            if not steps:
                return state
            context = self.context(state)
            for step in steps:
                with self.timed(type(step).__name__):
                    perform(step, context)
            state = self.observe()
            steps = settle(self.model, state, fold)
        raise CorruptState(
            f"{self.model.table}: its base and view do not come to show its change table.\n"
            f"  expected: nothing left to do\n  found: {'; '.join(describe(step) for step in steps)}\n"
            "  what to do: see who else writes to these relations, then run again"
        )

    def context(self, state: TableState) -> Context:
        """What steps for this state need, with a token of its own."""
        committed = self._committed[1] if self._committed else None
        return Context(self.session(), self.reader, self.model, state, uuid.uuid4().hex[:12], self.now, committed)


def _begun(decision: Decision) -> dict[str, str]:
    """What later runs learn from how long this one takes."""
    if decision.estimate is None:
        return {}
    now = round(time.time() * 1000)
    return {STARTED: str(now), ESTIMATED: f"{decision.estimate.unadjusted:.3f}"}


def _version(state: SourceState | None) -> Version | None:
    return state.version if state else None
