"""Watches whether a source answers and sends rows while it is ingested, and how far the loads of its tables are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from arctic_runtime.errors import ArcticError
from arctic_runtime.ingest.transports.transport import Probe, ProbesSource, Transport
from arctic_runtime.model.sources.ingestion import LoadProgress, Progress

NoteAnswer = Callable[[str, str], None]
"""Function that is called with the error of a probe and with that of the last one; each is empty for an answer."""


FindStall = Callable[[], str]
"""Function that returns the reason why a source that answers sends nothing; empty if it does."""


def watch_source(transport: Transport, note: NoteAnswer, find_stall: FindStall) -> AbstractContextManager[None]:
    """Probes the source in a thread until the context ends, if its transport can be probed."""
    return _watch_probes(transport, note, find_stall) if isinstance(transport, ProbesSource) else nullcontext()


@contextmanager
def _watch_probes(transport: ProbesSource, note: NoteAnswer, find_stall: FindStall) -> Iterator[None]:
    ended, probe = threading.Event(), transport.open_probe()
    pause = transport.probe_seconds

    def find_error() -> str:
        return _find_error(probe) or find_stall()

    def watch_until_ended() -> None:
        try:
            _note_errors(find_error, note, pause, ended)
        finally:
            probe.close_probe()

    thread = threading.Thread(target=watch_until_ended, name="probe", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _note_errors(find_error: Callable[[], str], note: NoteAnswer, pause_seconds: float, ended: threading.Event) -> None:
    last = ""
    while not ended.wait(pause_seconds):
        error = find_error()
        if (error or last) and not ended.is_set():
            note(error, last)
        last = error


def _find_error(probe: Probe) -> str:
    """Returns the reason why the source does not answer; empty if it does."""
    try:
        probe.check_answer()
    except ArcticError as error:
        return str(error)
    return ""


class LoadCounts:
    """The tables of which a load has not ended, with their rows so far; may be used by several threads."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)) -> None:
        self.loading: Mapping[str, LoadProgress] = {}
        self._clock = clock
        self._waits_since: datetime | None = None
        self._complete: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def begin_load(self, tables: Collection[str], estimates: Mapping[str, int], progress: Progress) -> None:
        """Adds `tables` without rows; `estimates` has their rows at the source.

        `progress` is that before the load.
        """
        begun = {
            table: LoadProgress(0, estimates.get(table), progress.get_table_progress(table).as_of) for table in tables
        }
        with self._lock:
            self._waits_since = self._clock()
            self.loading = {**self.loading, **begun}
            self._complete -= begun.keys()

    def begin_batch(self) -> None:
        """Notes that rows have arrived, which are about to be written."""
        with self._lock:
            self._waits_since = None

    def find_stall(self, seconds: float) -> datetime | None:
        """Returns the time since which the loads have waited for rows of the source, if for more than `seconds`."""
        with self._lock:
            since = self._waits_since if self.loading else None
        return since if since is not None and self._clock() - since > timedelta(seconds=seconds) else None

    def restart_load(self, tables: Collection[str]) -> None:
        """Sets the rows of `tables` to 0, since a load reads them again."""
        with self._lock:
            self.loading = {
                table: replace(load, rows=0) if table in tables else load for table, load in self.loading.items()
            }
            self._complete -= frozenset(tables)

    def add_rows(self, rows: Mapping[str, int], is_snapshot: bool) -> None:
        """Adds the `rows` of a batch by table; unless `is_snapshot`, it is the last batch with rows of the load."""
        with self._lock:
            if self._waits_since is None:
                self._waits_since = self._clock()
            counted = {table: rows.get(table, 0) for table in self.loading if table not in self._complete}
            self.loading = {
                table: replace(load, rows=load.rows + counted.get(table, 0)) for table, load in self.loading.items()
            }
            if not is_snapshot:
                self._complete |= rows.keys()

    def end_load(self, tables: Collection[str]) -> None:
        """Removes `tables`, whose load has ended."""
        with self._lock:
            self.loading = {table: load for table, load in self.loading.items() if table not in tables}
            self._complete -= frozenset(tables)
