"""The service: one process that ingests sources, and refreshes, tests and maintains tables."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from arctic_runtime.catalog.lease import Held, Lease, LeaseTimes
from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.catalog.table_samples import TableSamples
from arctic_runtime.errors import ArcticError, SparkEnded
from arctic_runtime.ingest.source import IngestionEnded
from arctic_runtime.model.names import TableName
from arctic_runtime.plan.maintenance.upkeep import UpkeepBudget
from arctic_runtime.service.activity import Activity
from arctic_runtime.service.history import TableHistory
from arctic_runtime.service.parts import Ingesting, Leadership, Parts, SourceThreads
from arctic_runtime.service.project import ServedProject
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.model_records import compute_look_pause, compute_source_pause
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshResult, RefreshWorkers, Report, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.shared_state import ServiceWarehouse, SharedState
from arctic_runtime.service.timetable import DataTests, Timetable
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.service.user_requests import UserRequests
from arctic_runtime.service.view.live_warehouse import LiveWarehouse
from arctic_runtime.service.view.overviews import to_part_name
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServiceWork:
    """Work of a service besides refreshes: upkeep of files under a budget, and ingestions.

    Without a budget, each refresh does the upkeep of its table. `ingestions` is called each time that the service
    begins to lead, and after each edit of the project, and has to return new objects.
    """

    upkeep: UpkeepBudget | None = field(default_factory=UpkeepBudget)
    ingestions: Callable[[], Sequence[Ingesting]] = lambda: ()


class Service:
    """Keeps the tables of a project fresh and maintained until `stop_service`; `live` shows its state.

    Of several services on one schema only one, the leader, works; the others wait. Correctness does not depend on this,
    since every commit is a compare-and-swap. All lasting state is in the tables, so the process may end at any moment.
    """

    def __init__(
        self,
        project: ServedProject,
        warehouse: ServiceWarehouse,
        work: ServiceWork | None = None,
        listeners: RefreshListeners | None = None,
        version: str = "",
    ) -> None:
        reader = warehouse.reader
        limits = self._limits = reader.thresholds.service
        self._project = project
        self._table = warehouse.service_table
        self._work = work or ServiceWork()
        self._listeners = listeners or RefreshListeners()
        times = LeaseTimes(limits.lease_seconds, limits.lease_renewal_seconds, reader.thresholds.commits.attempts)
        self._lease = Lease(self._table, times)
        self._shared = SharedState(reader, self._listeners.say, project.name, version)
        self._upkeep = UpkeepRunner(self._shared, warehouse.sessions, self._work.upkeep or UpkeepBudget())
        self.activity = Activity(self._shared)
        self._requests = UserRequests(project, warehouse, self.activity, self._upkeep)
        self.live = LiveWarehouse(self.activity, self._upkeep, self._requests)
        self._history = TableHistory(
            TableSamples(warehouse.service_table.table, reader), self._shared, self.live.list_tables
        )
        self._tests = DataTests(project, self._shared)
        self._timetable = Timetable(project, self._table, self._shared, self._tests.queue_tests)
        self._paused_read = Paused()
        self._stopping = threading.Event()
        self._leadership: Leadership | None = None
        self._spark_end: SparkEnded | None = None

    def run_service(self) -> None:
        """Waits until it may lead, then leads, until `stop_service`; raises SparkEnded if Spark has ended.

        If another service becomes the leader, it waits again.
        """
        self._table.ensure()
        self._follow_paused()
        self._replace_models(self._project.list_followed())
        observer = threading.Thread(target=self._observe_always, name="observer", daemon=True)
        observer.start()
        closer = threading.Thread(target=self._close_operations, name="closer", daemon=True)
        closer.start()
        try:
            while self._wait_for_leadership():
                self._lead_until_stopped()
        finally:
            self._stopping.set()
            self._shared.change_state(role="ending")
            closer.join()
            observer.join()
        if self._spark_end is not None:
            raise self._spark_end

    def end_without_spark(self, error: SparkEnded) -> None:
        """Ends the service because its Spark has ended; from then on `/ready` answers that the service is not ready."""
        if self._spark_end is None:
            self._spark_end = error
            self._shared.set_error("spark", str(error))
            self._shared.change_state(role="ending")
        self.stop_service()

    def stop_service(self) -> None:
        """Ends the service when the work in progress is done; can be called from any thread or signal handler."""
        self._stopping.set()
        leadership = self._leadership
        if leadership is not None:
            leadership.end_leadership()

    def handle_batch(self, source: str, data: Any, tables: Iterable[TableName]) -> None:
        """Records an ingested batch of a source, queues its `tables` for upkeep, and wakes the follower."""
        self._shared.events.append_event("batch", {"source": source, **data})
        for table in tables:
            self._upkeep.note_write(table)
        self.activity.wake_follower()

    # Leading

    def _wait_for_leadership(self) -> bool:
        """Waits until this service gets the lease to lead; returns False if the service is stopped first."""
        while not self._stopping.is_set():
            try:
                self._table.ensure()
                other = self._lease.take_lease()
                self._follow_paused()
                self._shared.set_error("lease", "")
            except ArcticError as error:
                self._shared.set_error("lease", str(error))
            else:
                if other is None:
                    return True
                self._show_standby(other)
            self._stopping.wait(self._limits.lease_poll_seconds)
        return False

    def _follow_paused(self) -> None:
        """Takes over what users have paused or resumed at another service of the same schema."""
        paused = self._table.read_paused()
        if paused != self._paused_read:
            self._paused_read = self._shared.paused = paused
            self._shared.change_state()
            self.activity.wake_follower()

    def _show_standby(self, other: Held) -> None:
        if self._shared.get_state().leader != other.process:
            self._listeners.say(f"stands by while {other.process} leads")
            self._shared.change_state(role="stands_by", leader=other.process)

    def _lead_until_stopped(self) -> None:
        """Does all work of a leader until the service is stopped, or another service has taken the lease."""
        leadership = self._leadership = Leadership()

        def end_leadership(other: Held) -> None:
            self._show_standby(other)
            leadership.end_leadership()

        try:
            if self._stopping.is_set():
                return
            self._shared.change_state(role="leads", leader="")
            with self._lease.keep_alive(end_leadership, self._follow_paused):
                self._run_parts(leadership)
        finally:
            self._leadership = None
            self._lease.end_lease()

    def _run_parts(self, leadership: Leadership) -> None:
        project = self._project
        follower = Follower(
            self._shared,
            RefreshWorkers(self._refresh_model, project.threads, project.prepare_thread),
            replace(self._listeners, report=self._report_refresh, end=self.activity.end_refresh),
        )
        parts = {"upkeep": partial(self._upkeep.run_until, leadership.ended)} if self._work.upkeep else {}
        parts |= {
            "schedules": partial(self._timetable.run_until, leadership.ended),
            "tests": partial(self._tests.run_until, leadership.ended),
            "history": partial(self._history.run_until, leadership.ended),
        }
        running = Parts(self._shared, leadership.ended, self._listeners.say)
        sources = SourceThreads(
            leadership,
            self._ingest_source,
            lambda name, ingest, ended: running.start_part(to_part_name(name), ingest, ended),
        )

        def use_models(models: Sequence[FollowedModel]) -> None:
            self._replace_models(models)
            if changed := sources.use_ingestions(self._work.ingestions()):
                self._listeners.say(f"uses the edited settings of {', '.join(changed)}")

        with follower:
            follower.follow_models(project.list_followed())
            leadership.call_at_end(follower.stop_following)
            self.activity.follower = follower
            running.start_parts(parts)
            sources.use_ingestions(self._work.ingestions())
            try:
                follower.run_until_stopped(project, use_models)
            except SparkEnded as error:
                self.end_without_spark(error)
            finally:
                self.activity.follower = None
                leadership.end_leadership()
                running.join_parts()

    def _replace_models(self, models: Sequence[FollowedModel]) -> None:
        """Replaces the tables that the service shows and maintains by those of the reloaded project.

        `models` are the models to refresh.
        """
        maintained = self._project.list_maintained()
        own = [table.model for table in maintained]
        self._shared.set_tables(models, own, self._project.list_sources(), self._project.list_scheduled())
        self._upkeep.set_tables(maintained)

    # Parts of the service

    def _ingest_source(self, leadership: Leadership, ingestion: Ingesting) -> None:
        """Ingests a source until leadership or Spark ends; after any other failure, tries again after a pause.

        The end of a server that may answer again is such a failure.
        """
        failures, name = 0, ingestion.name
        while not leadership.ended.is_set():
            self.activity.begin_ingestion(name)
            began = time.monotonic()
            remove = leadership.call_at_end(ingestion.stop_ingestion)
            try:
                ingestion.run_ingestion()
                if leadership.ended.is_set():
                    break
                raise IngestionEnded(f"source {name}: its ingestion ended without being stopped.")
            except Exception as failure:
                end = to_spark_ended(failure)
                error = end or failure
                if end is not None and not PROCESS.can_reconnect:
                    self.activity.fail_ingestion(name, str(end), is_running=False, details=end.details)
                    self.end_without_spark(end)
                    return
                is_steady = time.monotonic() - began > self._limits.steady_seconds
                failures = 0 if is_steady else failures + 1
                pause = compute_source_pause(failures + 1, self._limits)
                message = get_message(error)
                has_ended = isinstance(error, IngestionEnded)
                self.activity.fail_ingestion(name, message, False, get_error_details(error), has_ended)
                self._listeners.say(f"source {name}: {message}\n  tried again in {pause:.0f} s")
                leadership.ended.wait(pause)
            finally:
                remove()
        self.activity.end_ingestion(name)

    def _refresh_model(self, task: Task) -> RefreshResult:
        self.activity.begin_refresh(task)
        does_upkeep = self._work.upkeep is None or self._upkeep.is_overdue(task.followed.table)
        return self._project.refresh_model(replace(task, with_upkeep=does_upkeep))

    def _report_refresh(self, report: Report) -> None:
        self.activity.end_refresh(report)
        if report.status == "refreshed":
            for part in report.followed.model.parts:
                self._upkeep.note_write(part.table)
            self._tests.queue_tests(report.followed.table)
        self._listeners.report(report)

    def _close_operations(self) -> None:
        """Ends the operations of users as soon as the service is stopped, while refreshes come to their end."""
        self._stopping.wait()
        self._requests.close_operations()

    def _observe_always(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                for table in self.live.observe_tables():
                    self._upkeep.note_write(table)
                if self._shared.has_new_tables():
                    self._replace_models(self._project.list_followed())
                self._shared.set_error("catalog", "")
            except Exception as error:
                if not isinstance(error, ArcticError):
                    LOG.exception("tables could not be observed")
                self._shared.set_error("catalog", get_message(error))
            took = time.monotonic() - began
            self._stopping.wait(max(self._limits.poll_seconds, compute_look_pause(took, self._limits)))
