"""Upkeep of all tables under a budget: looks at those that were written to, and does what is due in order."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.upkeep import Done, Maintained, due_upkeep, perform_upkeep
from arctic_runtime.plan.upkeep import Allowance, DueUpkeep, UpkeepBudget, UpkeepOperation, UpkeepState, scheduled
from arctic_runtime.service.job_board import JobBoard
from arctic_runtime.service.live import Upkeep
from arctic_runtime.service.records import pause_after
from arctic_runtime.service.repeats import Repeats
from arctic_runtime.spark.engine.ended import spark_ended
from arctic_runtime.spark.engine.jobs import cancellable, describe_jobs
from arctic_runtime.spark.engine.messages import message_of
from arctic_runtime.spark.engine.session_pool import SessionPool, lent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = logging.getLogger(__name__)

Key = tuple[TableName, UpkeepOperation]


class Others(Protocol):
    """What else goes on: which tables are being written now, and which users paused."""

    def busy(self) -> Collection[TableName]: ...

    def is_upkeep_paused(self, table: TableName) -> bool: ...


class Nobody:
    """Nothing else goes on."""

    def busy(self) -> Collection[TableName]:
        return ()

    def is_upkeep_paused(self, _: TableName) -> bool:
        return False


@dataclass(frozen=True)
class _Known:
    """What is due of a table, and what its readers paid when it was first seen to be due."""

    due: DueUpkeep
    first_waste: int


class UpkeepRunner:
    """Keeps tables up; all that is known here may be lost, since the tables hold the state.

    `sessions` lends a Spark session for each job. Jobs stand on the `board`.
    """

    def __init__(
        self,
        reader: CatalogReader,
        sessions: SessionPool,
        budget: UpkeepBudget,
        board: JobBoard,
        others: Others | None = None,
        clock: Callable[[], float] = time.monotonic,
        local: Callable[[], datetime] = datetime.now,
    ) -> None:
        self._reader = reader
        self._sessions = sessions
        self._budget = budget
        self._board = board
        self._others = others or Nobody()
        self._clock = clock
        self._local = local
        self._limits = reader.thresholds.upkeep
        self._lock = threading.Lock()
        self._tables: dict[TableName, Maintained] = {}
        self._look_at: dict[TableName, float] = {}
        self._known: dict[Key, _Known] = {}
        self._waits: list[tuple[DueUpkeep, str]] = []
        self._repeats = Repeats()
        self._running: dict[TableName, Key] = {}
        now = clock()
        groups: dict[str | None, int] = dict(budget.group_bytes_per_minute.items())
        groups |= {} if budget.bytes_per_minute is None else {None: budget.bytes_per_minute}
        self._allowances = {
            group: Allowance.full(most, self._limits.kept_minutes, now) for group, most in groups.items()
        }

    def maintain(self, tables: Iterable[Maintained]) -> None:
        """Keeps these tables up from now on, and no others; each is looked at once."""
        with self._lock:
            self._tables = {of.table: of for of in tables}
            self._known = {key: known for key, known in self._known.items() if key[0] in self._tables}
            self._look_at = {of: self._look_at.get(of, 0.0) for of in self._tables}

    def moved(self, table: TableName) -> None:
        """Somebody wrote to a table: it is looked at soon, and not more often than now and then."""
        with self._lock:
            if table in self._tables:
                self._look_at[table] = min(self._look_at[table], self._clock() + self._limits.settle_seconds)

    def is_overdue(self, table: TableName) -> bool:
        """Whether so much has come together that the table's writer had better do its upkeep itself.

        So passes take longer where upkeep can't keep up, and reading stays as fast as it is. Not in quiet hours.
        """
        with self._lock:
            known = self._known.get((table, "compact"))
        if known is None or any(hours.contain(self._local()) for hours in self._budget.quiet_hours):
            return False
        return known.due.waste_bytes > self._limits.overdue_factor * max(1, known.first_waste)

    def planned(self) -> Sequence[Upkeep]:
        """What is due, what comes next first, and why it waits."""
        with self._lock:
            return [
                Upkeep(of.table, of.operation, of.reasons, of.bytes, of.waste_bytes, waits) for of, waits in self._waits
            ]

    def waste(self) -> Mapping[TableName, int]:
        """What readers of each table with something due pay until it is done, in bytes."""
        found: Counter[TableName] = Counter()
        with self._lock:
            for (table, _), known in self._known.items():
                found[table] += known.due.waste_bytes
        return found

    def run(self, over: threading.Event) -> None:
        """Looks, and does what is due, until it is over; then the jobs under way come to their end."""
        with ThreadPoolExecutor(self._budget.jobs, "upkeep") as workers:
            while not over.is_set():
                self.look(over)
                for due in self.begin():
                    workers.submit(self.perform, due)
                over.wait(self._limits.poll_seconds)

    # Looking

    def look(self, over: threading.Event | None = None) -> None:
        """Finds what is due of the tables whose time has come; without Spark."""
        now = self._clock()
        with self._lock:
            wanted = [of for table, of in self._tables.items() if self._look_at[table] <= now]
        for of in wanted:
            if over is not None and over.is_set():
                return
            try:
                found = due_upkeep(of, self._reader, now)
                self._repeats.clear(of.table)
            except Exception as error:
                # One table must not keep the others from being looked at; a later look may find it well again.
                if self._repeats.is_new(of.table, str(error)):
                    LOG.warning("%s could not be looked at for upkeep: %s", of.table, error)
                found = []
            with self._lock:
                self._look_at[of.table] = self._clock() + self._limits.look_seconds
                self._note(of.table, found)

    def _note(self, table: TableName, found: Sequence[DueUpkeep]) -> None:
        """What is due of a table now; since when, and what failed, is kept of what was due before."""
        before = {key: self._known.pop(key) for key in [key for key in self._known if key[0] == table]}
        for due in found:
            key: Key = (table, due.operation)
            old = before.get(key)
            if old is None:
                self._known[key] = _Known(due, due.waste_bytes)
            else:
                kept = replace(due, since=old.due.since, failures=old.due.failures, retry_at=old.due.retry_at)
                self._known[key] = _Known(kept, old.first_waste)

    # Doing

    def begin(self) -> list[DueUpkeep]:
        """What may begin now; it counts as running from here on."""
        busy, now = self._others.busy(), self._clock()
        with self._lock:
            state = UpkeepState(
                now,
                self._local(),
                busy,
                tuple(self._running),
                [table for table in self._tables if self._others.is_upkeep_paused(table)],
                self._allowances,
            )
            due = [known.due for key, known in self._known.items() if key not in self._running.values()]
            self._waits = list(scheduled(due, state, self._budget, self._limits))
            begun = [of for of, waits in self._waits if not waits]
            for of in begun:
                self._running[of.table] = (of.table, of.operation)
                for group in (None, of.table.schema):
                    if group in self._allowances:
                        self._allowances[group] = self._allowances[group].later(now).spent(of.bytes)
        return begun

    def perform(self, due: DueUpkeep) -> None:
        """Does what `begin` gave out; what fails is due again after a pause."""
        of = self._tables.get(due.table)
        job = self._board.add("upkeep", due.operation, (due.table,), "; ".join(due.reasons), "running")
        try:
            if of is not None:
                done = self._perform(of, due, job.number)
                self._board.end(job.number, "done", lines=done.lines, bytes=done.bytes)
            else:
                self._board.forget(job.number)
        except CommitConflict as conflict:
            self._failed(due)
            self._board.end(job.number, "failed", error=f"writers were faster: {conflict}")
        except Exception as error:
            self._failed(due)
            self._board.end(job.number, "failed", error=message_of(spark_ended(error) or error))
        else:
            self._succeeded(due)
        finally:
            with self._lock:
                self._running.pop(due.table, None)

    def _perform(self, of: Maintained, due: DueUpkeep, number: str) -> Done:
        with lent(self._sessions) as take:

            def session() -> SparkSession:
                spark = take()
                describe_jobs(spark, f"{due.operation} {due.table}")
                return spark

            with cancellable(session(), f"arctic-{number}") as cancel:
                self._board.allow_cancel(number, cancel)
                most = max(due.bytes, 1) if self._allowances else math.inf
                return perform_upkeep(
                    of, due.operation, self._reader, session, lambda line: self._board.say(number, line), most
                )

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
                retry_at = self._clock() + pause_after(failures, self._limits)
                failed = replace(known.due, failures=failures, retry_at=retry_at)
                self._known[key] = replace(known, due=failed)
