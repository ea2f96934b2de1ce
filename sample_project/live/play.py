"""Changes are made at the source at a chosen speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from threading import Event

from sample_project.live.changes import Change, Tables
from sample_project.live.sources import Source

_MOST_AT_ONCE = 5_000


def due(elapsed: float, per_second: float, seconds: float) -> int:
    """How many changes are to be made by a time since the start, when `seconds` are played."""
    return int(min(max(elapsed, 0.0), seconds) * per_second)


class Player:
    """Makes changes for some seconds, so many a second; what a slow source left undone by then stays undone.

    `tables` are kept as the source's are.
    """

    def __init__(
        self,
        source: Source,
        tables: Tables,
        changes: Iterator[Change],
        per_second: float,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.made = 0
        self.seconds = seconds
        self._source = source
        self._tables = tables
        self._changes = changes
        self._per_second = per_second
        self._clock = clock

    def run(self, stopped: Event) -> None:
        """Plays until the time is over, the changes are at their end, or it is stopped."""
        start = self._clock()
        while not stopped.is_set():
            elapsed = self._clock() - start
            wanted = min(due(elapsed, self._per_second, self.seconds) - self.made, _MOST_AT_ONCE)
            made = self._make(list(islice(self._changes, wanted)))
            if elapsed >= self.seconds or made < wanted:
                return
            stopped.wait(self._source.pause_seconds)

    def _make(self, changes: list[Change]) -> int:
        make(self._source, self._tables, changes)
        self.made += len(changes)
        return len(changes)


def make(source: Source, tables: Tables, changes: Sequence[Change]) -> None:
    """Makes changes at the source, and in the tables that are kept as the source's are."""
    if changes:
        source.make(changes)
        for change in changes:
            tables.apply(change)
