"""The jobs of a service: those that wait, run, or ended recently."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import chain, count
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.live_data import Job, JobKind, JobState
from arctic_runtime.thresholds import ServiceThresholds


class JobBoard:
    """Jobs by number; each change of a job appends an event to the event log. May be used by any thread."""

    def __init__(self, events: EventLog, thresholds: ServiceThresholds) -> None:
        self._events = events
        self._thresholds = thresholds
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._open: dict[str, Job] = {}
        self._ended: dict[JobKind, deque[Job]] = {}
        self._cancels: dict[str, Callable[[], None]] = {}

    def list_jobs(self) -> Sequence[Job]:
        """Lists jobs that wait or run, then a limited number of ended ones of each kind; each part newest first."""
        with self._lock:
            return [*reversed(self._open.values()), *sorted(self._list_ended(), key=_sort_by_end)]

    def find_job(self, number: str) -> Job | None:
        with self._lock:
            return self._open.get(number) or next((job for job in self._list_ended() if job.number == number), None)

    def add_job(
        self, kind: JobKind, name: str, tables: Sequence[TableName], reason: str = "", state: JobState = "waiting"
    ) -> Job:
        """Adds a job for work on `tables`, in the state "waiting" or "running"; returns it with its number."""
        now = datetime.now(timezone.utc)
        began = now if state == "running" else None
        job = Job(str(next(self._numbers)), kind, name, tuple(tables), state, now, began, reason=reason)
        return self._put_job(job)

    def begin_job(self, number: str) -> bool:
        """Marks a waiting job as running; returns False if it was cancelled before."""
        with self._lock:
            job = self._open.get(number)
            if job is None:
                return False
            job = self._open[number] = replace(job, state="running", began_at=datetime.now(timezone.utc))
        self._events.append_event("job", job)
        return True

    def allow_cancel(self, number: str, cancel: Callable[[], None]) -> None:
        """Registers `cancel`, a function that ends the work of the running job `number`."""
        with self._lock:
            if number in self._open:
                self._cancels[number] = cancel

    def report_progress(self, number: str, line: str) -> None:
        """Adds a line of progress to a running job."""
        with self._lock:
            job = self._open.get(number)
            if job is None:
                return
            lines = (*job.lines, line)[-self._thresholds.job_lines :]
            job = self._open[number] = replace(job, lines=lines)
        self._events.append_event("job", job)

    def end_job(self, number: str, state: JobState, **outcome: Any) -> Job | None:
        """Ends a waiting or running job with `state`; None if it had ended before.

        `outcome` are further fields of `Job`, such as `error`; `lines` are appended to those of the job.
        """
        with self._lock:
            job = self._open.pop(number, None)
            self._cancels.pop(number, None)
            if job is None:
                return None
            now = datetime.now(timezone.utc)
            seconds = max(0.0, (now - job.began_at).total_seconds()) if job.began_at else 0.0
            lines = (*job.lines, *outcome.pop("lines", ()))[-self._thresholds.job_lines :]
            job = replace(job, state=state, ended_at=now, seconds=seconds, lines=lines, **outcome)
            self._ended.setdefault(job.kind, deque(maxlen=self._thresholds.ended_jobs)).append(job)
        self._events.append_event("job", job)
        return job

    def discard_job(self, number: str) -> None:
        """Removes a job that changed nothing, so that it is not shown."""
        with self._lock:
            self._open.pop(number, None)
            self._cancels.pop(number, None)
        self._events.append_event("forgotten_job", {"number": number})

    def cancel_job(self, number: str, line: str = "cancelled by a user") -> Job | None:
        """Ends a waiting job, or cancels the work of a running one and adds `line` to it, unless it is its last line.

        Returns the job; None if there is no such job, or it can't be cancelled.
        """
        with self._lock:
            job = self._open.get(number)
            cancel = self._cancels.get(number)
        if job is None:
            return None
        if job.state == "waiting":
            return self.end_job(number, "cancelled")
        if cancel is None:
            return None
        cancel()
        if job.lines[-1:] != (line,):
            self.report_progress(number, line)
        return self.find_job(number)

    def _list_ended(self) -> Iterator[Job]:
        return chain.from_iterable(self._ended.values())

    def _put_job(self, job: Job) -> Job:
        with self._lock:
            self._open[job.number] = job
        self._events.append_event("job", job)
        return job


def _sort_by_end(job: Job) -> tuple[float, int]:
    """Returns the sort key that puts the newest ended jobs first."""
    return (-job.ended_at.timestamp() if job.ended_at is not None else 0.0, -int(job.number))
