"""Ingestion and refreshes of the models, each in a thread: what `arctic ingest` and `arctic run` do, in one process."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.model.names import TableName
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshWorkers, Report
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.session_pool import get_pool
from dbt.adapters.arctic.project.live_project import LiveProject
from dbt.adapters.arctic.project.loaded_project import Location
from dbt.adapters.arctic.project.sources import ingest_sources
from sample_project.dbt_runs import Dbt, StepError, rows_text
from sample_project.live.freshness import Reached
from sample_project.live.worker import Worker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Refreshes:
    """What a pass over the models did: how many it refreshed, the rows that changed in them, and its seconds."""

    models: int
    rows: Counter[str]
    seconds: float

    def __str__(self) -> str:
        return f"{self.models} models: {rows_text(self.rows['insert'], self.rows['update'], self.rows['delete'])}"


class Pipeline:
    """The way from the source to the tables of DWS. `ods` and `dws` are what the tables of these layers have.

    `passes` are those over the models that have ended; the first one creates them.
    """

    def __init__(self, dbt: Dbt) -> None:
        self.ods, self.dws = Reached(), Reached()
        self.passes: list[Refreshes] = []
        self._dbt = dbt
        project = LiveProject(Location(dbt.folder, dbt.folder), _warn)
        self._profile = project.loaded.profile
        self._session = get_pool(self._profile).environment.new_session
        self._job = self._ingestion(project)
        self._reports: dict[TableName, Report] = {}
        workers = RefreshWorkers(project.refresh_model, project.threads, project.prepare_thread)
        self._follower = Follower(SharedState(project.reader), workers, RefreshListeners(_warn, self._note))
        self._follower.follow_models(project.list_followed())
        self._stopped = threading.Event()
        self._workers: list[Worker] = []

    def ingest(self) -> None:
        """Begins to ingest, by a snapshot of what is there."""
        self._workers.append(Worker("ingestion", lambda: self._job.run(once=False)))

    def seed(self) -> None:
        """Brings the names of airlines, which no database has."""
        self._dbt.invoke("seed")

    def refresh(self) -> Refreshes:
        """One pass over the models: what the tables of ODS have when it begins, those of DWS have when it ends.

        Raises StepError where a model can't be refreshed.
        """
        seen, began, self._reports = self.ods, time.monotonic(), {}
        self._follower.run_once()
        reports = self._reports.values()
        for report in reports:
            if report.status == "failed":
                raise StepError(f"{report.followed.table} can't be refreshed.\n  found: {report.error}")
        if all(report.done is not None for report in reports) and not self._stopped.is_set():
            self.dws = seen
        done = [report.done.refreshed for report in reports if report.status == "refreshed" and report.done]
        rows = sum((Counter(report.outcome.rows) for report in done), Counter[str]())
        self.passes.append(Refreshes(len(done), rows, time.monotonic() - began))
        return self.passes[-1]

    def follow(self) -> None:
        """Begins to refresh the models whenever there is something new."""
        self._workers.append(Worker("refreshes", self._follow))

    def check(self) -> None:
        """Raises what ended ingestion or refreshes, if something did."""
        for worker in self._workers:
            worker.check()

    def stop(self) -> None:
        """Ends both after what is under way, however that ends."""
        self._stopped.set()
        self._follower.stop_following()
        if self._workers:
            self._job.stop()
        for worker in self._workers:
            worker.join()
        self._follower.close_workers()

    def table(self, name: str) -> DataFrame:
        """A table that is ingested."""
        return self._session().table(f"{self._profile.catalog}.ods.{name}")

    def verify(self) -> bool:
        """Whether `arctic verify`, whose report is printed, sees no difference in any table."""
        return self._dbt.verify() == 0

    def _follow(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            if self.ods != self.dws:
                self.refresh()

    def _ingestion(self, project: LiveProject) -> Ingestion:
        (source,) = ingest_sources(self._dbt.manifest)
        reader = project.reader
        connection = connect(source, reader, self._session)
        return Ingestion(source, connection, reader, self._session, JobListeners(self._count))

    def _count(self, batch: BatchReport) -> None:
        if applied := sum(table.applied for table in batch.tables):
            self.ods = self.ods.with_batch(applied, batch.progress.newest)

    def _note(self, report: Report) -> None:
        self._reports[report.followed.table] = report


def _warn(text: str) -> None:
    print(f"\n{text}", file=sys.stderr, flush=True)
