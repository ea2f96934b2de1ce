"""Reports of an ingestion job to its callers, with the load's progress: before and after each batch is published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.ingest.writing.records import TableResult
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Progress
from arctic_runtime.model.sources.positions import ParsedPosition


@dataclass(frozen=True)
class LoadPiece:
    """A batch of a load, with the progress of the load."""

    number: int
    """Number of the batch, from 1."""

    rows: int
    """Number of rows that were loaded up to and including this batch."""

    tables: int
    """Number of tables that were loaded so far."""

    all_tables: int
    """Number of tables in the whole load."""

    def describe_piece(self) -> str:
        """Describes for people the number of the piece, and the tables and rows loaded so far."""
        return f"load, piece {self.number}: table {self.tables} of {self.all_tables}, {self.rows:,} rows so far"


@dataclass(frozen=True)
class BatchWork:
    """A batch that is about to be published."""

    tables: tuple[TableName, ...]
    """The arctic tables to which it is published."""

    count: int
    """Number of events."""

    piece: LoadPiece | None = None
    """Progress of the load to which the batch belongs; None for a batch of a stream."""

    is_background: bool = False
    """True for a load alongside the stream.

    A batch of such a load may be written at the same time as one of the stream.
    """

    def describe_work(self) -> str:
        """Describes the batch for people, such as `1,234 events`."""
        events = "1 event" if self.count == 1 else f"{self.count:,} events"
        return events if self.piece is None else f"{events} of a {self.piece.describe_piece()}"


class LoadPieces:
    """Counts the batches of each load, called pieces; a load ends with its first batch outside of a snapshot."""

    def __init__(self) -> None:
        self._piece: LoadPiece | None = None
        self._seen: set[str] = set()

    def count_batch(self, batch: Batch, all_tables: int) -> LoadPiece | None:
        """Counts a batch as the next piece of a load and returns this piece; None if the batch belongs to a stream.

        `all_tables` is the number of tables of the load.
        """
        if batch.is_rewound:
            self._reset_count()
        if not batch.is_snapshot and self._piece is None:
            return None
        last = self._piece or LoadPiece(0, 0, 0, all_tables)
        self._seen |= {events.table for events in batch.tables}
        piece = LoadPiece(last.number + 1, last.rows + batch.count, len(self._seen), all_tables)
        self._piece = piece
        if not batch.is_snapshot:
            self._reset_count()
        return piece

    def _reset_count(self) -> None:
        self._piece = None
        self._seen = set()


def to_batch_work(
    batch: Batch, names: Mapping[str, TableName], piece: LoadPiece | None, is_background: bool
) -> BatchWork:
    """Builds the BatchWork of a batch: the arctic tables that it writes, and the number of all its events.

    `names` maps names of tables in the source to those of arctic tables; other tables of the batch are left out.
    """
    written = {names[events.table]: None for events in batch.tables if events.table in names}
    return BatchWork(tuple(written), batch.count, piece, is_background)


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
