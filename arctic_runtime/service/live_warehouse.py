"""A service as HTTP, the page and metrics see it: its tables and jobs, and what users ask of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import Paused, ServiceTable
from arctic_runtime.effects import retried
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.ingestion import Failure
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer, Operation, OperationContext
from arctic_runtime.service.event_log import EventLog
from arctic_runtime.service.follower import Follower
from arctic_runtime.service.ingest_jobs import IngestJobs
from arctic_runtime.service.job_board import JobBoard
from arctic_runtime.service.live import Job, ServiceState, TableOverview, Upkeep
from arctic_runtime.service.observed_tables import ObservedTables
from arctic_runtime.service.overviews import IngestionRun, Refreshing, Shown, is_news, overviews, to_part_name
from arctic_runtime.service.schedules import Scheduled, schedule_part
from arctic_runtime.service.surroundings import Surroundings, named
from arctic_runtime.service.task import Report, Task
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.spark.engine.ended import spark_ended
from arctic_runtime.spark.engine.jobs import cancellable, describe_jobs
from arctic_runtime.spark.engine.messages import message_of
from arctic_runtime.spark.engine.session_pool import SessionPool, lent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OperableProject(Protocol):
    """The tables that operations take: of models, compiled, of ingested sources, and landing tables."""

    @property
    def name(self) -> str: ...

    def models(self) -> Sequence[Model]: ...


class LiveWarehouse:
    """What goes on in a warehouse, and what users ask for; the `LiveService` of `live.py`.

    It works whether the service leads or stands by: `follower` is None while it stands by.
    """

    def __init__(
        self,
        project: OperableProject,
        reader: CatalogReader,
        sessions: SessionPool,
        table: ServiceTable,
        around: Surroundings,
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
        self._around = around
        self._upkeep = upkeep
        self._board = board
        self._limits = reader.thresholds.service
        self._observed = ObservedTables(reader, around.heads)
        self._operations = ThreadPoolExecutor(self._limits.operations, "operation")
        self._lock = threading.RLock()
        self._refreshing: dict[TableName, Refreshing] = {}
        self._jobs_of: dict[TableName, str] = {}
        self._ingestions: dict[str, IngestionRun] = {}
        self.ingest_jobs = IngestJobs(board)
        self._tables: dict[TableName, TableOverview] = {}
        self._last_overviews: dict[TableName, TableOverview] = {}
        self._state = ServiceState(datetime.now(timezone.utc), version, project.name, "starting")

    def close(self) -> None:
        """Ends what users asked for: what runs comes to its end, and what waits is cancelled."""
        for job in self._board.jobs():
            if job.state == "waiting":
                self._board.cancel(job.number)
        self._operations.shutdown(wait=True)

    # What goes on

    def refresh_begins(self, task: Task) -> None:
        table = task.followed.table
        job = self._board.add("refresh", "refresh", (table,), state="running")
        with self._lock:
            self._jobs_of[table] = job.number
            self._refreshing[table] = replace(self._refreshing.get(table, Refreshing()), is_running=True)
        self._around.begin(table)

    def refresh_ended(self, report: Report) -> None:
        table = report.followed.table
        with self._lock:
            number = self._jobs_of.pop(table, None) if report.status != "skipped" else None
            self._refreshing[table] = _after(self._refreshing.get(table, Refreshing()), report)
        self._around.end(table)
        if number is not None:
            self._end_job(number, report)

    def begin_ingestion(self, source: str) -> None:
        """A source is ingested from now on; why that failed before stays until a batch has succeeded."""
        self._change_ingestion(source, is_running=True)

    def fail_ingestion(self, source: str, message: str, is_running: bool) -> None:
        """The source can't be read, or ingestion of it has ended by an error."""
        known = self._ingestions.get(source, IngestionRun()).failure
        since = known.since if known is not None else datetime.now(timezone.utc)
        self._change_ingestion(source, is_running=is_running, failure=Failure(message, since))
        self.set_error(to_part_name(source), message)
        if not is_running:
            self.ingest_jobs.close(source, message)

    def confirm_ingestion(self, source: str) -> None:
        """A batch of a source was published, or the source was found to have no more."""
        self._change_ingestion(source, failure=None)
        self.set_error(to_part_name(source), "")

    def end_ingestion(self, source: str) -> None:
        """A source is no longer ingested by this service."""
        self._change_ingestion(source, is_running=False)
        self.ingest_jobs.close(source)

    def _change_ingestion(self, source: str, **changed: Any) -> None:
        with self._lock:
            self._ingestions[source] = replace(self._ingestions.get(source, IngestionRun()), **changed)

    def _end_job(self, number: str, report: Report) -> None:
        if report.status in ("unchanged", "conflict"):
            self._board.forget(number)
        elif report.done is None:
            self._board.end(number, "failed", error=report.error)
        else:
            outcome = report.done.refreshed.outcome
            reason = f"{outcome.mode} ({outcome.reason})"
            self._board.end(number, "done", rows=dict(outcome.rows), reason=reason)

    # What is shown

    def observe(self) -> Collection[TableName]:
        """Looks at all tables, tells of those whose overview is another one, and returns those that moved.

        Raises CatalogError where the catalog does not answer.
        """
        models, reads = self._around.models, self._around.reads()
        scheduled = {of.table: of for of in self._around.scheduled if of.table not in models}
        others = {table for of in reads.values() for table in of} | scheduled.keys()
        others = others.union(*(of.reads for of in scheduled.values())) - models.keys()
        moved = self._observed.look(models, others)
        self._around.readable = self._observed.readable
        now = datetime.now(timezone.utc)
        with self._lock:
            refreshing = {table: self._with_times(table, of, now) for table, of in self._refreshing.items()}
            refreshing |= {table: self._run_of(of) for table, of in scheduled.items()}
        shown = Shown(
            now,
            reads,
            models,
            self._observed.tables,
            refreshing,
            dict(self._ingestions),
            self._upkeep.waste(),
            self._around.paused,
            self._limits.flow_seconds,
            scheduled,
            self._observed.readable,
            self._reader.thresholds.ingest.confirmed_seconds,
        )
        self._tables = {of.table: of for of in overviews(shown)}
        with self._lock:
            self._state = replace(self._state, looked_at=now)
        self._tell()
        return moved

    def _tell(self) -> None:
        """Tells of the tables that are others than they were told; that time passes alone, now and then."""
        self._last_overviews = {table: of for table, of in self._last_overviews.items() if table in self._tables}
        for table, overview in self._tables.items():
            if is_news(self._last_overviews.get(table), overview, self._limits.as_of_event_seconds):
                self._last_overviews[table] = overview
                self.events.add("table", overview)

    def _with_times(self, table: TableName, of: Refreshing, now: datetime) -> Refreshing:
        follower = self.follower
        if follower is None:
            return of
        left = follower.seconds_until_retry(table)
        retry_at = None if left is None else (of.retry_at or now + timedelta(seconds=left))
        return replace(of, retry_at=retry_at)

    def _run_of(self, of: Scheduled) -> Refreshing:
        """What is known of the runs of a model that dbt runs."""
        running = (job for job in self._board.jobs() if job.kind == "run" and job.state == "running")
        return Refreshing(
            any(of.table in job.tables for job in running), error=self._state.errors.get(schedule_part(of.name), "")
        )

    def state(self) -> ServiceState:
        return self._state

    def tables(self) -> Sequence[TableOverview]:
        return list(self._tables.values())

    def table(self, name: str) -> TableOverview | None:
        known = self._tables
        found = named(name, known)
        return known[found[0]] if len(found) == 1 else None

    def jobs(self) -> Sequence[Job]:
        return self._board.jobs()

    def job(self, number: str) -> Job | None:
        return self._board.job(number)

    def upkeep(self) -> Sequence[Upkeep]:
        return self._upkeep.planned()

    # What users ask for

    def ask(self, operation: Operation, tables: Sequence[str], given: Mapping[str, Any], plan: bool) -> Answer:
        values = operation.read(given)
        models = self._chosen(operation, tables)
        return operation.run(self._context(_no_spark), models, values, plan)

    def submit(self, operation: Operation, tables: Sequence[str], given: Mapping[str, Any]) -> Job:
        values = operation.read(given)
        models = self._chosen(operation, tables)
        job = self._board.add("operation", operation.name, [of.table for of in models], "asked for by a user")
        self._operations.submit(self._perform, job, operation, models, values)
        return job

    def _perform(self, job: Job, operation: Operation, models: Sequence[Model], values: Mapping[str, Any]) -> None:
        number = job.number
        if not self._board.begin(number):
            return
        try:
            with lent(self._sessions) as take, self._tagged(take, job, operation.needs_spark) as session:
                context = self._context(session, lambda line: self._board.say(number, line))
                answer = operation.run(context, models, values)
            self._board.end(number, "done", lines=answer.lines, answer=answer.data, differs=answer.differs)
        except Exception as error:
            self._board.end(number, "failed", error=message_of(spark_ended(error) or error))
        for model in models:
            self._upkeep.moved(model.table)

    @contextmanager
    def _tagged(
        self, take: Callable[[], SparkSession], job: Job, needs_spark: bool
    ) -> Iterator[Callable[[], SparkSession]]:
        if not needs_spark:
            yield take
            return
        spark = take()
        describe_jobs(spark, f"{job.name} {', '.join(map(str, job.tables))}")
        with cancellable(spark, f"arctic-{job.number}") as cancel:
            self._board.allow_cancel(job.number, cancel)
            yield take

    def refresh(self, tables: Sequence[str]) -> None:
        followed = {of.table for of in self._around.followed}
        wanted = followed if not tables else {self._around.named(name) for name in tables}
        if strange := wanted - followed:
            raise ConfigError(f"{', '.join(map(str, sorted(strange)))}: no model that this service refreshes")
        follower = self.follower
        if follower is None:
            raise ConfigError(f"this service stands by; {self._state.leader or 'another one'} leads")
        follower.hurry(wanted)

    def cancel(self, number: str) -> Job | None:
        return self._board.cancel(number)

    def pause(self, tables: Sequence[str], upkeep_only: bool) -> None:
        names = [str(self._around.named(name)) for name in tables]
        if upkeep_only and not names:
            names = [str(table) for table in self._around.models]
        self._change_paused(lambda paused: paused.paused(names, upkeep_only))

    def resume(self, tables: Sequence[str]) -> None:
        names = [str(self._around.named(name)) for name in tables]
        self._change_paused(lambda paused: paused.resumed(names))

    def _change_paused(self, change: Callable[[Paused], Paused]) -> None:
        attempts = self._reader.thresholds.commits.attempts
        self._around.paused = retried(lambda: self._table.change_paused(change), attempts)
        self.change_state()
        follower = self.follower
        if follower is not None:
            follower.wake()

    def _chosen(self, operation: Operation, names: Sequence[str]) -> Sequence[Model]:
        models = {of.table: of for of in self._project.models()}
        if not names and operation.tables != "one":
            return list(models.values())
        found = [models.get(self._around.named(name)) for name in names]
        if operation.tables == "one" and len(found) != 1:
            raise ConfigError(f"{operation.name} takes one table; found {len(found)}")
        return [of for of in found if of is not None]

    def _context(
        self, spark: Callable[[], SparkSession], progress: Callable[[str], None] = lambda _: None
    ) -> OperationContext:
        return OperationContext(self._reader, spark, tuple(self._project.models()), progress)

    # The state of the service

    def change_state(self, **changed: Any) -> None:
        with self._lock:
            paused = self._around.paused
            self._state = replace(
                self._state,
                **changed,
                is_paused=paused.everything,
                paused_tables=self._tables_named(paused.tables),
                paused_upkeep=self._tables_named(paused.upkeep),
            )
        self.events.add("service", self._state)

    def _tables_named(self, names: Collection[str]) -> tuple[TableName, ...]:
        return tuple(sorted(table for table in self._around.models if str(table) in names))

    def set_error(self, part: str, message: str) -> None:
        with self._lock:
            errors = dict(self._state.errors)
            if errors.get(part, "") == message:
                return
            errors[part] = message
            self.change_state(errors={name: text for name, text in errors.items() if text})


def _after(before: Refreshing, report: Report) -> Refreshing:
    """What is known of a model's refreshes after one has ended."""
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


def _no_spark() -> SparkSession:
    raise ConfigError("this can't be answered without Spark; submit it as a job")
