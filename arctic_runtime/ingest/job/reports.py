"""Reports of an ingestion job to its callers: before and after each batch is published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arctic_runtime.ingest.job.batch_work import BatchWork, LoadPieces, to_batch_work
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.ingest.writing.records import TableResult
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Progress
from arctic_runtime.model.sources.positions import ParsedPosition


@dataclass(frozen=True)
class BatchReport:
    """Report of a batch that was published to all its tables.

    If the source can't be read, there is a report without events whose progress has the failure.
    """

    tables: tuple[TableResult, ...]
    """The result of each table."""

    count: int
    """Number of events."""

    seconds: float
    """Seconds that the work took."""

    progress: Progress
    """Progress of the source after the batch."""

    position: ParsedPosition
    """Position of the source after the batch, as parsed by the transport."""

    behind: int | None = None
    """Number of events that the source still had after the batch; None if it is not known."""

    is_background: bool = False
    """True if the batch is of a load alongside the stream."""


@dataclass(frozen=True)
class JobListeners:
    """Callbacks of a job: `begin` before a batch with events is published, `report` after every batch.

    `answer` is called with a message when the source does not answer, perhaps during a batch, and with an empty one
    when it answers again.
    """

    report: Callable[[BatchReport], None] = lambda _: None
    begin: Callable[[BatchWork], None] = lambda _: None
    answer: Callable[[str], None] = lambda _: None


class Reporter:
    """Calls the listeners of a job, one call at a time, from any thread."""

    def __init__(self, listeners: JobListeners) -> None:
        self._listeners = listeners
        self._pieces = {is_background: LoadPieces() for is_background in (False, True)}
        self._lock = threading.Lock()

    def announce_batch(
        self, batch: Batch, names: Mapping[str, TableName], count: int, is_background: bool = False
    ) -> None:
        """Calls `JobListeners.begin` for a batch that has events.

        `names` has the arctic tables by their names in the source, and `count` is the number of tables of the batch's
        load.
        """
        piece = self._pieces[is_background].count_batch(batch, count)
        if batch.count:
            with self._lock:
                self._listeners.begin(to_batch_work(batch, names, piece, is_background))

    def report_batch(self, report: BatchReport) -> None:
        """Calls `JobListeners.report` for a batch that was published."""
        with self._lock:
            self._listeners.report(report)

    def report_answer(self, message: str) -> None:
        """Calls `JobListeners.answer`."""
        with self._lock:
            self._listeners.answer(message)
