"""The batches that a service ingests, as jobs: one of each source's stream at a time, and one of a load beside it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from arctic_runtime.model.names import TableName
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.service.view.live_data import JobState

Lane = tuple[str, bool]
"""A source, and whether it is a load beside its stream."""


class IngestJobs:
    """Batches under way by source and lane; may be used by any thread."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._numbers: dict[Lane, str] = {}

    def begin_batch(self, lane: Lane, tables: Sequence[TableName], reason: str) -> None:
        """A batch is published from now on."""
        job = self._board.add_job("ingest", f"ingest {lane[0]}", tables, reason, "running")
        with self._lock:
            self._numbers[lane] = job.number

    def end_batch(self, lane: Lane, rows: Mapping[str, int], line: str) -> None:
        """The batch of a lane has been published, if one was under way."""
        with self._lock:
            number = self._numbers.pop(lane, None)
        if number is not None:
            self._board.end_job(number, "done", rows=dict(rows), lines=(line,))

    def close_source(self, source: str, error: str = "", error_details: Mapping[str, str] | None = None) -> None:
        """Ingestion of a source has ended, perhaps by an error, and with it what was under way."""
        state: JobState = "failed" if error else "cancelled"
        with self._lock:
            numbers = [self._numbers.pop(lane) for lane in list(self._numbers) if lane[0] == source]
        for number in numbers:
            self._board.end_job(number, state, error=error, error_details=error_details or {})
