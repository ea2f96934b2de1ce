"""Tables are loaded beside the stream of their source, and kept up until the stream takes them on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import closing
from datetime import datetime, timezone

from arctic_runtime.ingest.transports.transport import Batch, TableLoad
from arctic_runtime.ingest.writing.batch_writer import BatchWriter
from arctic_runtime.ingest.writing.table_writer import Written

Report = Callable[[tuple[Written, ...], Batch, float], None]
"""Gets what became of a batch, and how many seconds that took."""


class Loading:
    """One load of some tables, in a thread.

    The rows of a snapshot are collected, and published when all are there; then changes are, as they come. The stream
    takes the tables on from where its own position and that of the load are known to be without a gap: it is closed,
    and the load goes on until it is past that. Until this is noted the tables do not belong to the stream, so a process
    that dies is followed by one that loads them anew. `due` is called when it is time for that, or the load failed, and
    `begin` gets each batch before it is written.
    """

    def __init__(
        self,
        load: TableLoad,
        writer: BatchWriter,
        report: Report,
        due: Callable[[], None],
        near: float,
        begin: Callable[[Batch], None] = lambda _: None,
    ) -> None:
        self.tables = frozenset(writer.tables)
        self.is_due = False
        self._load = load
        self._writer = writer
        self._report = report
        self._begin = begin
        self._due = due
        self._near = near
        self._age: float | None = None
        self._finishing = threading.Event()
        self._stopping = threading.Event()
        self._work: Future[Batch | None] | None = None

    def start(self, pool: Executor) -> None:
        self._work = pool.submit(self._perform)

    def finish(self) -> Batch | None:
        """Waits until the tables have all that was committed at their source before this; the last batch of the load.

        None where it was stopped. Raises what the load raised.
        """
        assert self._work is not None
        self._finishing.set()
        self._load.finish()
        return self._work.result()

    def close(self) -> None:
        """Ends the load after the batch under way."""
        self._stopping.set()
        self._load.close()

    def _perform(self) -> Batch | None:
        try:
            last = self._batches()
        except BaseException:
            self._is_due_now()
            raise
        return None if self._stopping.is_set() else last

    def _batches(self) -> Batch | None:
        last: Batch | None = None
        letters = self._begun()
        with closing(self._load.batches()) as batches:
            for batch in batches:
                started = time.monotonic()
                self._begin(batch)
                if batch.comes_again:
                    self._report((), batch, 0.0)
                    letters, last = self._begun(), None
                    continue
                written = self._written(batch, last is None, letters)
                last = last if batch.is_snapshot else batch
                self._load.acknowledge(batch)
                self._report(written, batch, time.monotonic() - started)
                if self._stopping.is_set():
                    break
                self._look(batch)
        return last

    def _begun(self) -> int:
        """Begins the load; the number up to which there are dead letters, which the snapshot will make up for."""
        self._writer.begin_snapshot()
        self._age = None
        return self._writer.ledger.newest()

    def _written(self, batch: Batch, is_snapshot: bool, letters: int) -> tuple[Written, ...]:
        if not is_snapshot:
            return self._writer.write(batch, self._load.after)
        written = self._writer.collect(batch)
        if not batch.is_snapshot:
            self._writer.ledger.drop(self.tables, letters)
            written += self._writer.end_snapshot(batch.position)
        return written

    def _look(self, batch: Batch) -> None:
        """Has the stream take the tables on when the load is near the source's end, or comes no nearer any more.

        What the load still lacks then is what the stream has to wait for.
        """
        if batch.caught_up is None or self._finishing.is_set():
            return
        age = (datetime.now(timezone.utc) - batch.caught_up).total_seconds()
        if age <= self._near or (self._age is not None and age > self._age / 2):
            self._is_due_now()
        self._age = age

    def _is_due_now(self) -> None:
        if not self._finishing.is_set():
            self.is_due = True
            self._due()
