"""Runs models of materializations other than `arctic`, such as `table`, at the times of their cron schedule."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.service.clock import SYSTEM_CLOCK, Clock
from arctic_runtime.service.project import ServedProject
from arctic_runtime.service.refreshing.model_records import compute_retry_pause
from arctic_runtime.service.schedules.cron_schedules import Scheduled, list_due_models, name_schedule_part, was_set_back
from arctic_runtime.service.shared_state import SharedState
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
            model.name for model in models if self._shared.is_paused(model.table) or self._is_resting(model.name)
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

    def _is_resting(self, name: str) -> bool:
        return self._clock.monotonic() < self._retry_at.get(name, 0.0)

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
