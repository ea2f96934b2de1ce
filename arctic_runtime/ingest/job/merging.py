"""Merges unmerged changes into the bases of tables with `merge: on_read`, while batches are written."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from arctic_runtime.ingest.writing.table_writer import TableWriter


class BaseMerges:
    """Merges unmerged changes into the bases of tables with `merge: on_read`, in one thread, one table at a time."""

    def __init__(self, look_seconds: float) -> None:
        self.pool = ThreadPoolExecutor(1, "merge")
        self._look_seconds = look_seconds
        self._look_at = 0.0
        self._unmerged: set[str] = set()
        self._merging: Future[None] | None = None

    def add_tables(self, names: Iterable[str]) -> None:
        """Adds the names of tables that were just written; the next merge checks whether they need merging."""
        self._unmerged |= {*names}

    def start_merge(self, writers: Collection[TableWriter]) -> None:
        """Starts to merge the tables added since the last merge, unless a merge is running.

        Raises the error of the last merge if that failed. Every `look_seconds` it checks all tables of `writers`, since
        changes by other processes may make a merge due too.
        """
        if self._merging is not None and self._merging.done():
            self.wait_for_merge()
        if self._merging is not None:
            return
        if time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + self._look_seconds
            self.add_tables(writer.table.name for writer in writers)
        if self._unmerged:
            due, self._unmerged = self._unmerged, set()
            self._merging = self.pool.submit(_merge_all, [writer for writer in writers if writer.table.name in due])

    def wait_for_merge(self) -> None:
        """Waits for the running merge, if any; raises its error if it failed."""
        merging, self._merging = self._merging, None
        if merging is not None:
            merging.result()


def _merge_all(writers: Iterable[TableWriter]) -> None:
    for writer in writers:
        writer.merge_base()
