"""The threads that ingest the sources of a service, which follow edits of the sources' settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from arctic_runtime.service.leadership import Leadership


class Ingesting(Protocol):
    """The ingestion of one source.

    `run_ingestion` returns after `stop_ingestion` was called, or raises an error. Two ingestions of a source do the
    same if their `settings` are equal.
    """

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> object: ...

    def run_ingestion(self) -> None: ...

    def stop_ingestion(self) -> None: ...


class Joinable(Protocol):
    """A thread, or a part of a service that is started again if it ends too early."""

    def join(self) -> None: ...


StartThread = Callable[[str, Callable[[], None], threading.Event], Joinable]
"""Function that runs an action for the source of the given name in a thread of its own, until the event is set."""


@dataclass(frozen=True)
class _Running:
    """An ingestion in a thread of its own, until its period ends."""

    ingestion: Ingesting
    period: Leadership
    thread: Joinable


class SourceThreads:
    """Ingests each source in a thread of its own, for as long as a service leads.

    `ingest` ingests until the given period ends, and `start` starts a thread.
    """

    def __init__(
        self,
        leadership: Leadership,
        ingest: Callable[[Leadership, Ingesting], None],
        start: StartThread,
    ) -> None:
        self._leadership = leadership
        self._ingest = ingest
        self._start = start
        self._running: dict[str, _Running] = {}

    def use_ingestions(self, ingestions: Iterable[Ingesting]) -> list[str]:
        """Ingests exactly these from now on; one with other settings takes over after the batch under way.

        Returns the names of the sources whose ingestion begins, ends or gets other settings.
        """
        wanted = {ingestion.name: ingestion for ingestion in ingestions}
        changed = [
            name
            for name in {**self._running, **wanted}
            if name not in self._running
            or name not in wanted
            or self._running[name].ingestion.settings != wanted[name].settings
        ]
        for name in changed:
            before = self._running.pop(name, None)
            if before is not None:
                before.period.end_leadership()
            if name in wanted:
                self._running[name] = self._start_after(wanted[name], before)
        return changed

    def _start_after(self, ingestion: Ingesting, before: _Running | None) -> _Running:
        """Starts to ingest when the thread of the source's earlier ingestion, if there was one, has ended."""
        period = Leadership()

        def ingest() -> None:
            remove = self._leadership.call_at_end(period.end_leadership)
            try:
                if before is not None:
                    before.thread.join()
                self._ingest(period, ingestion)
            finally:
                remove()

        return _Running(ingestion, period, self._start(ingestion.name, ingest, period.ended))
