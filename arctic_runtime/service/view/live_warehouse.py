"""A service as HTTP, the page and metrics see it: its tables and jobs, and what users ask of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import Paused, ServiceTable
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Failure
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer, Operation, OperationContext
from arctic_runtime.service.ingest_jobs import IngestJobs
from arctic_runtime.service.project import Project
from arctic_runtime.service.refreshing.follower import Follower
from arctic_runtime.service.refreshing.refresh_task import Report, Task
from arctic_runtime.service.schedules.cron_schedules import Scheduled, schedule_part
from arctic_runtime.service.shared_state import SharedState, list_named_tables
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.service.view.event_log import EventLog
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.service.view.live_data import Job, ServiceState, TableOverview, Upkeep
from arctic_runtime.service.view.observed_tables import ObservedTables
from arctic_runtime.service.view.overviews import (
    IngestionRun,
    Refreshing,
    Shown,
    build_overviews,
    is_news,
    to_part_name,
)
from arctic_runtime.spark.engine.jobs import describe_jobs, make_cancellable
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.session_pool import SessionPool, lend_session
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class LiveWarehouse:
    """Live state of a warehouse, and the requests of users; the `LiveService` of `live.py`.

    It works whether the service leads or stands by: `follower` is None while it stands by.
    """

    def __init__(
        self,
        project: Project,
        reader: CatalogReader,
        sessions: SessionPool,
        table: ServiceTable,
        shared: SharedState,
        upkeep: UpkeepRunner,
        board: JobBoard,
        events: EventLog,
        version: str,
    ) -> None:
        self.events = events
        self.follower: Follower | None = None
        self._project = project
        self._reader = reader
        self._sessions = sessions
        self._table = table
        self._shared = shared
        self._upkeep = upkeep
        self._board = board
        self._limits = reader.thresholds.service
        self._observed = ObservedTables(reader, shared.heads)
        self._operations = ThreadPoolExecutor(self._limits.operations, "operation")
        self._lock = threading.RLock()
        self._refreshing: dict[TableName, Refreshing] = {}
        self._jobs_of: dict[TableName, str] = {}
        self._ingestions: dict[str, IngestionRun] = {}
        self.ingest_jobs = IngestJobs(board)
        self._tables: dict[TableName, TableOverview] = {}
        self._last_overviews: dict[TableName, TableOverview] = {}
        self._state = ServiceState(datetime.now(timezone.utc), version, project.name, "starting")

    def close_operations(self) -> None:
        """Ends what users asked for: what runs comes to its end, and what waits is cancelled."""
        for job in self._board.list_jobs():
            if job.state == "waiting":
                self._board.cancel_job(job.number)
        self._operations.shutdown(wait=True)

    # What goes on

    def refresh_begins(self, task: Task) -> None:
        table = task.followed.table
        job = self._board.add_job("refresh", "refresh", (table,), state="running")
        with self._lock:
            self._jobs_of[table] = job.number
            self._refreshing[table] = replace(self._refreshing.get(table, Refreshing()), is_running=True)
        self._shared.begin_writing(table)

    def refresh_ended(self, report: Report) -> None:
        table = report.followed.table
        with self._lock:
            number = self._jobs_of.pop(table, None) if report.status != "skipped" else None
            self._refreshing[table] = _update_refreshing(self._refreshing.get(table, Refreshing()), report)
        self._shared.end_writing(table)
        if number is not None:
            self._end_job(number, report)

    def begin_ingestion(self, source: str) -> None:
        """A source is ingested from now on; why that failed before stays until a batch has succeeded."""
        self._change_ingestion(source, is_running=True)

    def fail_ingestion(
        self, source: str, message: str, is_running: bool, details: Mapping[str, str] | None = None
    ) -> None:
        """The source can't be read, or ingestion of it has ended by an error."""
        known = self._ingestions.get(source, IngestionRun()).failure
        since = known.since if known is not None else datetime.now(timezone.utc)
        self._change_ingestion(source, is_running=is_running, failure=Failure(message, since))
        self.set_error(to_part_name(source), message)
        if not is_running:
            self.ingest_jobs.close_source(source, message, details)

    def confirm_ingestion(self, source: str) -> None:
        """A batch of a source was published, or the source was found to have no more."""
        self._change_ingestion(source, failure=None)
        self.set_error(to_part_name(source), "")

    def end_ingestion(self, source: str) -> None:
        """A source is no longer ingested by this service."""
        self._change_ingestion(source, is_running=False)
        self.ingest_jobs.close_source(source)

    def _change_ingestion(self, source: str, **changed: Any) -> None:
        with self._lock:
            self._ingestions[source] = replace(self._ingestions.get(source, IngestionRun()), **changed)

    def _end_job(self, number: str, report: Report) -> None:
        if report.status in ("unchanged", "conflict"):
            self._board.discard_job(number)
        elif report.done is None:
            self._board.end_job(number, "failed", error=report.error, error_details=report.error_details)
        else:
            outcome = report.done.refreshed.outcome
            reason = f"{outcome.mode} ({outcome.reason})"
            self._board.end_job(number, "done", rows=dict(outcome.rows), reason=reason)

    # What is shown

    def observe_tables(self) -> Collection[TableName]:
        """Looks at all tables, tells of those whose overview is another one, and returns those that moved.

        Raises CatalogError if the catalog does not answer.
        """
        models, reads = self._shared.models, self._shared.list_reads()
        scheduled = {
            scheduled_model.table: scheduled_model
            for scheduled_model in self._shared.scheduled
            if scheduled_model.table not in models
        }
        others = {table for scheduled_model in reads.values() for table in scheduled_model} | scheduled.keys()
        others = others.union(*(scheduled_model.reads for scheduled_model in scheduled.values())) - models.keys()
        moved = self._observed.observe_moved(models, others)
        self._shared.readable = self._observed.readable
        now = datetime.now(timezone.utc)
        with self._lock:
            refreshing = {
                table: self._with_times(table, scheduled_model, now)
                for table, scheduled_model in self._refreshing.items()
            }
            refreshing |= {
                table: self._describe_last_run(scheduled_model) for table, scheduled_model in scheduled.items()
            }
        shown = Shown(
            now,
            reads,
            models,
            self._observed.tables,
            refreshing,
            dict(self._ingestions),
            self._upkeep.sum_waste(),
            self._shared.paused,
            self._limits.flow_seconds,
            scheduled,
            self._observed.readable,
            self._reader.thresholds.ingest.confirmed_seconds,
        )
        self._tables = {scheduled_model.table: scheduled_model for scheduled_model in build_overviews(shown)}
        with self._lock:
            self._state = replace(self._state, looked_at=now)
        self._publish_changes()
        return moved

    def _publish_changes(self) -> None:
        """Publishes the tables that differ from their last published state; mere passing of time only now and then."""
        self._last_overviews = {
            table: earlier_overview for table, earlier_overview in self._last_overviews.items() if table in self._tables
        }
        for table, overview in self._tables.items():
            if is_news(self._last_overviews.get(table), overview, self._limits.as_of_event_seconds):
                self._last_overviews[table] = overview
                self.events.append_event("table", overview)

    def _with_times(self, table: TableName, refreshing: Refreshing, now: datetime) -> Refreshing:
        follower = self.follower
        if follower is None:
            return refreshing
        left = follower.compute_retry_seconds(table)
        retry_at = None if left is None else (refreshing.retry_at or now + timedelta(seconds=left))
        return replace(refreshing, retry_at=retry_at)

    def _describe_last_run(self, scheduled_model: Scheduled) -> Refreshing:
        """Describes the runs of a model that dbt runs."""
        running = (job for job in self._board.list_jobs() if job.kind == "run" and job.state == "running")
        return Refreshing(
            any(scheduled_model.table in job.tables for job in running),
            error=self._state.errors.get(schedule_part(scheduled_model.name), ""),
        )

    def get_state(self) -> ServiceState:
        return self._state

    def list_tables(self) -> Sequence[TableOverview]:
        return list(self._tables.values())

    def find_table(self, name: str) -> TableOverview | None:
        known = self._tables
        matches = list_named_tables(name, known)
        return known[matches[0]] if len(matches) == 1 else None

    def list_jobs(self) -> Sequence[Job]:
        return self._board.list_jobs()

    def find_job(self, number: str) -> Job | None:
        return self._board.find_job(number)

    def list_upkeep(self) -> Sequence[Upkeep]:
        return self._upkeep.list_planned()

    # What users ask for

    def answer_operation(
        self, operation: Operation, tables: Sequence[str], given_arguments: Mapping[str, Any], plan: bool
    ) -> Answer:
        values = operation.read_values(given_arguments)
        models = self._choose_models(operation, tables)
        return operation.run_operation(self._build_context(_refuse_spark), models, values, plan)

    def submit_operation(self, operation: Operation, tables: Sequence[str], given_arguments: Mapping[str, Any]) -> Job:
        values = operation.read_values(given_arguments)
        models = self._choose_models(operation, tables)
        job = self._board.add_job("operation", operation.name, [model.table for model in models], "asked for by a user")
        self._operations.submit(self._perform_operation, job, operation, models, values)
        return job

    def _perform_operation(
        self, job: Job, operation: Operation, models: Sequence[Model], values: Mapping[str, Any]
    ) -> None:
        number = job.number
        if not self._board.begin_job(number):
            return
        try:
            with (
                lend_session(self._sessions) as take,
                self._tag_spark_jobs(take, job, operation.needs_spark) as session,
            ):
                context = self._build_context(session, lambda line: self._board.report_progress(number, line))
                answer = operation.run_operation(context, models, values)
            self._board.end_job(number, "done", lines=answer.lines, answer=answer.data, differs=answer.differs)
        except Exception as error:
            cause = to_spark_ended(error) or error
            details = get_error_details(cause)
            self._board.end_job(number, "failed", error=get_message(cause), error_details=details)
        for model in models:
            self._upkeep.note_write(model.table)

    @contextmanager
    def _tag_spark_jobs(
        self, take: Callable[[], SparkSession], job: Job, needs_spark: bool
    ) -> Iterator[Callable[[], SparkSession]]:
        if not needs_spark:
            yield take
            return
        spark = take()
        describe_jobs(spark, f"{job.name} {', '.join(map(str, job.tables))}")
        with make_cancellable(spark, f"arctic-{job.number}") as cancel:
            self._board.allow_cancel(job.number, cancel)
            yield take

    def refresh_tables(self, tables: Sequence[str]) -> None:
        followed = {model.table for model in self._shared.followed}
        wanted = followed if not tables else {self._shared.find_table(name) for name in tables}
        if strange := wanted - followed:
            raise ConfigError(f"{', '.join(map(str, sorted(strange)))}: no model that this service refreshes")
        follower = self.follower
        if follower is None:
            raise ConfigError(f"this service stands by; {self._state.leader or 'another one'} leads")
        follower.refresh_soon(wanted)

    def cancel_job(self, number: str) -> Job | None:
        return self._board.cancel_job(number)

    def pause_tables(self, tables: Sequence[str], upkeep_only: bool) -> None:
        names = [str(self._shared.find_table(name)) for name in tables]
        if upkeep_only and not names:
            names = [str(table) for table in self._shared.models]
        self._change_paused(lambda paused: paused.paused(names, upkeep_only))

    def resume_tables(self, tables: Sequence[str]) -> None:
        names = [str(self._shared.find_table(name)) for name in tables]
        self._change_paused(lambda paused: paused.resumed(names))

    def _change_paused(self, change: Callable[[Paused], Paused]) -> None:
        attempts = self._reader.thresholds.commits.attempts
        self._shared.paused = retry_on_conflict(lambda: self._table.change_paused(change), attempts)
        self.change_state()
        follower = self.follower
        if follower is not None:
            follower.wake_up()

    def _choose_models(self, operation: Operation, names: Sequence[str]) -> Sequence[Model]:
        models = {model.table: model for model in self._project.list_models()}
        if not names and operation.tables != "one":
            return list(models.values())
        chosen = [models.get(self._shared.find_table(name)) for name in names]
        if operation.tables == "one" and len(chosen) != 1:
            raise ConfigError(f"{operation.name} takes one table; found {len(chosen)}")
        return [model for model in chosen if model is not None]

    def _build_context(
        self, spark: Callable[[], SparkSession], progress: Callable[[str], None] = lambda _: None
    ) -> OperationContext:
        return OperationContext(self._reader, spark, tuple(self._project.list_models()), progress)

    # The state of the service

    def change_state(self, **changed: Any) -> None:
        with self._lock:
            paused = self._shared.paused
            self._state = replace(
                self._state,
                **changed,
                is_paused=paused.everything,
                paused_tables=self._list_tables_named(paused.tables),
                paused_upkeep=self._list_tables_named(paused.upkeep),
            )
        self.events.append_event("service", self._state)

    def _list_tables_named(self, names: Collection[str]) -> tuple[TableName, ...]:
        return tuple(sorted(table for table in self._shared.models if str(table) in names))

    def set_error(self, part: str, message: str) -> None:
        with self._lock:
            errors = dict(self._state.errors)
            if errors.get(part, "") == message:
                return
            errors[part] = message
            self.change_state(errors={name: text for name, text in errors.items() if text})


def _update_refreshing(before: Refreshing, report: Report) -> Refreshing:
    """State of a model's refreshes after one has ended."""
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


def _refuse_spark() -> SparkSession:
    raise ConfigError("this can't be answered without Spark; submit it as a job")
