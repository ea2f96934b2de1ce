"""Following models: whoever has something new is refreshed, side by side, once or for ever."""

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
from threading import current_thread

from typing_extensions import Self

from arctic_runtime.catalog.heads import ObservedHeads, observe_heads
from arctic_runtime.catalog.observation.tables import observe_readable, observe_source
from arctic_runtime.catalog.observation.views import read_view_sql
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CatalogError, CommitConflict, ConfigError, SparkEnded
from arctic_runtime.model.names import TableName
from arctic_runtime.service.project import Project
from arctic_runtime.service.refreshing.candidates import list_candidates
from arctic_runtime.service.refreshing.model_graph import NOTHING, ModelGraph
from arctic_runtime.service.refreshing.model_records import Heads, Record, pause_after
from arctic_runtime.service.refreshing.refresh_pass import Candidate, Ended, Pass, Start
from arctic_runtime.service.refreshing.refresh_task import Done, RefreshModel, Report, Status, Task
from arctic_runtime.service.refreshing.repeated_warnings import Repeats
from arctic_runtime.service.refreshing.source_relations import FollowedModel, Readings, list_relations
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

UseModels = Callable[[Sequence[FollowedModel]], None]


@dataclass
class _GroupPass:
    """A pass under way over the models of a group, and the cut of the sources that it reads."""

    progress: Pass
    heads: Heads
    pins: PinnedSnapshots
    has_conflicts: bool = False


@dataclass(frozen=True)
class _End:
    """The end of a refresh, as its thread tells it."""

    group: int
    start: Start
    seen: Heads
    began: float
    report: Report
    error: Exception | None = None


class Follower:
    """Keeps models up to date: looks where tables stand, plans only what may have something new, and refreshes that.

    Models that depend on one another are refreshed in passes. All of a pass read one state of the sources, so no model
    ever shows two. A model that fails holds back those below it, and is tried again after a pause. All that is known
    here may be lost, since the tables hold the state. `refresh` is called in threads of its own, which `prepare`
    readies; `report` and `warn` are called in the thread that runs the follower.
    """

    def __init__(
        self,
        reader: CatalogReader,
        refresh: RefreshModel,
        report: Callable[[Report], None],
        threads: int,
        warn: Callable[[str], None] = lambda _: None,
        prepare: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        is_paused: Callable[[TableName], bool] = lambda _: False,
        look: Callable[[Collection[TableName]], ObservedHeads] | None = None,
    ) -> None:
        self._reader = reader
        self._refresh = refresh
        self._report = report
        self._warn = warn
        self._clock = clock
        self._is_paused = is_paused
        self._observe = look or partial(observe_heads, reader)
        self._hurried: deque[TableName] = deque()
        self._thresholds = reader.thresholds.service
        self._workers = ThreadPoolExecutor(threads, "refresh", prepare)
        self._events: SimpleQueue[_End | None] = SimpleQueue()
        self._records: dict[TableName, Record] = {}
        self._models: dict[TableName, FollowedModel] = {}
        self._passes: dict[int, _GroupPass] = {}
        self._stopping = False
        self._fatal: SparkEnded | None = None
        self._looks_failed = 0
        self._repeats = Repeats()
        self._look_at = self._check_at = 0.0
        self.follow_models(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_workers()

    def close_workers(self) -> None:
        """Ends the threads, when the refreshes under way are done."""
        self._workers.shutdown()

    def follow_models(self, models: Sequence[FollowedModel]) -> None:
        """Follows these models from now on; one that is new or has changed is planned once. No pass may be under way.

        Raises ConfigError if they read each other in a circle.
        """
        readings = Readings(models, partial(read_view_sql, self._reader))
        self._order_models(readings)
        unchanged = {model.table for model in models if self._models.get(model.table) == model}
        self._records = {
            model.table: self._records[model.table] if model.table in unchanged else Record() for model in models
        }
        self._models = {model.table: model for model in models}
        self._lags = {model.table: float(model.model.config.target_lag) for model in models}

    def run_once(self) -> None:
        """Brings every model up to date with the sources as they are now, whatever lags are allowed.

        Where other writers were faster, that is tried again. Raises CatalogError if the catalog does not answer, and
        SparkEnded where Spark is gone.
        """
        lags = dict.fromkeys(self._models, 0.0)
        heads = self._observe_heads()
        self._order_models(self._readings)
        waiting: Iterable[int] = range(len(self._groups))
        for _ in range(self._reader.thresholds.commits.attempts):
            begun = [
                group_pass for group in waiting if (group_pass := self._begin_pass(group, heads, lags)) is not None
            ]
            self._drain_passes()
            if self._fatal is not None:
                raise self._fatal
            waiting = [group for group, group_pass in begun if group_pass.has_conflicts]
            if not waiting or self._stopping:
                return
            heads = self._observe_heads()

    def run_until_stopped(self, project: Project | None = None, use_models: UseModels = lambda _: None) -> None:
        """Follows the models until `stop`, and the files of the project if one is given.

        `use_models` gets the models of each reload. Raises SparkEnded if Spark is gone.
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
        """Ends the pause before the next look; can be called from any thread."""
        self._events.put(None)

    def refresh_soon(self, models: Iterable[TableName]) -> None:
        """Plans these models at the next look, whatever pause or lag they have; can be called from any thread."""
        self._hurried.extend(models)
        self.wake_up()

    def get_record(self, model: TableName) -> Record | None:
        """Record of a model; None if it is not followed. Can be called from any thread."""
        return self._records.get(model)

    def compute_retry_seconds(self, model: TableName) -> float | None:
        """Seconds until the next attempt of a model that failed. Can be called from any thread."""
        record = self._records.get(model)
        return None if record is None or not record.failures else max(0.0, record.retry_at - self._clock())

    def stop_following(self) -> None:
        """Ends the follower when the refreshes under way are done; can be called from any thread or signal handler."""
        self._stopping = True
        self.wake_up()

    # Models, and where their tables stand

    def _order_models(self, readings: Readings) -> None:
        """Puts the models into order, by what is known of their reading."""
        self._graph = ModelGraph({model: reading.tables for model, reading in readings.by_model.items()})
        self._groups = self._graph.list_groups()
        self._tables = {model: reading.to_followed_tables(model) for model, reading in readings.by_model.items()}
        self._readings = readings
        self._relations = readings.list_all_relations()
        self._is_arranged = True

    def _observe_heads(self) -> Heads:
        """Observes the heads of all relations that count, views looked into."""
        observed = self._observe(self._relations)
        while self._readings.resolve_views(observed.heads, observed.views):
            self._is_arranged = False
            self._relations = self._readings.list_all_relations()
            observed = self._observe(self._relations)
        return observed.heads

    def _start_passes(self) -> None:
        """Starts a pass over each group that may have something new and has none under way."""
        began = self._clock()
        try:
            heads = self._observe_heads()
        except CatalogError as error:
            self._looks_failed += 1
            pause = pause_after(self._looks_failed, self._thresholds)
            self._look_at = self._clock() + pause
            if self._repeats.is_new("catalog", str(error)):
                self._warn(f"{error}\n  tried again in {pause:.0f} s, and then until the catalog answers")
            return
        self._looks_failed = 0
        self._repeats.clear_subject("catalog")
        self._look_at = began + (self._clock() - began) / self._thresholds.look_share
        if not self._is_arranged:
            if self._passes:
                return
            self._order_models(self._readings)
        while self._hurried:
            if (model := self._hurried.popleft()) in self._records:
                self._records[model] = Record()
        for group in range(len(self._groups)):
            if group not in self._passes:
                self._begin_pass(group, heads, self._lags)

    def _reload_project(self, project: Project, use_models: UseModels) -> None:
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
                self._warn(str(error))

    # Passes

    def _begin_pass(self, group: int, heads: Heads, lags: Mapping[TableName, float]) -> tuple[int, _GroupPass] | None:
        """Starts a pass over a group; None if there is nothing to start."""
        models = self._groups[group]
        candidates_by_model = list_candidates(
            self._graph, models, self._records, self._tables, heads, self._clock(), lags, self._is_paused
        )
        progress = Pass(self._graph, models, candidates_by_model)
        starts = progress.take_ready()
        if not starts:
            return None
        begun = _GroupPass(progress, heads, PinnedSnapshots())
        self._pin_sources(candidates_by_model, begun.pins)
        self._passes[group] = begun
        self._submit_starts(group, starts)
        return group, begun

    def _pin_sources(self, candidates_by_model: Mapping[TableName, Candidate], pins: PinnedSnapshots) -> None:
        """Takes note of the versions of all sources that models of the pass may read, before any of them does."""
        moved = {model for model, candidate in candidates_by_model.items() if candidate.news == "reads"}
        readers = moved | self._graph.list_downstream(moved)
        of_events = {model for model in readers if self._models[model].model.config.input == "changes"}
        of_rows = NOTHING.union(*(self._graph.reads[model] for model in readers - of_events))
        for source in NOTHING.union(*(self._graph.reads[model] for model in readers)) - self._models.keys():
            observe = observe_readable if source in of_rows else observe_source
            with suppress(ArcticError):  # Raised again, as the failure of each model that reads it.
                pins.get_first(source, partial(observe, self._reader, source))

    def _submit_starts(self, group: int, starts: Sequence[Start]) -> None:
        begun = self._passes[group]
        for start in starts:
            record = self._records[start.model]
            is_known = record.seen is not None and not record.failures
            task = Task(self._models[start.model], begun.pins, start.has_news, is_known)
            self._workers.submit(self._refresh_in_thread, group, begun.heads, start, task)

    def _refresh_in_thread(self, group: int, heads: Heads, start: Start, task: Task) -> None:
        """Refreshes a model in this thread, and tells the follower how that ended."""
        began, at = self._clock(), datetime.now(timezone.utc)
        seen: Heads = {}
        done: Done | None = None
        failure: Exception | None = None
        try:
            seen = self._select_heads_read(start.model, heads)
            done = self._refresh(task)
        except Exception as error:
            failure = _find_cause(error)
        report = Report(
            task.followed,
            _get_status(done, failure),
            at,
            self._clock() - began,
            done,
            "" if failure is None else _format_error(failure),
            thread=current_thread().name,
            error_details={} if failure is None else get_error_details(failure),
        )
        self._events.put(_End(group, start, seen, began, report, failure))

    def _select_heads_read(self, model: TableName, heads: Heads) -> Heads:
        """The heads that a model's refresh reads: its pass's, and of models above those that they have now."""
        tables = self._tables[model]
        above = {relation for upstream in self._graph.upstreams[model] for relation in list_relations(upstream)}
        now = observe_heads(self._reader, above).heads if above else {}
        read = {relation: (now if relation in above else heads).get(relation) for relation in tables.reads}
        own = {relation: heads.get(relation) for relation in tables.own}
        return {relation: head for relation, head in {**read, **own}.items() if head is not None}

    def _handle_ends(self, until: float) -> None:
        """Handles the ends of refreshes until then, until a pass is over, or until somebody wakes the follower."""
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
                # Its sources may have moved on meanwhile.
                self._look_at = 0.0
                return

    def _drain_passes(self) -> None:
        """Waits until no pass is under way."""
        while self._passes:
            event = self._events.get()
            if event is not None:
                self._record_end(event)
            if self._stopping or self._fatal is not None:
                self._cut_short()

    def _cut_short(self) -> None:
        """Lets no further model of the passes under way start."""
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
        elif isinstance(end.error, SparkEnded):
            self._fatal = end.error
        elif report.status == "failed":
            self._records[model] = self._records[model].record_failure(self._clock(), self._thresholds)
            report = replace(report, retry_seconds=pause_after(self._records[model].failures, self._thresholds))
        self._report(report)
        self._submit_starts(end.group, begun.progress.take_ready())
        self._close_if_over(end.group, begun)

    def _record_after(self, end: _End, done: Done, is_complete: bool) -> Record:
        record = self._records[end.start.model]
        if not end.start.has_news:
            return record.confirm_fresh(end.seen, done.is_recomputed)
        return record.record_success(end.seen, end.began, done.is_recomputed, is_complete)

    def _close_if_over(self, group: int, begun: _GroupPass) -> None:
        if begun.progress.is_over and group in self._passes:
            del self._passes[group]
            for model, cause in begun.progress.held.items():
                self._report(Report(self._models[model], "skipped", datetime.now(timezone.utc), held_by=cause))


def _get_status(done: Done | None, failure: Exception | None) -> Status:
    if done is not None:
        return "refreshed" if done.refreshed.is_changed else "unchanged"
    return "conflict" if isinstance(failure, CommitConflict) else "failed"


def _get_end(report: Report) -> Ended:
    ends: Mapping[Status, Ended] = {"refreshed": "changed", "unchanged": "unchanged", "conflict": "conflict"}
    return ends.get(report.status, "failed")


def _find_cause(error: Exception) -> Exception:
    """Why a refresh failed: Spark's end, if that is behind it."""
    with suppress(Exception):
        return to_spark_ended(error) or error
    return error


def _format_error(error: Exception) -> str:
    return str(error) if isinstance(error, ArcticError) else get_message(error)
