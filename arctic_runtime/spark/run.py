"""One run of a model: observe → plan → execute → confirm, until nothing is left to do."""

from __future__ import annotations

import datetime
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog import CatalogReader
from arctic_runtime.errors import CommitConflict, CorruptState, SourceError
from arctic_runtime.files import observe_placement
from arctic_runtime.model.columns import SEQUENCE, Column, find_column, plain_columns
from arctic_runtime.model.names import TableName, changes_read, changes_view
from arctic_runtime.model.state import SourceState, TableState
from arctic_runtime.model.step import (
    AppendChanges,
    CreateChangeTable,
    EvolveSchema,
    Mode,
    Reason,
    Step,
    describe,
)
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version, Window, encode_versions
from arctic_runtime.observe import observe_model, observe_readable, observe_source, view_sql
from arctic_runtime.pins import Pins
from arctic_runtime.plan import decide as decisions
from arctic_runtime.plan.decide import Decision, Request, decide
from arctic_runtime.plan.increment import CHANGELOG, Upstreams, analysis
from arctic_runtime.plan.incremental.joins import Placement, describe_joins
from arctic_runtime.plan.incremental.refusal import NotMaintained
from arctic_runtime.plan.layout import laid_out_anew
from arctic_runtime.plan.reads import Reads, reads, with_position
from arctic_runtime.plan.schema import check_query, plan_schema
from arctic_runtime.plan.settle import settle, stale_branches
from arctic_runtime.spark import events
from arctic_runtime.spark.commit import retried
from arctic_runtime.spark.compute import Computation
from arctic_runtime.spark.diff import Shape
from arctic_runtime.spark.execute import Context, append_changes, perform
from arctic_runtime.spark.frames import (
    appended,
    columns_of,
    with_source_position,
)
from arctic_runtime.spark.statement import name

MAX_SETTLING = 20
NO_ROWS: Mapping[str, int] = {"insert": 0, "update": 0, "delete": 0, "upsert": 0}


@dataclass(frozen=True)
class Outcome:
    """What a run did. `timings` are seconds by step; `estimates` those that each way was thought to take before."""

    mode: Mode
    reason: Reason
    because: str = ""
    rows: Mapping[str, int] = field(default_factory=lambda: dict(NO_ROWS))
    version: int | None = None
    consumed: Mapping[str, int] = field(default_factory=dict)
    timings: Mapping[str, float] = field(default_factory=dict)
    estimates: Mapping[str, float] = field(default_factory=dict)


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


@dataclass(frozen=True)
class Plan:
    """What the next run does; `steps` are those that hold for what was observed now.

    `joins` tells of the query's joins whether they move rows, where all is computed.
    """

    decision: Decision
    steps: tuple[Step, ...]
    joins: tuple[str, ...] = ()


class Run:
    """One model's run. `session` is called only when Spark is needed, so that nothing new costs no Spark."""

    def __init__(
        self,
        model: Model,
        reader: CatalogReader,
        session: Callable[[], SparkSession],
        request: Request | None = None,
        now: datetime.datetime | None = None,
        pins: Pins | None = None,
    ) -> None:
        self.pins = pins or Pins()
        self.request = request or Request()
        self.model = laid_out_anew(model) if self.request.full_refresh else model
        self.reader = reader
        self.now = now or datetime.datetime.now(datetime.timezone.utc)
        self.timings: dict[str, float] = {}
        self.session = session
        self._committed: tuple[Decision, Mapping[str, int]] | None = None
        self._positions_known = True

    def run(self) -> Outcome:
        """Brings the table up to date; retries where another run was faster.

        Raises ConfigError, SourceError, DataError, CatalogError, and CommitConflict where others were always faster.
        """
        try:
            return retried(self._attempt)
        finally:
            self.pins.forget(self.model.table)

    def _attempt(self) -> Outcome:
        with self.timed("observe"):
            state = self.observe()
            decision, upstreams = self._decided(state)
        state = self.settled(state)
        if decision.mode == "unchanged":
            return self._outcome(*(self._committed or (decision, NO_ROWS)), state)
        context = self.context(state)
        for step in stale_branches(self.model, state):
            perform(step, context)
        rows = self._commit(context, decision, upstreams)
        self._committed = (decision, rows)
        state = self.settled(self.observe())
        return self._outcome(decision, rows, state)

    def _decided(self, state: TableState) -> tuple[Decision, Upstreams]:
        """A query itself reads its upstreams as they are now, and nothing goes back behind what it has read before."""
        upstreams = self.observe_upstreams(self.pins)
        if not _is_behind(upstreams, decisions.consumed(decisions.last_run(state.changes))):
            decision = decide(self.model, state, upstreams, self.request)
            if decision.mode not in ("create", "full"):
                return decision, upstreams
        upstreams = self.observe_upstreams()
        return decide(self.model, state, upstreams, self.request), upstreams

    def explain(self) -> Plan:
        """The plan of the next run, without running it and without Spark."""
        state = self.observe()
        upstreams = self.observe_upstreams()
        decision = decide(self.model, state, upstreams, self.request)
        head = state.changes.head if state.changes else None
        steps = [*settle(self.model, state)]
        if decision.mode != "unchanged":
            steps += stale_branches(self.model, state)
            steps.append(
                AppendChanges(self.model.table.changes, head.snapshot if head else 0, decision.mode, decision.reason)
            )
        return Plan(decision, tuple(steps), self._joins(upstreams))

    def _joins(self, upstreams: Upstreams) -> tuple[str, ...]:
        if self.model.config.input == "changes":
            return ()
        try:
            analysed, _ = analysis(self.model, upstreams)
        except NotMaintained:
            return ()
        found = [state for state in upstreams.states.values() if state is not None and state.base is not None]
        placed = {of.name: observe_placement(self.reader, of.base) for of in found if of.base is not None}
        behind = [of.name for of in found if of.base != of.name and (not of.bases or of.bases[-1][1] != of.version)]
        unmerged = Placement(otherwise="has changes that are not merged yet; `arctic compact` merges them")
        return describe_joins(analysed.tree, placed | dict.fromkeys(behind, unmerged))

    def observe(self) -> TableState:
        return observe_model(self.reader, self.model)

    def observe_upstreams(self, pins: Pins | None = None) -> Upstreams:
        """The version of every table that the query reads, views looked through: the pinned one, else the newest."""
        known = pins or Pins()
        if self.model.config.input == "changes":
            names = changes_read(self.model.sql)
            return Upstreams({str(of): known.first(of, partial(observe_source, self.reader, of)) for of in names})
        found: dict[str, SourceState | None] = {}
        views: dict[str, str] = {}
        unstable: set[str] = set()
        parsed = self._follow(self.model.sql, self.model.table, known, found, views, unstable)
        return Upstreams(found, Reads(unstable=tuple(sorted(unstable)), parsed=parsed), views)

    def _follow(
        self,
        sql: str,
        at: TableName,
        pins: Pins,
        found: dict[str, SourceState | None],
        views: dict[str, str],
        unstable: set[str],
    ) -> bool:
        read = reads(sql, at.catalog, at.schema)
        unstable.update(read.unstable)
        parsed = read.parsed
        for source in read.tables:
            if str(source) in found or str(source) in views:
                continue
            is_near = source.catalog == at.catalog
            found[str(source)] = pins.first(source, partial(observe_readable, self.reader, source)) if is_near else None
            behind = view_sql(self.reader, source) if found[str(source)] is None else None
            if behind is not None:
                del found[str(source)]
                views[str(source)] = behind
                parsed = self._follow(behind, source, pins, found, views, unstable) and parsed
        return parsed

    def _commit(self, context: Context, decision: Decision, upstreams: Upstreams) -> Mapping[str, int]:
        with self.timed("analyse"):
            self._register_inputs(context.spark, decision.windows, upstreams)
            query = self.query(context.spark)
            columns = columns_of(query)
            stored = events.stored_columns(self.model, columns)
            check_query(self.model, columns, stored)
            context, shape = self._prepared(context, columns, stored)
        assert context.state.changes is not None
        assert context.state.changes.head is not None
        step = AppendChanges(
            self.model.table.changes, context.state.changes.head.snapshot, decision.mode, decision.reason
        )
        summary = self._summary(context, decision, upstreams)
        computation = Computation(context, decision, query, shape, upstreams, self.request.schema_only)
        with self.timed("changes"), computation.held():
            found = computation.compute()
            confirm = None if found.is_pinned else partial(self._confirm, upstreams)
            said = {**summary, **found.summary}
            return append_changes(step, context, found.rows, shape, said, found.is_gathered, confirm)

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
        change = plan_schema(model, plain_columns(state.changes.columns), stored)
        if not change.is_empty:
            perform(EvolveSchema(model.table.changes, change, True), context)
        if state.base is not None:
            behind = plan_schema(model, state.base.columns, stored)
            if not behind.is_empty:
                perform(EvolveSchema(model.base, behind, False), context)
        if not change.is_empty:
            state = self.observe()
        return replace(context, state=state), self.shape_of(state, stored)

    def shape_of(self, state: TableState, given: tuple[Column, ...]) -> Shape:
        """The shape of change rows of the table as it is, for a query with the columns `given`."""
        assert state.changes is not None
        sequence = find_column(state.changes.columns, SEQUENCE)
        return Shape(
            columns=plain_columns(state.changes.columns),
            key=self.model.config.primary_key,
            given=tuple(column.name for column in given),
            sequence_type=sequence.type if sequence else "bigint",
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
        return {
            decisions.RUN: context.token,
            decisions.MODE: decisions.SCHEMA_ONLY if self.request.schema_only else decision.mode,
            decisions.REASON: decision.reason,
            decisions.CONSUMED: encode_versions(decision.consumed),
            decisions.QUERY: decisions.fingerprint(self.model, upstreams.views),
            **({CHANGELOG: "input"} if self._tells_no_old_rows(decision) else {}),
            **_begun(decision),
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
        return Context(self.session(), self.model, state, uuid.uuid4().hex[:12], self.now)

    def seconds(self) -> dict[str, float]:
        """What each step has taken so far."""
        return {step: round(seconds, 3) for step, seconds in self.timings.items()}

    def _outcome(self, decision: Decision, rows: Mapping[str, int], state: TableState) -> Outcome:
        head = state.changes.head if state.changes else None
        return Outcome(
            mode=decision.mode,
            reason=decision.reason,
            because=decision.because,
            rows=rows,
            version=head.snapshot if head else None,
            consumed={upstream: window.end.snapshot for upstream, window in decision.windows.items()},
            timings=self.seconds(),
            estimates={found.way: found.seconds for found in decision.ways},
        )

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Adds what is done meanwhile to the seconds of a step."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.timings[step] = self.timings.get(step, 0.0) + time.monotonic() - start


def _begun(decision: Decision) -> dict[str, str]:
    """What later runs learn from how long this one takes."""
    if decision.estimate is None:
        return {}
    now = round(time.time() * 1000)
    return {decisions.STARTED: str(now), decisions.ESTIMATED: f"{decision.estimate.unadjusted:.3f}"}


def _is_behind(upstreams: Upstreams, offsets: Mapping[str, Version]) -> bool:
    """Whether a version that was pinned is older than the one that was read last, by another invocation."""
    return any(
        state is not None and name in offsets and state.version.sequence < offsets[name].sequence
        for name, state in upstreams.states.items()
    )


def _version(state: SourceState | None) -> Version | None:
    return state.version if state else None
