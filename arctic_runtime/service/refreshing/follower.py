"""Refreshes followed models whose upstreams changed, in parallel, once or continuously."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from queue import Empty, SimpleQueue

from typing_extensions import Self

from arctic_runtime.catalog.heads import SharedHeads, observe_heads
from arctic_runtime.catalog.observation.tables import observe_readable, observe_source
from arctic_runtime.catalog.observation.views import read_view_sql
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CatalogError, ConfigError, SparkEnded
from arctic_runtime.model.names import TableName
from arctic_runtime.service.project import FollowedProject
from arctic_runtime.service.refreshing.model_graph import NOTHING, ModelGraph
from arctic_runtime.service.refreshing.model_records import (
    FollowedTables,
    Heads,
    Record,
    compute_look_pause,
    compute_retry_pause,
)
from arctic_runtime.service.refreshing.refresh_pass import (
    Ended,
    ModelStatus,
    Pass,
    RefreshCandidate,
    Start,
    list_candidates,
)
from arctic_runtime.service.refreshing.refresh_task import (
    RefreshListeners,
    RefreshResult,
    RefreshWorkers,
    Report,
    Status,
    Task,
    attempt_refresh,
)
from arctic_runtime.service.refreshing.source_relations import FollowedModel, Readings, list_relations
from arctic_runtime.service.shared_state import Repeats, SharedState
from arctic_runtime.spark.engine.java.process import PROCESS


class FollowedModels:
    """Models that a follower keeps up to date, by table, and in groups of models that read one another.

    The groups follow from the tables that models are known to read so far; when views are resolved, further tables are
    added.
    """

    def __init__(self, models: Sequence[FollowedModel], reader: CatalogReader, heads: SharedHeads) -> None:
        """Orders and groups `models` by their queries; raises ConfigError if they read each other in a circle."""
        self.by_table: Mapping[TableName, FollowedModel] = {model.table: model for model in models}
        self._reader = reader
        self._shared_heads = heads
        self._readings = Readings(models, partial(read_view_sql, reader))
        self.arrange_models()

    def arrange_models(self) -> None:
        """Sets the order and groups of the models by the tables that they read; raises ConfigError for a circle."""
        by_model = self._readings.by_model
        self.graph = ModelGraph({model: reading.tables for model, reading in by_model.items()})
        self.groups: Sequence[tuple[TableName, ...]] = self.graph.list_groups()
        self.tables: Mapping[TableName, FollowedTables] = {
            model: reading.to_followed_tables(model) for model, reading in by_model.items()
        }
        self._relations = self._readings.list_all_relations()
        self.is_arranged = True
        """Whether the order and the groups include the tables behind views that were resolved last."""

    def observe_heads(self) -> Heads:
        """Observes the current metadata file of every relation that a model depends on, directly or through views."""
        observed = self._shared_heads.observe_now(self._relations)
        while self._readings.resolve_views(observed.heads, observed.views):
            self.is_arranged = False
            self._relations = self._readings.list_all_relations()
            observed = self._shared_heads.observe_now(self._relations)
        return observed.heads

    def select_heads_read(self, model: TableName, heads: Heads) -> Heads:
        """Returns the metadata file of each relation that a refresh of `model` reads.

        The files of upstream models are observed at this moment, as the pass may have refreshed them. The files of
        sources are taken from `heads`, which were observed at the start of the pass.
        """
        tables = self.tables[model]
        above = {relation for upstream in self.graph.upstreams[model] for relation in list_relations(upstream)}
        now = observe_heads(self._reader, above).heads if above else {}
        read = {relation: (now if relation in above else heads).get(relation) for relation in tables.reads}
        own = {relation: heads.get(relation) for relation in tables.own}
        return {relation: head for relation, head in {**read, **own}.items() if head is not None}

    def pin_sources(self, moved: Collection[TableName], pins: PinnedSnapshots) -> None:
        """Adds to `pins` the versions of all sources that the models of a pass may read, so that all read the same.

        `moved` are the models whose upstreams have changed; models below them are included.
        """
        readers = {*moved, *self.graph.list_downstream(moved)}
        of_events = {model for model in readers if self.by_table[model].model.config.input == "changes"}
        of_rows = NOTHING.union(*(self.graph.reads[model] for model in readers - of_events))
        for source in NOTHING.union(*(self.graph.reads[model] for model in readers)) - self.by_table.keys():
            observe = observe_readable if source in of_rows else observe_source
            with suppress(ArcticError):  # Raised again, as the failure of each model that reads it.
                pins.get_first(source, partial(observe, self._reader, source))


UseModels = Callable[[Sequence[FollowedModel]], None]


@dataclass
class _GroupPass:
    """A running pass over the models of a group, and the versions of the sources that all its refreshes read."""

    progress: Pass
    heads: Heads
    pins: PinnedSnapshots
    has_conflicts: bool = False


@dataclass(frozen=True)
class _End:
    """The end of a refresh, which the refreshing thread sends to the follower.

    `seen` are the metadata files of the relations that the refresh read, and `began` is a time of the follower's clock.
    """

    group: int
    start: Start
    seen: Heads
    began: float
    report: Report
    error: Exception | None = None


class Follower:
    """Keeps models up to date: checks tables for new versions, plans the affected models, and refreshes them.

    Models that depend on one another are refreshed in passes. All refreshes of a pass read the same versions of the
    sources, so no table ever mixes two versions of a source. If a model fails, the models below it are not refreshed,
    and it is tried again after a pause. The follower's memory may be lost, since all lasting state is in the tables.
    Models for which `SharedState.is_waiting` is true are not refreshed. Listeners are called in the thread that runs
    the follower, but for `end`.
    """

    def __init__(
        self,
        shared: SharedState,
        workers: RefreshWorkers,
        listeners: RefreshListeners | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shared = shared
        self._listeners = listeners or RefreshListeners()
        self._refresh = self._listeners.trace(workers.refresh)
        self._clock = clock
        self._hurried: deque[TableName] = deque()
        self._thresholds = shared.reader.thresholds.service
        self._workers = ThreadPoolExecutor(workers.threads, "refresh", workers.prepare)
        self._events: SimpleQueue[_End | None] = SimpleQueue()
        self._records: dict[TableName, Record] = {}
        self._models = FollowedModels((), shared.reader, shared.heads)
        self._lags: dict[TableName, float] = {}
        self._passes: dict[int, _GroupPass] = {}
        self._stopping = False
        self._fatal: SparkEnded | None = None
        self._looks_failed = 0
        self._repeats = Repeats()
        self._look_at = self._check_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_workers()

    def close_workers(self) -> None:
        """Waits for the running refreshes, and then ends the worker threads."""
        self._workers.shutdown()

    def follow_models(self, models: Sequence[FollowedModel]) -> None:
        """Makes the follower keep exactly `models` up to date from now on.

        A model that was followed before, with the same definition, keeps its record of failures and of the versions
        with which it was up to date; any other model is planned at the next check. Must not be called while the
        refreshes of a pass (see the class) are running. Raises ConfigError if models read each other in a circle.
        """
        followed = FollowedModels(models, self._shared.reader, self._shared.heads)
        unchanged = {model.table for model in models if self._models.by_table.get(model.table) == model}
        self._records = {
            model.table: self._records[model.table] if model.table in unchanged else Record() for model in models
        }
        self._models = followed
        self._lags = {model.table: float(model.model.config.target_lag) for model in models}

    def run_once(self) -> None:
        """Brings every model up to date with the current versions of its sources, regardless of target lags.

        Models that lost a commit race are tried again. Raises CatalogError if the catalog does not answer, and
        SparkEnded if Spark has ended.
        """
        lags = dict.fromkeys(self._models.by_table, 0.0)
        heads = self._models.observe_heads()
        self._models.arrange_models()
        waiting: Iterable[int] = range(len(self._models.groups))
        for _ in range(self._shared.reader.thresholds.commits.attempts):
            begun = [
                group_pass for group in waiting if (group_pass := self._begin_pass(group, heads, lags)) is not None
            ]
            self._drain_passes()
            if self._fatal is not None:
                raise self._fatal
            waiting = [group for group, group_pass in begun if group_pass.has_conflicts]
            if not waiting or self._stopping:
                return
            heads = self._models.observe_heads()

    def run_until_stopped(self, project: FollowedProject | None = None, use_models: UseModels = lambda _: None) -> None:
        """Follows the models until `stop_following` is called, and reloads `project`, if given, when its files change.

        `use_models` is called with the models of each reload. Raises SparkEnded if Spark has ended.
        """
        while not self._stopping and self._fatal is None:
            begun = self._clock()
            if project is not None and begun >= self._check_at:
                self._check_at = begun + self._thresholds.project_poll_seconds
                self._reload_project(project, use_models)
            if begun >= self._look_at:
                self._start_passes()
            self._handle_ends(begun + self._thresholds.poll_seconds)
        self._cut_short()
        self._drain_passes()
        if self._fatal is not None:
            raise self._fatal

    def wake_up(self) -> None:
        """Makes the follower check the tables at once; can be called from any thread."""
        self._events.put(None)

    def refresh_soon(self, models: Iterable[TableName]) -> None:
        """Plans these models at the next check, regardless of target lags and of pauses after failures.

        Can be called from any thread.
        """
        self._hurried.extend(models)
        self.wake_up()

    def compute_retry_seconds(self, model: TableName) -> float | None:
        """Seconds until a failed model is tried again; None if it has not failed. Can be called from any thread."""
        record = self._records.get(model)
        return None if record is None or not record.failures else max(0.0, record.retry_at - self._clock())

    def stop_following(self) -> None:
        """Ends the follower after the running refreshes; can be called from any thread or signal handler."""
        self._stopping = True
        self.wake_up()

    def _start_passes(self) -> None:
        """Starts passes as `_begin_passes` does; if the catalog does not answer, says so, and looks again later."""
        try:
            self._begin_passes()
        except CatalogError as error:
            self._looks_failed += 1
            pause = compute_retry_pause(self._looks_failed, self._thresholds)
            self._look_at = self._clock() + pause
            if self._repeats.is_new("catalog", str(error)):
                self._listeners.say(f"{error}\n  tried again in {pause:.0f} s, and then until the catalog answers")

    def _begin_passes(self) -> None:
        """Starts a pass over each group of models that may have changed upstreams and has no running pass."""
        began = self._clock()
        heads = self._models.observe_heads()
        self._looks_failed = 0
        self._repeats.clear_subject("catalog")
        now = self._clock()
        self._look_at = now + compute_look_pause(now - began, self._thresholds)
        if not self._models.is_arranged:
            if self._passes:
                return
            self._models.arrange_models()
        while self._hurried:
            if (model := self._hurried.popleft()) in self._records:
                self._records[model] = Record()
        for group in range(len(self._models.groups)):
            if group not in self._passes:
                self._begin_pass(group, heads, self._lags)

    def _reload_project(self, project: FollowedProject, use_models: UseModels) -> None:
        if not project.has_changed():
            return
        self._cut_short()
        self._drain_passes()
        models = None if self._stopping else project.load_models()
        if models is not None:
            use_models(models)
            try:
                self.follow_models(models)
            except ConfigError as error:
                self._listeners.say(str(error))

    # Passes

    def _begin_pass(self, group: int, heads: Heads, lags: Mapping[TableName, float]) -> tuple[int, _GroupPass] | None:
        """Starts a pass over a group of models, and returns it with the group's number; None if no model can start.

        `heads` are the current metadata files of all relations, and `lags` the target lags in seconds.
        """
        candidates = self._list_candidates(group, heads, lags)
        if not self._can_start(group, candidates):
            return None
        pins, moved = self._pin_sources(group, candidates, lags)
        progress = Pass(self._models.graph, self._models.groups[group], moved)
        starts = progress.take_ready()
        if not starts:
            return None
        begun = self._passes[group] = _GroupPass(progress, heads, pins)
        self._submit_starts(group, starts)
        return group, begun

    def _pin_sources(
        self, group: int, candidates: Mapping[TableName, RefreshCandidate], lags: Mapping[TableName, float]
    ) -> tuple[PinnedSnapshots, Mapping[TableName, RefreshCandidate]]:
        """Pins the sources of a pass; returns the pins and the candidates, among them models of newer sources.

        A source may have changed between the look that found the candidates and its pin. Then each model that reads it
        has news, so that none of them is left out of the pass with an older version.
        """
        pins = PinnedSnapshots()
        pinned: set[TableName] = set()
        while not (moved := {model for model, candidate in candidates.items() if candidate.news == "reads"}) <= pinned:
            pinned |= moved
            self._models.pin_sources(moved, pins)
            candidates = self._list_candidates(group, self._models.observe_heads(), lags)
        return pins, candidates

    def _list_candidates(
        self, group: int, heads: Heads, lags: Mapping[TableName, float]
    ) -> Mapping[TableName, RefreshCandidate]:
        followed = self._models
        statuses = {
            model: ModelStatus(
                self._records[model], followed.tables[model], lags[model], self._shared.is_waiting(model)
            )
            for model in followed.groups[group]
        }
        return list_candidates(followed.graph, statuses, heads, self._clock())

    def _can_start(self, group: int, candidates: Mapping[TableName, RefreshCandidate]) -> bool:
        """Whether a pass over a group with these candidates would refresh a model."""
        return bool(Pass(self._models.graph, self._models.groups[group], candidates).take_ready())

    def _submit_starts(self, group: int, starts: Sequence[Start]) -> None:
        begun = self._passes[group]
        for start in starts:
            record = self._records[start.model]
            is_known = record.seen is not None and not record.failures
            task = Task(self._models.by_table[start.model], begun.pins, start.has_news, is_known)
            self._workers.submit(self._refresh_in_thread, group, begun.heads, start, task)

    def _refresh_in_thread(self, group: int, heads: Heads, start: Start, task: Task) -> None:
        """Refreshes the model of `task` in the calling thread, and queues the result for the follower's thread.

        `heads` are the metadata files of relations at the start of the pass.
        """
        began = self._clock()
        seen: Heads = {}

        def refresh_after_look(task: Task) -> RefreshResult:
            nonlocal seen
            seen = self._models.select_heads_read(start.model, heads)
            return self._refresh(task)

        report, failure = attempt_refresh(refresh_after_look, task, self._clock)
        try:
            self._listeners.end(report)
        finally:
            self._events.put(_End(group, start, seen, began, report, failure))

    def _handle_ends(self, until: float) -> None:
        """Records finished refreshes until the time `until` of the clock, the end of a pass, or a call of `wake_up`."""
        while (left := until - self._clock()) > 0 and not self._stopping and self._fatal is None:
            try:
                event = self._events.get(timeout=left)
            except Empty:
                return
            if event is None:
                self._look_at = 0.0
                return
            passes = len(self._passes)
            self._record_end(event)
            if len(self._passes) < passes:
                # The sources of the pass may have changed in the meantime.
                self._look_at = 0.0
                return

    def _drain_passes(self) -> None:
        """Records finished refreshes until no pass is running."""
        while self._passes:
            event = self._events.get()
            if event is None:
                self._look_at = 0.0
            else:
                self._record_end(event)
            if self._stopping or self._fatal is not None:
                self._cut_short()

    def _cut_short(self) -> None:
        """Prevents the running passes from starting further models."""
        for group, begun in list(self._passes.items()):
            begun.progress.cut_short()
            self._close_if_over(group, begun)

    def _record_end(self, end: _End) -> None:
        model, begun = end.start.model, self._passes[end.group]
        begun.progress.end_model(model, _get_end(end.report))
        begun.has_conflicts |= end.report.status == "conflict"
        report = end.report
        if report.done is not None:
            self._records[model] = self._record_after(end, report.done, begun.progress.is_complete(model))
        elif isinstance(end.error, SparkEnded) and not PROCESS.can_reconnect:
            self._fatal = end.error
        elif report.status == "failed":
            self._records[model] = self._records[model].record_failure(self._clock(), self._thresholds)
            report = replace(report, retry_seconds=compute_retry_pause(self._records[model].failures, self._thresholds))
        self._listeners.report(report)
        self._submit_starts(end.group, begun.progress.take_ready())
        self._close_if_over(end.group, begun)

    def _record_after(self, end: _End, done: RefreshResult, is_complete: bool) -> Record:
        record = self._records[end.start.model]
        renew_at = None if done.renewal_seconds is None else end.began + done.renewal_seconds
        if not end.start.has_news:
            return record.confirm_fresh(end.seen, done.is_recomputed, renew_at)
        return record.record_success(end.seen, end.began, done.is_recomputed, is_complete, renew_at)

    def _close_if_over(self, group: int, begun: _GroupPass) -> None:
        if begun.progress.is_over and group in self._passes:
            del self._passes[group]
            for model, cause in begun.progress.held.items():
                followed = self._models.by_table[model]
                self._listeners.report(Report(followed, "skipped", datetime.now(timezone.utc), held_by=cause))


def _get_end(report: Report) -> Ended:
    ends: Mapping[Status, Ended] = {"refreshed": "changed", "unchanged": "unchanged", "conflict": "conflict"}
    return ends.get(report.status, "failed")
