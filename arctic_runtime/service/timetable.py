"""Runs models of other materializations, such as `table`, at the times of their schedule, and tests after refreshes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.cron_schedules import Scheduled, list_due_models, name_schedule_part, was_set_back
from arctic_runtime.service.project import ServedProject
from arctic_runtime.service.refreshing.model_records import compute_retry_pause
from arctic_runtime.service.shared_state import SYSTEM_CLOCK, Clock, SharedState
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

LOG = logging.getLogger(__name__)


class RunTimes(Protocol):
    """Durable store of the times at which models were last run, for a service that becomes the leader."""

    def list_run_times(self) -> Mapping[str, float]:
        """Maps the name of each model to the time at which its last run began, in seconds since 1970."""

    def note_run(self, at: Mapping[str, float]) -> None:
        """Stores the times at which the last runs of models began: seconds since 1970 by model name."""


class Timetable:
    """Runs models at the times of their cron expressions, one after the other.

    If times were missed while no service ran, the model is run once. A model that fails is tried again after a pause;
    until then, models that read it are not run. The time of a run is stored after its end; if the process ends earlier,
    the model is run again.
    """

    def __init__(
        self,
        project: ServedProject,
        times: RunTimes,
        shared: SharedState,
        report_success: Callable[[TableName], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Creates a timetable; `report_success` is called with the table of each run that succeeded."""
        self._project = project
        self._times = times
        self._shared = shared
        self._report_success = report_success
        self._clock = clock
        self._limits = shared.reader.thresholds.service
        self._last: dict[str, float] | None = None
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}

    def run_until(self, over: threading.Event) -> None:
        """Runs due models until `over` is set; a run that is in progress at that time is finished."""
        self._last = None
        self._project.prepare_thread()
        while not over.is_set():
            try:
                self.run_due(over)
                self._shared.report_error("schedules", "")
            except Exception as error:
                if not isinstance(error, ArcticError):
                    LOG.exception("scheduled models could not be looked at")
                self._shared.report_error("schedules", get_message(error))
            over.wait(self._limits.poll_seconds)

    def run_due(self, over: threading.Event | None = None) -> None:
        """Runs the models that are due at present, but starts none after `over` is set.

        Raises CatalogError if the catalog does not answer.
        """
        models = self._project.list_scheduled()
        self._discard_others(models)
        if not models:
            return
        last = self._list_last_runs(models)
        waiting = {
            model.name
            for model in models
            if self._shared.is_paused(model.table) or self._clock.monotonic() < self._retry_at.get(model.name, 0.0)
        }
        times = {name: datetime.fromtimestamp(at) for name, at in last.items()}
        for model in list_due_models(models, times, datetime.fromtimestamp(self._clock.time()), waiting):
            if over is not None and over.is_set():
                return
            if not self._perform_run(model):
                waiting.add(model.name)

    def _list_last_runs(self, models: Sequence[Scheduled]) -> dict[str, float]:
        """Maps each model to the time of its last run, in seconds since 1970.

        A new model, and a model whose last run is in the future, get the current time, which is stored too.
        """
        if self._last is None:
            self._last = dict(self._times.list_run_times())
        last, now = self._last, self._clock.time()
        unknown = {
            model.name: now
            for model in models
            if model.name not in last
            or was_set_back(datetime.fromtimestamp(last[model.name]), datetime.fromtimestamp(now))
        }
        if unknown:
            self._times.note_run(unknown)
            last.update(unknown)
        return last

    def _perform_run(self, model: Scheduled) -> bool:
        began = self._clock.time()
        job = self._shared.jobs.add_job("run", "dbt run", (model.table,), f"scheduled: {model.cron}", "running")
        try:
            output = self._project.run_scheduled(model.name)
        except Exception as error:
            self._record_failure(model, job.number, to_spark_ended(error) or error)
            return False
        self._shared.jobs.end_job(job.number, "done", lines=tuple(output.splitlines()))
        self._failures.pop(model.name, None)
        self._retry_at.pop(model.name, None)
        self._shared.report_error(name_schedule_part(model.name), "")
        assert self._last is not None
        self._last[model.name] = began
        self._report_success(model.table)
        self._times.note_run({model.name: began})
        return True

    def _record_failure(self, model: Scheduled, number: str, error: Exception) -> None:
        message = get_message(error)
        failures = self._failures[model.name] = self._failures.get(model.name, 0) + 1
        pause = compute_retry_pause(failures, self._limits)
        self._retry_at[model.name] = self._clock.monotonic() + pause
        self._shared.jobs.end_job(number, "failed", error=message, error_details=get_error_details(error))
        self._shared.report_error(name_schedule_part(model.name), f"{message}\n  tried again in {pause:.0f} s")

    def _discard_others(self, models: Sequence[Scheduled]) -> None:
        """Removes the failures and errors of models that are no longer scheduled."""
        names = {model.name for model in models}
        for name in self._failures.keys() - names:
            del self._failures[name]
            del self._retry_at[name]
            self._shared.report_error(name_schedule_part(name), "")


class DataTests:
    """Runs the tests of refreshed tables, one table at a time; a failure does not prevent the tests of other tables.

    If a table is refreshed several times before its turn, its tests are run once. When a service begins to lead, the
    tests of all tables are run, since earlier failures must still be shown.
    """

    def __init__(self, project: ServedProject, shared: SharedState) -> None:
        self._project = project
        self._shared = shared
        self._poll_seconds = shared.reader.thresholds.service.poll_seconds
        self._changed = threading.Condition()
        self._waiting: dict[TableName, None] = {}
        self._failing: set[TableName] = set()

    def queue_tests(self, table: TableName) -> None:
        """Queues the tests of a table, if it has any; can be called from any thread."""
        if table in self._project.list_tested_tables():
            with self._changed:
                self._waiting[table] = None
                self._changed.notify()

    def run_until(self, over: threading.Event) -> None:
        """Runs queued tests until `over` is set; tests that are running at that time are finished."""
        self._project.prepare_thread()
        for table in self._project.list_tested_tables():
            self.queue_tests(table)
        while not over.is_set():
            following = self._take_next()
            if following is not None and not over.is_set():
                self.perform_tests(following)

    def perform_tests(self, table: TableName) -> None:
        """Runs the tests of a table, and shows their outcomes as a job and, if any failed, as a service error."""
        for gone in self._failing - set(self._project.list_tested_tables()):
            self._show_failures(gone, "")
        job = self._shared.jobs.add_job("test", "dbt test", (table,), "after a refresh", "running")
        try:
            outcomes = self._project.test_table(table)
        except Exception as error:
            cause = to_spark_ended(error) or error
            message = get_message(cause)
            self._shared.jobs.end_job(job.number, "failed", error=message, error_details=get_error_details(cause))
            self._show_failures(table, message)
            return
        lines, failed = tuple(map(str, outcomes)), [outcome for outcome in outcomes if outcome.has_failed]
        if not failed:
            self._shared.jobs.end_job(job.number, "done", lines=lines)
            self._show_failures(table, "")
            return
        message = "\n".join([f"{len(failed)} of {len(outcomes)} tests failed", *(f"  {outcome}" for outcome in failed)])
        self._shared.jobs.end_job(job.number, "failed", lines=lines, error=message)
        self._show_failures(table, message)

    def _take_next(self) -> TableName | None:
        with self._changed:
            if not self._waiting:
                self._changed.wait(self._poll_seconds)
            table = next(iter(self._waiting), None)
            if table is not None:
                del self._waiting[table]
            return table

    def _show_failures(self, table: TableName, message: str) -> None:
        self._shared.report_error(f"tests of {table}", message)
        if message:
            self._failing.add(table)
        else:
            self._failing.discard(table)
