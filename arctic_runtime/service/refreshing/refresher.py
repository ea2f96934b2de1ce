"""Refreshes a followed model by the runtime alone, without dbt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.step import Reason
from arctic_runtime.model.table import Model
from arctic_runtime.operations.refreshing import Readers, perform_refresh
from arctic_runtime.plan.refresh.decide import COMPUTED_EACH_TIME, Decision
from arctic_runtime.refresh_planner import PlannedRefresh, RefreshPlanner
from arctic_runtime.service.refreshing.refresh_task import RefreshResult, Task
from arctic_runtime.spark.engine.jobs import describe_jobs
from arctic_runtime.spark.engine.session_pool import SessionPool, lend_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
