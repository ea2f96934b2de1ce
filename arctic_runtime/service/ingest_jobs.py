"""Shows batches that are being ingested as jobs: per source, one job of its stream, and one of a parallel load."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from arctic_runtime.model.names import TableName
from arctic_runtime.service.view.job_board import JobBoard
from arctic_runtime.service.view.live_data import JobState

Lane = tuple[str, bool]
"""A source's name, and whether the batch belongs to a load that runs in parallel with the source's stream."""


class IngestJobs:
    """The running job of each lane: of a source's stream, or of its load in parallel; may be used by any thread."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._numbers: dict[Lane, str] = {}

    def begin_batch(self, lane: Lane, tables: Sequence[TableName], reason: str) -> None:
        """Adds a running job for a batch of a lane (a source's stream or load) that is being published to `tables`."""
        job = self._board.add_job("ingest", f"ingest {lane[0]}", tables, reason, "running")
        with self._lock:
            self._numbers[lane] = job.number

    def end_batch(self, lane: Lane, rows: Mapping[str, int], line: str) -> None:
        """Ends the job of a lane's batch as done, with the changed rows by action and a line for people.

        Does nothing if the lane has no open job.
        """
        with self._lock:
            number = self._numbers.pop(lane, None)
        if number is not None:
            self._board.end_job(number, "done", rows=dict(rows), lines=(line,))

    def close_source(self, source: str, error: str = "", error_details: Mapping[str, str] | None = None) -> None:
        """Ends the open jobs of a source whose ingestion ended: as failed if there is an `error`, else as cancelled."""
        state: JobState = "failed" if error else "cancelled"
        with self._lock:
            numbers = [self._numbers.pop(lane) for lane in list(self._numbers) if lane[0] == source]
        for number in numbers:
            self._board.end_job(number, state, error=error, error_details=error_details or {})
