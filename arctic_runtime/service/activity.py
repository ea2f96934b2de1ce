"""Records the refreshes and ingestions that run in a service, for the service's jobs and overviews of tables."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Failure
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import Report, Task
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.service.view.live_data import JobState
from arctic_runtime.service.view.overviews import IngestionRun, Refreshing, to_part_name

Lane = tuple[str, bool]
"""A source's name, and whether the batch belongs to a load that runs in parallel with the source's stream."""


class IngestJobs:
    """The running job of each lane: of a source's stream, or of its load in parallel; may be used by any thread."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._numbers: dict[Lane, str] = {}

    def begin_batch(self, lane: Lane, tables: Sequence[TableName], reason: str) -> None:
        """Adds a running job for a batch of a lane (a source's stream or load) that is being published to `tables`."""
        job = self._board.add_job("ingest", f"ingest {lane[0]}", tables, reason, "running")
        with self._lock:
            self._numbers[lane] = job.number

    def end_batch(self, lane: Lane, rows: Mapping[str, int], line: str) -> None:
        """Ends the job of a lane's batch as done, with the changed rows by action and a line for people.

        Does nothing if the lane has no open job.
        """
        with self._lock:
            number = self._numbers.pop(lane, None)
        if number is not None:
            self._board.end_job(number, "done", rows=dict(rows), lines=(line,))

    def close_source(self, source: str, error: str = "", error_details: Mapping[str, str] | None = None) -> None:
        """Ends the open jobs of a source whose ingestion ended: as failed if there is an `error`, else as cancelled."""
        state: JobState = "failed" if error else "cancelled"
        with self._lock:
            numbers = [self._numbers.pop(lane) for lane in list(self._numbers) if lane[0] == source]
        for number in numbers:
            self._board.end_job(number, state, error=error, error_details=error_details or {})


class Activity:
    """Current refreshes and ingestions of a service, with the outcome of earlier ones; may be used by any thread.

    `follower` refreshes the models; it is None while another service does the work (leads).
    """

    def __init__(self, shared: SharedState) -> None:
        self.shared = shared
        self.follower: Follower | None = None
        self.ingest_jobs = IngestJobs(shared.jobs)
        self._lock = threading.Lock()
        self._refreshing: dict[TableName, Refreshing] = {}
        self._job_numbers: dict[TableName, str] = {}
        self._ingestions: dict[str, IngestionRun] = {}

    # Refreshes

    def begin_refresh(self, task: Task) -> None:
        table = task.followed.table
        job = self.shared.jobs.add_job("refresh", "refresh", (table,), state="running")
        with self._lock:
            self._job_numbers[table] = job.number
            self._refreshing[table] = replace(self._refreshing.get(table, Refreshing()), is_running=True)
        for part in task.followed.model.parts:
            self.shared.begin_writing(part.table)

    def end_refresh(self, report: Report) -> None:
        """Records the result of a model in a pass, and ends the job of the model's refresh, if it was started.

        It is called when the refresh has ended, and again when its next attempt is known.
        """
        table = report.followed.table
        with self._lock:
            number = self._job_numbers.pop(table, None) if report.status != "skipped" else None
            self._refreshing[table] = _apply_refresh_report(self._refreshing.get(table, Refreshing()), report)
        for part in report.followed.model.parts:
            self.shared.end_writing(part.table)
        if number is not None:
            self._end_job(number, report)

    def list_refreshing(self, now: datetime) -> Mapping[TableName, Refreshing]:
        """Maps each model that has had a refresh to the state of its refreshes, with retry times as of `now`."""
        with self._lock:
            refreshing = dict(self._refreshing)
        return {table: self._add_retry_time(table, state, now) for table, state in refreshing.items()}

    def wake_follower(self) -> None:
        """Makes the follower, which refreshes models, check the tables at once.

        Does nothing while another service leads, since there is no follower then.
        """
        follower = self.follower
        if follower is not None:
            follower.wake_up()

    def _add_retry_time(self, table: TableName, refreshing: Refreshing, now: datetime) -> Refreshing:
        follower = self.follower
        if follower is None:
            return refreshing
        left = follower.compute_retry_seconds(table)
        retry_at = None if left is None else (refreshing.retry_at or now + timedelta(seconds=left))
        return replace(refreshing, retry_at=retry_at)

    def _end_job(self, job_number: str, report: Report) -> None:
        jobs = self.shared.jobs
        if report.status in ("unchanged", "conflict"):
            jobs.discard_job(job_number)
        elif report.done is None:
            jobs.end_job(job_number, "failed", error=report.error, error_details=report.error_details)
        else:
            outcome = report.done.refreshed.outcome
            jobs.end_job(job_number, "done", rows=dict(outcome.rows), reason=f"{outcome.mode} ({outcome.reason})")

    # Ingestion

    def begin_ingestion(self, source: str) -> None:
        """Records that ingestion of a source has begun; an earlier failure is kept until a batch succeeds."""
        self._change_ingestion(source, is_running=True)

    def fail_ingestion(
        self,
        source: str,
        message: str,
        is_running: bool,
        details: Mapping[str, str] | None = None,
        has_ended: bool = False,
    ) -> None:
        """Records that a source can't be read, or that its ingestion ended with an error.

        `message` is the error, `details` its parts, such as `expected`. Unless `is_running`, the ingestion has ended,
        and its open jobs end as failed. `has_ended` is whether it ended without being stopped.
        """
        with self._lock:
            known = self._ingestions.get(source, IngestionRun()).failure
        since = known.since if known is not None else datetime.now(timezone.utc)
        self._change_ingestion(source, is_running=is_running, failure=Failure(message, since))
        self.shared.set_error(to_part_name(source), message, has_ended)
        if not is_running:
            self.ingest_jobs.close_source(source, message, details)

    def confirm_ingestion(self, source: str, waits: str = "") -> None:
        """Clears the failure of a source, after one of its batches was published or it was read without new rows.

        `waits` says which of its tables wait, and why; it is shown in the place of a failure, as they need a user.
        """
        self._change_ingestion(source, failure=None)
        self.shared.set_error(to_part_name(source), waits)

    def end_ingestion(self, source: str) -> None:
        """Records that this service no longer ingests a source, and ends the source's open jobs as cancelled.

        Its last failure is forgotten, since it says nothing of an ingestion by others, or with other settings.
        """
        self._change_ingestion(source, is_running=False, failure=None)
        self.shared.set_error(to_part_name(source), "")
        self.ingest_jobs.close_source(source)

    def list_ingestions(self) -> Mapping[str, IngestionRun]:
        """Maps each source whose ingestion this service has begun to the state of its ingestion."""
        with self._lock:
            return dict(self._ingestions)

    def _change_ingestion(self, source: str, **changed: Any) -> None:
        with self._lock:
            self._ingestions[source] = replace(self._ingestions.get(source, IngestionRun()), **changed)


def _apply_refresh_report(before: Refreshing, report: Report) -> Refreshing:
    """Returns the state of a model's refreshes after `report`; `before` is the state before it."""
    now = datetime.now(timezone.utc)
    if report.status in ("refreshed", "unchanged"):
        return Refreshing(refreshed_at=now)
    if report.status == "skipped":
        return replace(before, is_running=False, held_by=report.held_by)
    if report.status == "conflict":
        return replace(before, is_running=False)
    pause = report.retry_seconds
    retry_at = None if pause is None else now + timedelta(seconds=pause)
    return Refreshing(refreshed_at=before.refreshed_at, error=report.error, retry_at=retry_at)
