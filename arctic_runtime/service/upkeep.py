"""Upkeep of all tables under a budget: determines tables that need compaction or expiry, and performs it."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.upkeep import Maintained, UpkeepResult, find_due_upkeep, perform_upkeep
from arctic_runtime.plan.maintenance.upkeep import (
    Allowance,
    DueUpkeep,
    UpkeepBudget,
    UpkeepOperation,
    UpkeepState,
    schedule_upkeep,
)
from arctic_runtime.service.refreshing.model_records import compute_retry_pause
from arctic_runtime.service.shared_state import SYSTEM_CLOCK, Clock, Repeats, SharedState
from arctic_runtime.service.view.live_data import Upkeep
from arctic_runtime.spark.engine.jobs import describe_jobs, make_cancellable
from arctic_runtime.spark.engine.messages import get_error_details, get_message
from arctic_runtime.spark.engine.session_pool import SessionPool, lend_session
from arctic_runtime.spark.engine.spark_loss import to_spark_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

Key = tuple[TableName, UpkeepOperation]


@dataclass(frozen=True)
class _Known:
    """Due upkeep of a table; `first_waste` is the number of bytes that readers read in vain when it became due."""

    due: DueUpkeep
    first_waste: int


class UpkeepRunner:
    """Maintains the files of tables; its memory may be lost, since all lasting state is in the tables.

    `sessions` has a Spark session for each job. A table is skipped while a refresh is writing to it, or while its
    upkeep is paused.
    """

    def __init__(
        self, shared: SharedState, sessions: SessionPool, budget: UpkeepBudget, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._shared = shared
        self._sessions = sessions
        self._budget = budget
        self._clock = clock
        self._limits = shared.reader.thresholds.upkeep
        self._lock = threading.Lock()
        self._tables: dict[TableName, Maintained] = {}
        self._look_at: dict[TableName, float] = {}
        self._known: dict[Key, _Known] = {}
        self._waits: list[tuple[DueUpkeep, str]] = []
        self._repeats = Repeats()
        self._running: dict[TableName, Key] = {}
        now = clock.monotonic()
        groups: dict[str | None, int] = dict(budget.group_bytes_per_minute.items())
        groups |= {} if budget.bytes_per_minute is None else {None: budget.bytes_per_minute}
        self._allowances = {
            group: Allowance.build_full(most, self._limits.kept_minutes, now) for group, most in groups.items()
        }

    def set_tables(self, tables: Iterable[Maintained]) -> None:
        """Replaces the tables that are maintained; new tables are checked at once."""
        with self._lock:
            self._tables = {table.table: table for table in tables}
            self._known = {key: known for key, known in self._known.items() if key[0] in self._tables}
            self._look_at = {table: self._look_at.get(table, 0.0) for table in self._tables}

    def note_write(self, table: TableName) -> None:
        """Records that a table was written to, so that it is checked after a short delay."""
        with self._lock:
            if table in self._tables:
                self._look_at[table] = min(self._look_at[table], self._clock.monotonic() + self._limits.settle_seconds)

    def is_overdue(self, table: TableName) -> bool:
        """Whether so much compaction is due that the next refresh of the table should perform it.

        Refreshes then take longer while upkeep can't keep up, but reads stay fast. Always False in quiet hours.
        """
        with self._lock:
            known = self._known.get((table, "compact"))
        if known is None or any(hours.contain(self._clock.read_local()) for hours in self._budget.quiet_hours):
            return False
        return known.due.waste_bytes > self._limits.overdue_factor * max(1, known.first_waste)

    def list_planned(self) -> Sequence[Upkeep]:
        """Lists the due upkeep in the order in which it will be performed, each with the reason why it waits."""
        with self._lock:
            return [
                Upkeep(due.table, due.operation, due.reasons, due.bytes, due.waste_bytes, waits)
                for due, waits in self._waits
            ]

    def sum_waste(self) -> Mapping[TableName, int]:
        """Maps each table with due upkeep to the number of bytes that readers read in vain until it is performed."""
        waste_by_table: Counter[TableName] = Counter()
        with self._lock:
            for (table, _), known in self._known.items():
                waste_by_table[table] += known.due.waste_bytes
        return waste_by_table

    def run_until(self, over: threading.Event) -> None:
        """Determines and performs due upkeep until `over` is set; jobs that are running at that time are finished."""
        with ThreadPoolExecutor(self._budget.jobs, "upkeep") as workers:
            while not over.is_set():
                self.find_due(over)
                for due in self.begin_due():
                    workers.submit(self.perform_due, due)
                over.wait(self._limits.poll_seconds)

    # Checks for due upkeep

    def find_due(self, over: threading.Event | None = None) -> None:
        """Checks the tables whose next check is due, and records the upkeep that they need; needs no Spark.

        Stops between two tables when `over` is set.
        """
        now = self._clock.monotonic()
        with self._lock:
            wanted = [maintained for table, maintained in self._tables.items() if self._look_at[table] <= now]
        for maintained in wanted:
            if over is not None and over.is_set():
                return
            try:
                due_jobs = find_due_upkeep(maintained, self._shared.reader, now)
                self._repeats.clear_subject(maintained.table)
            except Exception as error:
                # One table must not keep the others from being checked; a later check of it may succeed.
                if self._repeats.is_new(maintained.table, str(error)):
                    LOG.warning("%s could not be looked at for upkeep: %s", maintained.table, error)
                due_jobs = []
            with self._lock:
                self._look_at[maintained.table] = self._clock.monotonic() + self._limits.look_seconds
                self._note_due(maintained.table, due_jobs)

    def _note_due(self, table: TableName, due_jobs: Sequence[DueUpkeep]) -> None:
        """Replaces the known due upkeep of a table; upkeep that stays due keeps its start, failures and retry time."""
        before = {key: self._known.pop(key) for key in [key for key in self._known if key[0] == table]}
        for due in due_jobs:
            key: Key = (table, due.operation)
            old = before.get(key)
            if old is None:
                self._known[key] = _Known(due, due.waste_bytes)
            else:
                merged = replace(due, since=old.due.since, failures=old.due.failures, retry_at=old.due.retry_at)
                self._known[key] = _Known(merged, old.first_waste)

    # Performing due upkeep

    def begin_due(self) -> list[DueUpkeep]:
        """Chooses the upkeep that may begin at present, marks it as running, and returns it."""
        busy, now = self._shared.list_busy_tables(), self._clock.monotonic()
        with self._lock:
            state = UpkeepState(
                now,
                self._clock.read_local(),
                busy,
                tuple(self._running),
                [table for table in self._tables if self._shared.is_upkeep_paused(table)],
                self._allowances,
            )
            due = [known.due for key, known in self._known.items() if key not in self._running.values()]
            self._waits = list(schedule_upkeep(due, state, self._budget, self._limits))
            begun = [due_job for due_job, waits in self._waits if not waits]
            for due_job in begun:
                self._running[due_job.table] = (due_job.table, due_job.operation)
                for group in (None, due_job.table.schema):
                    if group in self._allowances:
                        self._allowances[group] = self._allowances[group].accrue_until(now).spend_bytes(due_job.bytes)
        return begun

    def perform_due(self, due: DueUpkeep) -> None:
        """Performs upkeep that `begin_due` returned; if it fails, it is due again after a pause."""
        table = self._tables.get(due.table)
        job = self._shared.jobs.add_job("upkeep", due.operation, (due.table,), "; ".join(due.reasons), "running")
        try:
            if table is not None:
                done = self._perform_job(table, due, job.number)
                self._shared.jobs.end_job(job.number, "done", lines=done.lines, bytes=done.bytes)
            else:
                self._shared.jobs.discard_job(job.number)
        except CommitConflict as conflict:
            self._failed(due)
            message = f"writers were faster: {conflict}"
            self._shared.jobs.end_job(job.number, "failed", error=message, error_details=conflict.details)
        except Exception as error:
            self._failed(due)
            cause = to_spark_ended(error) or error
            details = get_error_details(cause)
            self._shared.jobs.end_job(job.number, "failed", error=get_message(cause), error_details=details)
        else:
            self._succeeded(due)
        finally:
            with self._lock:
                self._running.pop(due.table, None)

    def _perform_job(self, table: Maintained, due: DueUpkeep, number: str) -> UpkeepResult:
        with lend_session(self._sessions) as take:

            def open_session() -> SparkSession:
                spark = take()
                describe_jobs(spark, f"{due.operation} {due.table}")
                return spark

            with make_cancellable(open_session(), f"arctic-{number}") as cancel:
                self._shared.jobs.allow_cancel(number, cancel)
                most = max(due.bytes, 1) if self._allowances else math.inf
                report = partial(self._shared.jobs.report_progress, number)
                context = OperationContext(self._shared.reader, open_session, table.models, report)
                return perform_upkeep(table, due.operation, context, most)

    def _succeeded(self, due: DueUpkeep) -> None:
        with self._lock:
            self._known.pop((due.table, due.operation), None)
            if due.table in self._look_at:
                self._look_at[due.table] = 0.0

    def _failed(self, due: DueUpkeep) -> None:
        with self._lock:
            key: Key = (due.table, due.operation)
            known = self._known.get(key)
            if known is not None:
                failures = known.due.failures + 1
                retry_at = self._clock.monotonic() + compute_retry_pause(failures, self._limits)
                failed = replace(known.due, failures=failures, retry_at=retry_at)
                self._known[key] = replace(known, due=failed)
