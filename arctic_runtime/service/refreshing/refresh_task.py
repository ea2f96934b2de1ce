"""One refresh of a followed model: the request, its work, its result, and the callbacks that observe it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from threading import current_thread
from typing import TYPE_CHECKING, Literal

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError, CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.step import Reason
from arctic_runtime.model.table import Model
from arctic_runtime.operations.refreshing import Readers, Refreshed, perform_refresh
from arctic_runtime.plan.refresh.decide import COMPUTED_EACH_TIME, Decision
from arctic_runtime.refresh_planner import PlannedRefresh, RefreshPlanner
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.spark.engine.jobs import describe_jobs
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.session_pool import SessionPool, lend_session
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Task:
    """A model to refresh, as one task of a pass: a round of refreshes that all read the same versions of sources."""

    followed: FollowedModel
    pins: PinnedSnapshots
    """The versions of sources that all models of the pass read."""

    has_news: bool
    """False if none of the model's upstreams has changed since the model was up to date.

    The model is then not recomputed for a reason that recurs each time, such as `current_date`.
    """

    is_known: bool
    """Whether a refresh in this process has succeeded, and none has failed since."""

    with_upkeep: bool = True
    """False if compaction and expiry of the table are left to the service, which does them under its budget."""


@dataclass(frozen=True)
class RefreshResult:
    """Result of a successful refresh; `is_recomputed` is whether every run computes the model's query in full.

    `renewal_seconds` is the time after which the result may differ because the query reads the clock, else None.
    """

    refreshed: Refreshed
    is_recomputed: bool = False
    renewal_seconds: float | None = None


RefreshModel = Callable[[Task], RefreshResult]
"""Function that refreshes a model in the calling thread.

Raises CommitConflict after a lost commit race, and any other error if the refresh fails.
"""


@dataclass(frozen=True)
class RefreshWorkers:
    """Configuration of the refresh threads.

    `refresh` refreshes a model, `threads` is the number of threads, and each thread calls `prepare` when it starts.
    """

    refresh: RefreshModel
    threads: int
    prepare: Callable[[], None] = lambda: None


Status = Literal["refreshed", "unchanged", "failed", "conflict", "skipped"]


@dataclass(frozen=True)
class Report:
    """Result of a model in a pass."""

    followed: FollowedModel
    status: Status
    began: datetime
    """Time at which the refresh began."""

    seconds: float = 0.0
    """Duration of the refresh."""

    done: RefreshResult | None = None
    """Result of a successful refresh; None for other ones."""

    error: str = ""
    """Reason for which the refresh failed; empty if it did not."""

    retry_seconds: float | None = None
    """Pause before the next attempt; None if the refresh did not fail."""

    held_by: TableName | None = None
    """Failed upstream model, because of which this model was skipped; None if it was not."""

    thread: str = field(default="")
    """Name of the thread that refreshed the model."""

    error_details: Mapping[str, str] = field(default_factory=dict)
    """Parts of the error, by name."""


def attempt_refresh(
    refresh: RefreshModel, task: Task, clock: Callable[[], float] = time.monotonic
) -> tuple[Report, Exception | None]:
    """Calls `refresh` for a task; returns the report of the refresh, and its error if it failed.

    The error is SparkEnded if the end of Spark has caused it.
    """
    began, at = clock(), datetime.now(timezone.utc)
    done: RefreshResult | None = None
    failure: Exception | None = None
    try:
        done = refresh(task)
    except Exception as error:
        failure = _find_cause(error)
    report = Report(
        task.followed,
        _get_status(done, failure),
        at,
        clock() - began,
        done,
        "" if failure is None else _format_error(failure),
        thread=current_thread().name,
        error_details={} if failure is None else get_error_details(failure),
    )
    return report, failure


def _get_status(done: RefreshResult | None, failure: Exception | None) -> Status:
    if done is not None:
        return "refreshed" if done.refreshed.is_changed else "unchanged"
    return "conflict" if isinstance(failure, CommitConflict) else "failed"


def _find_cause(error: Exception) -> Exception:
    """Returns SparkEnded if the end of Spark caused the error of a refresh; else the error itself."""
    with suppress(Exception):
        return to_spark_ended(error) or error
    return error


def _format_error(error: Exception) -> str:
    return str(error) if isinstance(error, ArcticError) else get_message(error)


class Refresher:
    """Plans a refresh without Spark, and performs it in a session that no other thread uses at the same time."""

    def __init__(self, reader: CatalogReader, pool: SessionPool, readers: Readers) -> None:
        self._reader = reader
        self._pool = pool
        self._readers = readers

    def __call__(self, task: Task) -> RefreshResult:
        planner = self.build_planner(task, task.followed.model)
        return self.perform_plan(task, planner, plan_task(task, planner))

    def build_planner(self, task: Task, model: Model) -> RefreshPlanner:
        return RefreshPlanner(model, self._reader, pins=task.pins)

    def perform_plan(self, task: Task, planner: RefreshPlanner, planned: PlannedRefresh) -> RefreshResult:
        """Performs a planned refresh; if `task.with_upkeep`, performs the due upkeep of files afterwards."""
        with lend_session(self._pool) as take:

            def open_session() -> SparkSession:
                spark = take()
                describe_jobs(spark, f"arctic run: {task.followed.name}")
                return spark

            refreshed_outcome = perform_refresh(planner, planned, open_session, self._readers, task.with_upkeep)
        is_recomputed = planned.decision.reason in COMPUTED_EACH_TIME
        return RefreshResult(refreshed_outcome, is_recomputed, self._count_seconds_to_renewal(planner, planned))

    def _count_seconds_to_renewal(self, planner: RefreshPlanner, planned: PlannedRefresh) -> float | None:
        if not planned.upstreams.reads.clocks:
            return None
        last = find_last_run(planner.observe_state().changes)
        return planned.upstreams.count_seconds_to_renewal(last, self._reader.thresholds.service)


NOT_WITHOUT_NEWS: frozenset[Reason] = COMPUTED_EACH_TIME | {"SELF_REFERENCE"}
"""Reasons to refresh that recur although no upstream changed; without changes, they must not lead to a refresh."""


def plan_task(task: Task, planner: RefreshPlanner) -> PlannedRefresh:
    """Plans the refresh of a task.

    If no upstream of the model has changed, a reason that recurs in each run (NOT_WITHOUT_NEWS) leads to the decision
    `unchanged`.
    """
    planned = planner.plan_refresh()
    decision = planned.decision
    if not task.has_news and decision.reason in NOT_WITHOUT_NEWS:
        return replace(planned, decision=Decision("unchanged", decision.reason, decision.windows))
    return planned


def _keep_untraced(refresh: RefreshModel) -> RefreshModel:
    return refresh


@dataclass(frozen=True)
class RefreshListeners:
    """Callbacks that a follower, which refreshes models, calls.

    `say` is called with lines for people, and `report` with the result of each model in a pass over models. `end` gets
    the result of a refresh too, before that and in the thread of the refresh, which may begin another one before the
    result is reported. `trace` gets the function that refreshes a model, and returns the function to call instead, such
    as one that adds a tracing span.
    """

    say: Callable[[str], None] = lambda _: None
    report: Callable[[Report], None] = lambda _: None
    end: Callable[[Report], None] = lambda _: None
    trace: Callable[[RefreshModel], RefreshModel] = _keep_untraced
