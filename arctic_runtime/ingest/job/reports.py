"""Reports of a job: each batch with events before it is published, and each batch after that."""

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
    """A batch after all its tables were published, with the result of each, and the seconds that it took.

    `progress` is the progress of all tables of the source now, `behind` the number of events that the source had after
    that, None if it is not known. While the source can't be read there is a report without events, whose progress has
    the failure. `position` is that of the progress, as its transport reads it. `is_background` as of `BatchWork`.
    """

    tables: tuple[TableResult, ...]
    count: int
    seconds: float
    progress: Progress
    position: ParsedPosition
    behind: int | None = None
    is_background: bool = False


@dataclass(frozen=True)
class Listeners:
    """Functions that a job calls: `begin` for a batch with events before it is published, `report` after that."""

    report: Callable[[BatchReport], None] = lambda _: None
    begin: Callable[[BatchWork], None] = lambda _: None


class Reporter:
    """Calls the listeners of a job, one call at a time, whichever thread reports."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self._pieces = {is_background: LoadPieces() for is_background in (False, True)}
        self._lock = threading.Lock()

    def announce_batch(
        self, batch: Batch, names: Mapping[str, TableName], count: int, is_background: bool = False
    ) -> None:
        """Announces a batch, if it has events; `names` are tables by names in the source, `count` those of its load."""
        piece = self._pieces[is_background].count_batch(batch, count)
        if batch.count:
            with self._lock:
                self._listeners.begin(to_batch_work(batch, names, piece, is_background))

    def report_batch(self, report: BatchReport) -> None:
        """Reports a batch that was published."""
        with self._lock:
            self._listeners.report(report)
