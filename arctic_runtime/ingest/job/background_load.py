"""Loads tables in the background and keeps them up to date, until the source's stream includes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from arctic_runtime.ingest.job.batch_writer import BatchWriter
from arctic_runtime.ingest.source import IngestionEnded
from arctic_runtime.ingest.transports.transport import Batch, TableLoad
from arctic_runtime.ingest.writing.records import TableResult, WriteMode


@dataclass(frozen=True)
class LoadListeners:
    """Callbacks of a load.

    `begin` is called with a batch before it is written, and with the number of tables of the load. `report` is called
    after the batch is written, with the results and the seconds that this took. `due` is called when the stream should
    take over the tables, or when the load failed.
    """

    begin: Callable[[Batch, int], None]
    report: Callable[[tuple[TableResult, ...], Batch, float], None]
    due: Callable[[], None]


class LoadState(Enum):
    """State of a load; it only moves on, in this order, and may leave out states."""

    LOADING = 1
    DUE = 2
    """The stream should take over the tables, or the load failed."""

    FINISHING = 3
    """The stream is closed, and waits for what the load still lacks."""

    STOPPED = 4


class BackgroundLoad:
    """Loads some tables of a source in a thread, and then applies changes until the source's stream includes them.

    The rows of the snapshot are collected, and published together when the snapshot is complete. Then the changes are
    published as they arrive. When the stream takes over the tables, there must be no gap between its position and that
    of the load: the stream is closed, and the load continues until it is past the stream's position. The tables belong
    to the stream only when that is saved in its progress, so if the process dies before, the next process loads them
    again. A table that has to wait is left out, and its result is in `results_of_waiting`. `near` is the delay behind
    the source, in seconds, at which the stream can take over.
    """

    def __init__(self, load: TableLoad, writer: BatchWriter, listeners: LoadListeners, near: float) -> None:
        self.tables = frozenset(writer.tables)
        self.results_of_waiting: list[TableResult] = []
        self._load = load
        self._writer = writer
        self._listeners = listeners
        self._near = near
        self._age: float | None = None
        self._state = LoadState.LOADING
        self._lock = threading.Lock()
        self._work: Future[Batch | None] | None = None

    @property
    def is_due(self) -> bool:
        """Whether the stream has to end, so that the load can be finished."""
        return self._state is not LoadState.LOADING

    def start_load(self, pool: Executor) -> None:
        self._work = pool.submit(self._run_load)

    def finish_load(self) -> Batch | None:
        """Waits until the tables have everything that was committed at the source before this call.

        Returns the last batch; None if the load was stopped. Raises the error of the load if it failed.
        """
        assert self._work is not None
        self._move_to(LoadState.FINISHING)
        self._load.finish_load()
        return self._work.result()

    def stop_load(self) -> None:
        """Stops the load after the current batch."""
        self._move_to(LoadState.STOPPED)
        self._load.close_source()

    def _run_load(self) -> Batch | None:
        try:
            last = self._write_batches()
            if not self._writer.tables:  # None of them can be read.
                self._set_due()
            elif self._state in (LoadState.LOADING, LoadState.DUE):
                tables = ", ".join(sorted(self.tables))
                raise IngestionEnded(f"the load of {tables} ended before the stream had its tables.")
        except BaseException:
            self._set_due()
            raise
        return None if self._state is LoadState.STOPPED else last

    def _write_batches(self) -> Batch | None:
        last: Batch | None = None
        newest = self._begin_snapshot()
        with closing(self._load.read_batches()) as batches:
            for batch in batches:
                started = time.monotonic()
                self._listeners.begin(batch, len(self.tables))
                if batch.is_rewound:
                    self._exclude_waiting_tables(self._writer.collect_batch(batch))
                    self._listeners.report((), batch, 0.0)
                    newest, last = self._begin_snapshot(), None
                    continue
                results = self._write_batch(batch, last is None, newest)
                self._exclude_waiting_tables(results)
                last = last if batch.is_snapshot else batch
                self._load.acknowledge_batch(batch)
                self._listeners.report(results, batch, time.monotonic() - started)
                if self._state is LoadState.STOPPED:
                    break
                self._request_takeover_if_due(batch)
        return last

    def _begin_snapshot(self) -> int:
        """Drops rows collected for an earlier snapshot; returns the number of the newest dead letter.

        Dead letters up to this number are dropped when the snapshot is published, since its rows replace them.
        """
        self._writer.begin_snapshot()
        self._age = None
        return self._writer.dead_letters.find_newest_number()

    def _write_batch(self, batch: Batch, is_snapshot: bool, newest: int) -> tuple[TableResult, ...]:
        if not is_snapshot:
            return self._writer.write_batch(batch, WriteMode(self._load.select_after))
        results = self._writer.collect_batch(batch)
        if not batch.is_snapshot:
            writer = self._writer.leave_out(results)
            writer.dead_letters.drop_dead_letters(writer.tables, newest)
            results += writer.end_snapshot(batch.position)
        return results

    def _exclude_waiting_tables(self, results: tuple[TableResult, ...]) -> None:
        """Removes from the load the tables of `results` that have to wait; keeps their results for the end."""
        self.results_of_waiting += [result for result in results if result.wait]
        self._writer = self._writer.leave_out(results)

    def _request_takeover_if_due(self, batch: Batch) -> None:
        """Requests that the stream takes over the tables if the load is near the source's end, or hardly comes nearer.

        In the latter case, the stream has to wait for the events that the load still lacks.
        """
        if batch.caught_up is None or self._state is not LoadState.LOADING:
            return
        age = (datetime.now(timezone.utc) - batch.caught_up).total_seconds()
        if age <= self._near or (self._age is not None and age > self._age / 2):
            self._set_due()
        self._age = age

    def _set_due(self) -> None:
        if self._move_to(LoadState.DUE):
            self._listeners.due()

    def _move_to(self, state: LoadState) -> bool:
        """Moves on to a later state; returns False, and changes nothing, if the load has come as far already."""
        with self._lock:
            if state.value <= self._state.value:
                return False
            self._state = state
            return True
