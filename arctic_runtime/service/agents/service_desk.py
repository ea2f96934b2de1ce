"""Answers agents for a live service: at once, or, if an operation needs Spark, by a job of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from arctic_runtime.errors import ArcticError, ConfigError, suggest_nearest
from arctic_runtime.operations.arguments import read_count, read_text
from arctic_runtime.operations.operation import Answer, Argument, Audit, Operation, OperationContext, Values
from arctic_runtime.service.agents.questions import SQL
from arctic_runtime.service.view.live_data import Job, LiveService
from arctic_runtime.service.view.table_details import TableDetails
from arctic_runtime.thresholds import AgentThresholds


class ServiceDesk:
    """Implements `AgentWarehouse` for a live service; `answers_sql` says whether agents may ask it in SQL."""

    takes_files = False

    def __init__(self, service: LiveService, thresholds: AgentThresholds, answers_sql: bool) -> None:
        self._service = service
        self._thresholds = thresholds
        self._answers_sql = answers_sql
        self._own_jobs: set[str] = set()

    @property
    def questions(self) -> tuple[Operation, ...]:
        jobs = Operation(
            "jobs",
            "the work of the service, newest first: what waits, runs or has ended, and the answers of your jobs",
            "any",
            self._list_jobs,
            needs_spark=False,
            changes=False,
            arguments=(
                Argument("number", "only the job of this number, with its answer", read_text),
                Argument("limit", "at most so many jobs", read_count, "integer"),
            ),
        )
        return (jobs, SQL) if self._answers_sql else (jobs,)

    def answer_operation(
        self, operation: Operation, names: Sequence[str], arguments: Mapping[str, Any], plan: bool, audit: Audit
    ) -> tuple[tuple[str, ...], Answer]:
        tables = tuple(self._find_table(name) for name in names)
        return tables, self._answer(operation, tables, arguments, plan, audit)

    def _answer(
        self, operation: Operation, tables: Sequence[str], arguments: Mapping[str, Any], plan: bool, audit: Audit
    ) -> Answer:
        requests = self._service.requests
        if plan or not operation.needs_spark:
            return requests.answer_operation(operation, tables, arguments, plan, audit, hides_values=True)
        job = requests.submit_operation(operation, tables, arguments, audit, hides_values=True)
        self._own_jobs.intersection_update(other.number for other in self._service.list_jobs())
        self._own_jobs.add(job.number)
        return self._wait_for_job(job)

    def describe_table(self, table: str) -> TableDetails:
        overview = self._service.find_table(self._find_table(table))
        assert overview is not None
        return self._service.requests.describe_table(overview.table)

    def _find_table(self, name: str) -> str:
        overview = self._service.find_table(name)
        if overview is None:
            known = [str(table.table) for table in self._service.list_tables()]
            raise ConfigError(
                f"There is no table {name!r}{suggest_nearest(name, known)}.",
                expected="a table of the project, with its schema if several have the name",
                fix="the tool `tables` lists all",
            )
        return str(overview.table)

    def _wait_for_job(self, job: Job) -> Answer:
        """Waits for a job, and returns its answer; for one that takes long, how to ask for it."""
        over = time.monotonic() + self._thresholds.wait_seconds
        pause = threading.Event()
        while time.monotonic() < over:
            known = self._service.find_job(job.number)
            if known is not None and known.state not in ("waiting", "running"):
                return _read_answer(known)
            pause.wait(self._thresholds.poll_seconds)
        line = f"job {job.number} goes on: ask the tool `jobs` for its number until its state is done"
        return Answer({"job": job.number, "state": "running"}, (line,))

    def _list_jobs(self, _: OperationContext, __: Sequence[Any], values: Values) -> Answer:
        jobs = [job for job in self._service.list_jobs() if values["number"] in (None, job.number)]
        if values["number"] is not None and len(jobs) == 1 and jobs[0].number in self._own_jobs:
            return Answer([{**_describe_job(jobs[0]), "answer": jobs[0].answer, "lines": list(jobs[0].lines)}], ())
        return Answer([_describe_job(job) for job in jobs[: values["limit"]]], ())


def _describe_job(job: Job) -> dict[str, Any]:
    """Describes a job without the rows that it may have shown to somebody else, also in examples of an error."""
    shown = {name: value for name, value in asdict(job).items() if name not in ("answer", "lines", "error_details")}
    return {**shown, "tables": [str(table) for table in job.tables], "error": job.error.partition("\n")[0]}


def _read_answer(job: Job) -> Answer:
    """Returns the answer of a job that has ended; raises ArcticError if it failed."""
    if job.state == "done":
        return Answer(job.answer, job.lines, job.differs)
    raise ArcticError(job.error.partition("\n")[0] or f"job {job.number} was {job.state}", **job.error_details)
