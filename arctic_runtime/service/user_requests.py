"""Requests of users to a service: operations on tables, immediate refreshes, and pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.change_rows.read import ChangeRows
from arctic_runtime.catalog.lookup import read_sample_rows
from arctic_runtime.catalog.service_table import Paused
from arctic_runtime.catalog.table_samples import TableSamples
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import read_status
from arctic_runtime.operations.looking import CHANGES, open_changes
from arctic_runtime.operations.masks import build_mask
from arctic_runtime.operations.operation import Answer, Audit, Operation, OperationContext, audit_nothing
from arctic_runtime.operations.queries import QueryAnswer, TooManyQueries, answer_limited_query
from arctic_runtime.service.activity import Activity
from arctic_runtime.service.described_tables import read_table_details
from arctic_runtime.service.project import ServedProject
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.service.view.live_data import Job, JobState
from arctic_runtime.service.view.table_details import (
    TableDetails,
    TableRows,
    TableTrend,
    build_table_rows,
    build_table_trend,
)
from arctic_runtime.spark.engine.jobs import describe_jobs, make_cancellable
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.session_pool import lend_session
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class UserRequests:
    """Implements `Requests` for a live service; operations and pauses work even while another service leads."""

    def __init__(
        self, project: ServedProject, warehouse: ServiceWarehouse, activity: Activity, upkeep: UpkeepRunner
    ) -> None:
        self._project = project
        self._warehouse = warehouse
        self._activity = activity
        self._upkeep = upkeep
        self._shared = activity.shared
        self._jobs = activity.shared.jobs
        self._limits = warehouse.reader.thresholds.service
        self._threads = ThreadPoolExecutor(self._limits.operations, "operation")
        self._operations: dict[str, Future[None]] = {}
        self._queries = threading.BoundedSemaphore(warehouse.reader.thresholds.queries.parallel)

    def close_operations(self) -> None:
        """Cancels all operations, and waits until the running ones have ended.

        An operation that goes on after its Spark jobs were cancelled, since it starts others, is cancelled again.
        """
        self._threads.shutdown(wait=False)
        while operations := dict(self._operations):
            for number in operations:
                self._jobs.cancel_job(number, "cancelled, since the service ends")
            wait(operations.values(), self._limits.cancel_seconds)

    # Operations

    def answer_operation(
        self,
        operation: Operation,
        tables: Sequence[str],
        given_arguments: Mapping[str, Any],
        plan: bool,
        audit: Audit = audit_nothing,
        hides_values: bool = False,
    ) -> Answer:
        values = operation.read_values(given_arguments)
        models = self._choose_models(operation, tables)
        is_with_spark = plan and operation.plan_needs_spark
        with lend_session(self._warehouse.sessions) if is_with_spark else nullcontext(_refuse_spark) as session:
            context = replace(self._build_context(session), audit=audit, hides_values=hides_values)
            return operation.run_operation(context, models, values, plan)

    def answer_query(self, query: str, limit: int | None, audit: Audit) -> QueryAnswer:
        if not self._queries.acquire(blocking=False):
            raise TooManyQueries(self._warehouse.reader.thresholds.queries.parallel)
        try:
            # A user of the service has no access to the stores of its own, so no other tables may be read for one.
            lookup = replace(self._project.build_lookup(), stays_in_project=True)
            return answer_limited_query(query, lookup, limit, audit)
        finally:
            self._queries.release()

    def describe_table(self, table: TableName) -> TableDetails:
        reader, shared = self._warehouse.reader, self._shared
        docs, model = self._project.describe_table(table), shared.models.get(table)
        parts = (replace(known, model=part) for known in shared.followed for part in known.model.parts)
        followed = next((part for part in parts if part.table == table), None)
        return read_table_details(reader, table, docs, model, followed)

    def read_trend(self, table: TableName) -> TableTrend:
        reader = self._warehouse.reader
        since = datetime.now(timezone.utc) - timedelta(days=reader.thresholds.service.sample_days)
        samples = TableSamples(self._warehouse.service_table.table, reader)
        return build_table_trend(table, samples.read_samples(since, str(table)))

    def read_rows(self, table: TableName, max_rows: int) -> TableRows:
        reader, model = self._warehouse.reader, self._shared.models.get(table)
        limits = reader.thresholds.service
        rows = read_sample_rows(reader, table if model is None else model.base, min(max_rows, limits.sample_rows))
        mask = build_mask(self._project.describe_table(table).masks)
        unmerged = 0 if model is None else read_status(reader, model, ()).unmerged_rows
        return build_table_rows(table, rows, mask, limits.sample_value_characters, unmerged)

    def open_changes(self, table: str, start: str | None, end: str | None) -> ChangeRows:
        models = self._choose_models(CHANGES, [table])
        CHANGES.check_keys(models)
        return open_changes(self._warehouse.reader, models[0], start, end)

    def submit_operation(
        self,
        operation: Operation,
        tables: Sequence[str],
        given_arguments: Mapping[str, Any],
        audit: Audit = audit_nothing,
        hides_values: bool = False,
    ) -> Job:
        values = operation.read_values(given_arguments)
        models = self._choose_models(operation, tables)
        job = self._jobs.add_job("operation", operation.name, [model.table for model in models], "asked for by a user")
        try:
            done = self._threads.submit(self._perform_operation, job, operation, models, values, audit, hides_values)
        except RuntimeError as error:
            self._jobs.cancel_job(job.number)
            raise ConfigError("this service ends, and starts nothing more.", fix="ask the next one") from error
        self._operations[job.number] = done
        done.add_done_callback(lambda _: self._operations.pop(job.number, None))
        return job

    def cancel_job(self, number: str) -> Job | None:
        return self._jobs.cancel_job(number)

    def _perform_operation(
        self,
        job: Job,
        operation: Operation,
        models: Sequence[Model],
        values: Mapping[str, Any],
        audit: Audit,
        hides_values: bool,
    ) -> None:
        number, cancelled = job.number, threading.Event()
        if not self._jobs.begin_job(number):
            return
        self._jobs.allow_cancel(number, cancelled.set)
        try:
            with (
                lend_session(self._warehouse.sessions) as take,
                self._tag_spark_jobs(take, job, operation.needs_spark, cancelled) as session,
            ):
                context = self._build_context(session, partial(self._report_progress, job, cancelled))
                context = replace(context, audit=audit, hides_values=hides_values)
                answer = operation.run_operation(context, models, values)
            self._jobs.end_job(number, "done", lines=answer.lines, answer=answer.data, differs=answer.differs)
        except Exception as error:
            cause = to_spark_ended(error) or error
            details = get_error_details(cause)
            state: JobState = "cancelled" if cancelled.is_set() else "failed"
            self._jobs.end_job(number, state, error=get_message(cause), error_details=details)
        for model in models:
            self._upkeep.note_write(model.table)

    def _report_progress(self, job: Job, cancelled: threading.Event, line: str) -> None:
        """Adds a line of progress to a job; raises ArcticError if the job was cancelled, which ends the operation."""
        if cancelled.is_set():
            raise ArcticError(f"{job.name} was cancelled.", fix=f"run it again; it was about to say: {line}")
        self._jobs.report_progress(job.number, line)

    @contextmanager
    def _tag_spark_jobs(
        self, take: Callable[[], SparkSession], job: Job, needs_spark: bool, cancelled: threading.Event
    ) -> Iterator[Callable[[], SparkSession]]:
        if not needs_spark:
            yield take
            return
        spark = take()
        describe_jobs(spark, f"{job.name} {', '.join(map(str, job.tables))}")
        with make_cancellable(spark, f"arctic-{job.number}") as cancel:

            def cancel_jobs() -> None:
                cancelled.set()
                cancel()

            self._jobs.allow_cancel(job.number, cancel_jobs)
            yield take

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
        project = self._project
        return OperationContext(
            self._warehouse.reader,
            spark,
            tuple(project.list_models()),
            progress,
            list_descendants=project.list_descendants,
            answer_query=self.answer_query,
        )

    # Refreshes and pauses

    def refresh_tables(self, tables: Sequence[str]) -> None:
        refreshed_with = {part.table: known.table for known in self._shared.followed for part in known.model.parts}
        wanted = set(refreshed_with) if not tables else {self._shared.find_table(name) for name in tables}
        if strange := wanted - refreshed_with.keys():
            raise ConfigError(f"{', '.join(map(str, sorted(strange)))}: no model that this service refreshes")
        follower = self._activity.follower
        if follower is None:
            raise ConfigError(f"this service stands by; {self._shared.get_state().leader or 'another one'} leads")
        follower.refresh_soon({refreshed_with[table] for table in wanted})

    def pause_tables(self, tables: Sequence[str], upkeep_only: bool) -> None:
        names = [str(self._shared.find_table(name)) for name in tables]
        if upkeep_only and not names:
            names = [str(table) for table in self._shared.models]
        self._change_paused(lambda paused: paused.pause(names, upkeep_only))

    def resume_tables(self, tables: Sequence[str]) -> None:
        names = [str(self._shared.find_table(name)) for name in tables]
        self._change_paused(lambda paused: paused.resume(names))

    def _change_paused(self, change: Callable[[Paused], Paused]) -> None:
        table, attempts = self._warehouse.service_table, self._warehouse.reader.thresholds.commits.attempts
        self._shared.paused = retry_on_conflict(lambda: table.change_paused(change), attempts)
        self._shared.change_state()
        self._activity.wake_follower()


def _refuse_spark() -> SparkSession:
    raise ConfigError("this can't be answered without Spark; submit it as a job")
