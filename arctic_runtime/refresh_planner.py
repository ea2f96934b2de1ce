"""Plans a run of a model from metadata, without Spark, because most runs have nothing to do and need no Spark."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from arctic_runtime.catalog.observation.manifests import observe_bucketing
from arctic_runtime.catalog.observation.plain_tables import with_removals
from arctic_runtime.catalog.observation.tables import observe_model, observe_readable, observe_source
from arctic_runtime.catalog.observation.views import read_view_sql
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.required_capabilities import check_needs
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.day_texts import DayTexts, find_day_texts
from arctic_runtime.ivm.frontend.reads import Reads, find_reads
from arctic_runtime.ivm.rewrite.join_placement import describe_joins
from arctic_runtime.model.files.layout import Placement, apply_configured_layout
from arctic_runtime.model.names import list_changes_read, parse_full_name
from arctic_runtime.model.run_summary import RunSummary, find_last_run, find_run_at, get_offsets, to_micros
from arctic_runtime.model.state import Commit, SourceState, TableState
from arctic_runtime.model.step import AppendChanges, Mode, Reason, Step
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.plan.refresh.consistency import find_mixed_versions, find_newer_version
from arctic_runtime.plan.refresh.decide import Decision, decide_refresh, has_awaited_query
from arctic_runtime.plan.refresh.edits import find_former_query, list_former_sources
from arctic_runtime.plan.refresh.fingerprint import describe_query_change, is_same_query
from arctic_runtime.plan.refresh.increment import Upstreams, analyse_model
from arctic_runtime.plan.refresh.reconcile import plan_branch_cleanup, plan_reconciliation
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.spark_settings import select_sql_settings
from arctic_runtime.timings import Timings

NO_ROWS: Mapping[str, int] = {"insert": 0, "update": 0, "delete": 0, "upsert": 0}


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run."""

    mode: Mode
    """The way in which the run computed the table."""

    reason: Reason
    """The reason for the mode."""

    because: str = ""
    """Explanation of the reason for users; empty if the word says enough."""

    rows: Mapping[str, int] = field(default_factory=lambda: dict(NO_ROWS))
    """Number of change rows by action."""

    version: int | None = None
    """Version of the table after the run, as a snapshot id; None if the table has none."""

    consumed: Mapping[str, int] = field(default_factory=dict)
    """Maps each upstream to the version, as a snapshot id, up to which it was read."""

    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step."""

    estimates: Mapping[str, float] = field(default_factory=dict)
    """Seconds that the planner estimated for each mode."""


@dataclass(frozen=True)
class Plan:
    """Plan of the next run, which `arctic explain` shows: the decision, and the steps for the present tables.

    `joins` has a line of text for each join of two tables in the query: whether a full refresh would shuffle its rows.
    """

    decision: Decision
    steps: tuple[Step | AppendChanges, ...]
    joins: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedRefresh:
    """Observed states of a model's relations and of its upstreams, and the decision on the next run."""

    state: TableState
    upstreams: Upstreams
    decision: Decision


class RefreshPlanner:
    """Observes a model and its upstreams, and decides on the next run of the model, without Spark.

    `request` has the flags of the run. `pins` are the versions of upstreams that all models of one dbt invocation read,
    so that their tables are consistent; an upstream without a pin is pinned at its newest version when it is observed.
    """

    def __init__(
        self,
        model: Model,
        reader: CatalogReader,
        request: Request | None = None,
        now: datetime.datetime | None = None,
        pins: PinnedSnapshots | None = None,
    ) -> None:
        self.now = now or datetime.datetime.now(datetime.timezone.utc)
        self.pins = pins or PinnedSnapshots(self.now)
        self.request = request or Request()
        self.model = apply_configured_layout(model) if self.request.full_refresh else model
        self.reader = reader
        self.settings = select_sql_settings(reader.profile.build_session_settings())
        self.timings = Timings()
        self._loaded: dict[str, SourceState] = {}

    def plan_refresh(self, request: Request | None = None) -> PlannedRefresh:
        """Observes the model and its upstreams, and decides on the next run, without changing anything.

        `request` is used in place of the planner's own, if given. Raises ConfigError or SourceError if the model can't
        be run, and CatalogError if the catalog does not answer.
        """
        with self.timings.measure_step("observe"):
            check_needs(self.reader, self.model)
            state = self.observe_state()
            decision, upstreams = self._decide_and_observe(state, request or self.request)
            return PlannedRefresh(state, upstreams, decision)

    def _decide_and_observe(self, state: TableState, request: Request) -> tuple[Decision, Upstreams]:
        """Returns the decision on a run, and the observed upstreams from which it follows.

        These have their newest versions for a full refresh; otherwise the pinned versions. If one of these is older
        than the version that the last run has read, a later invocation has overtaken this one, and there is nothing to
        do: together, the newest versions of all upstreams may be no state that the sources have had. If a later
        invocation has refreshed an upstream with a newer version of a table than the pinned one, the upstreams have
        their newest versions if these show one version of each table; raises CommitConflict if they don't.
        """
        pinned = self.observe_upstreams(self.pins)
        if _is_behind(pinned, get_offsets(find_last_run(state.log))):
            newest = self.observe_upstreams()
            decision = self.decide_mode(state, newest, request)
            is_overtaken = decision.mode == "incremental" or decision.reason == "COST"
            is_done = is_overtaken and not decision.has_later_changes
            return Decision("unchanged", "NOTHING_NEW") if is_done else decision, newest
        decision = self.decide_mode(state, pinned, request)
        if decision.mode not in ("create", "full"):
            if decision.mode == "unchanged" or (newer := self._find_newer_version(pinned)) is None:
                return decision, pinned
            newest = self._observe_consistent(*newer)
            return self.decide_mode(state, newest, request), newest
        newest = self.observe_upstreams()
        return (decision if newest == pinned else self.decide_mode(state, newest, request)), newest

    def _find_newer_version(self, upstreams: Upstreams) -> tuple[str, str] | None:
        """Returns an upstream that another invocation has refreshed with a newer version of a table than its pin.

        Returns the names of both; None if there is no such upstream, or if the model reads only one table.
        """
        states = [state for state in upstreams.states.values() if state is not None]
        if len(states) < 2:
            return None
        return find_newer_version(states, self._load_state, self.pins.list_versions())

    def _observe_consistent(self, upstream: str, source: str) -> Upstreams:
        """Observes the newest versions of all upstreams, since `upstream` is newer than the pinned version of `source`.

        Raises CommitConflict if together they show two versions of a table.
        """
        newest = self.observe_upstreams()
        states = [state for state in newest.states.values() if state is not None]
        mixed = find_mixed_versions(states, self._load_state)
        if mixed is None:
            return newest
        raise CommitConflict(
            f"{self.model.table}: another invocation brought its upstream {upstream} up to date.",
            expected=f"upstreams with one version of {source}",
            actual=f"two versions of {mixed}, which this table would mix",
            fix="run again, after the other invocation has ended; nothing was changed",
        )

    def _load_state(self, name: str, version: Version) -> SourceState | None:
        """Returns the state of a table at `version` or a later one, of another catalog None."""
        known = self.pins.find_state(name) or self._loaded.get(name)
        if known is not None and known.version.table == version.table and known.version.sequence >= version.sequence:
            return known
        table = parse_full_name(name)
        if table is None or table.catalog != self.model.table.catalog:
            return None
        state = observe_source(self.reader, table)
        if state is not None:
            self._loaded[name] = state
        return state

    def decide_mode(self, state: TableState, upstreams: Upstreams, request: Request) -> Decision:
        """Decides on the next run from observed states of the model's tables and of its upstreams."""
        upstreams = with_day_texts(self._add_removals(state, upstreams), find_last_run(state.changes))
        upstreams = self._add_former_sources(state, upstreams)
        return decide_refresh(self.model, state, upstreams, request, self.reader.thresholds)

    def _add_removals(self, state: TableState, upstreams: Upstreams) -> Upstreams:
        """Adds to each upstream the numbers of rows that were deleted since the last run, if the model reads events."""
        offsets = get_offsets(find_last_run(state.log))
        if self.model.config.input != "changes":
            return upstreams
        states = {
            name: with_removals(self.reader, source, offsets[name]) if source and name in offsets else source
            for name, source in upstreams.states.items()
        }
        return replace(upstreams, states=states)

    def _add_former_sources(self, state: TableState, upstreams: Upstreams) -> Upstreams:
        """Adds the tables that only the query of the last run read, if that is known and was another one.

        Adds the table itself if the last run differs from the next one in anything that the rows depend on.
        """
        last = find_last_run(state.changes)
        if last is None or self.model.config.input != "state":
            return upstreams
        if describe_query_change(self.model, state, upstreams, last.query):
            upstreams = replace(upstreams, own=observe_source(self.reader, self.model.table))
        former = find_former_query(self.model, state, last)
        if former is None or is_same_query(self.model, upstreams, last.query):
            return upstreams
        others = (name for name in list_former_sources(self.model, former) if str(name) not in upstreams.states)
        readable = (name for name in others if name.catalog == self.model.table.catalog)
        return replace(upstreams, former={str(name): observe_readable(self.reader, name) for name in readable})

    def describe_change_since(self, commit: Commit) -> str:
        """Describes for users how the model's query differs from that of a version; "" if it does not."""
        state = self.observe_state()
        query = find_run_at(state.changes, commit).query
        return describe_query_change(self.model, state, self.observe_upstreams(), query)

    def report_unchanged(self, planned: PlannedRefresh) -> Outcome | None:
        """Returns the outcome of the run if it has nothing to do; otherwise None.

        It has nothing to do if there are no changes to read and no steps that an earlier run left undone.
        """
        is_unchanged = planned.decision.mode == "unchanged"
        if not is_unchanged or has_awaited_query(planned.decision, planned.state):
            return None
        if plan_reconciliation(self.model, planned.state, self.reader.thresholds.merge):
            return None
        self.pins.invalidate_table(self.model.table)
        return self.build_outcome(planned.decision, NO_ROWS, planned.state)

    def explain_refresh(self) -> Plan:
        """Plans the next run for a display to users, without any effect; raises ConfigError for an ingested table."""
        if self.model.ingested_from is not None:
            raise ConfigError(
                f"{self.model.table} is ingested from {self.model.ingested_from}, and no run of a model makes it.",
                fix="run `arctic ingest`, which brings it up to date; `arctic status` shows it",
            )
        state = self.observe_state()
        upstreams = self.observe_upstreams()
        decision = self.decide_mode(state, upstreams, self.request)
        head = state.log.head if state.log else None
        steps: list[Step | AppendChanges] = [*plan_reconciliation(self.model, state, self.reader.thresholds.merge)]
        if decision.mode != "unchanged":
            steps += plan_branch_cleanup(self.model, state, self.now, self.reader.thresholds.expiry)
            steps.append(AppendChanges(self.model.log, head.snapshot if head else 0, decision.mode, decision.reason))
        return Plan(decision, tuple(steps), self._describe_joins(upstreams))

    def _describe_joins(self, upstreams: Upstreams) -> tuple[str, ...]:
        if self.model.config.input == "changes":
            return ()
        try:
            analysed, _ = analyse_model(self.model, upstreams)
        except NotMaintained:
            return ()
        based_sources = [state for state in upstreams.states.values() if state is not None and state.base is not None]
        placed = {
            source.name: observe_bucketing(self.reader, source.base)
            for source in based_sources
            if source.base is not None
        }
        behind = [
            source.name
            for source in based_sources
            if source.base != source.name and (not source.bases or source.bases[-1][1] != source.version)
        ]
        unmerged = Placement(otherwise="has changes that are not merged yet; `arctic compact` merges them")
        return describe_joins(analysed.tree, placed | dict.fromkeys(behind, unmerged))

    def observe_state(self) -> TableState:
        return observe_model(self.reader, self.model)

    def observe_upstreams(self, pins: PinnedSnapshots | None = None) -> Upstreams:
        """Observes every table that the query reads, directly or through views.

        A table is observed at its version in `pins`. If it has none there, it is observed at its newest version, which
        is added to `pins`.
        """
        known = pins or PinnedSnapshots()
        if self.model.config.input == "changes":
            names = list_changes_read(self.model.sql)
            states = {
                str(source): known.get_first(source, partial(observe_source, self.reader, source)) for source in names
            }
            return Upstreams(states, settings=self.settings, clock=to_micros(self.pins.time))
        states_by_name: dict[str, SourceState | None] = {}
        views: dict[str, str] = {}
        queries: list[Reads] = []
        waiting = [(self.model.sql, self.model.table)]
        while waiting:
            sql, home = waiting.pop()
            read = find_reads(sql, home.catalog, home.schema)
            queries.append(read)
            for source in read.tables:
                if str(source) in states_by_name or str(source) in views:
                    continue
                is_same_catalog = source.catalog == home.catalog
                state = (
                    known.get_first(source, partial(observe_readable, self.reader, source)) if is_same_catalog else None
                )
                view = read_view_sql(self.reader, source) if state is None else None
                if view is None:
                    states_by_name[str(source)] = state
                else:
                    views[str(source)] = view
                    waiting.append((view, source))
        unstable = {function for read in queries for function in read.unstable}
        parsed = all(read.parsed for read in queries)
        columns = (column for state in states_by_name.values() if state for column in state.columns)
        types = frozenset((column.name.lower(), column.type) for column in columns)
        texts = find_day_texts((self.model.sql, *views.values()), types) if parsed else DayTexts()
        clocks = queries[0].clocks
        of_views = {function for read in queries[1:] for function in read.unstable}
        changing = tuple(sorted((unstable - (set(clocks) - of_views)).union(texts.made)))
        reads = Reads((), changing, parsed, texts.columns, clocks)
        return Upstreams(states_by_name, reads, views, self.settings, to_micros(self.pins.time))

    def build_outcome(self, decision: Decision, rows: Mapping[str, int], state: TableState) -> Outcome:
        """Builds a run's outcome from its decision, its number of change rows by action, and the state after it."""
        head = state.log.head if state.log else None
        return Outcome(
            mode=decision.mode,
            reason=decision.reason,
            because=decision.because,
            rows=rows,
            version=head.snapshot if head else None,
            consumed={upstream: window.end.snapshot for upstream, window in decision.windows.items()},
            timings=self.timings.list_seconds(),
            estimates={estimate.way: estimate.seconds for estimate in decision.ways},
        )


def _is_behind(upstreams: Upstreams, offsets: Mapping[str, Version]) -> bool:
    """Whether the observed version of an upstream is older than the version in `offsets` that the last run has read."""
    return any(
        state is not None and name in offsets and state.version.sequence < offsets[name].sequence
        for name, state in upstreams.states.items()
    )


def with_day_texts(upstreams: Upstreams, last: RunSummary | None) -> Upstreams:
    """Marks the query as volatile if the record of the last run says that its result depends on the current day.

    This is so if the query converts texts with a time but no date to timestamps, to which Spark adds the current day.
    Otherwise returns `upstreams` unchanged.
    """
    if last is None or last.day_texts is None or not upstreams.reads.day_columns:
        return upstreams
    unstable = (*upstreams.reads.unstable, last.day_texts)
    return replace(upstreams, reads=replace(upstreams.reads, unstable=unstable))
