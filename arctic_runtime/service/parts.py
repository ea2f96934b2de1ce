"""Threads of a service while it leads: its parts, started again if they end too early, and the ingestion of sources."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from arctic_runtime.service.refreshing.model_records import compute_source_pause
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.spark.engine.messages import get_message

LOG = logging.getLogger(__name__)


@dataclass
class Part:
    """A part of the service, the thread that runs it until `ended` is set, and how often it has ended in a row."""

    name: str
    action: Callable[[], None]
    ended: threading.Event
    thread: threading.Thread
    began_at: float
    error: str = ""
    failures: int = 0
    restart_at: float | None = None

    def join(self) -> None:
        """Waits until the part has ended; its `ended` has to be set, or the leadership of the service has ended."""
        self.thread.join()


class Parts:
    """Parts of a service, such as the ingestion of a source, each of which has to run until leadership ends (`ended`).

    A part that ends earlier, with an error or without, is shown under its name, and started again after a pause.
    """

    def __init__(self, shared: SharedState, ended: threading.Event, say: Callable[[str], None]) -> None:
        self._shared = shared
        self._ended = ended
        self._say = say
        self._limits = shared.reader.thresholds.service
        self._parts: list[Part] = []
        self._lock = threading.Lock()
        self._watch = threading.Thread(target=self._watch_until_ended, name="watch")

    def start_parts(self, actions: Mapping[str, Callable[[], None]]) -> None:
        """Runs each action in a thread of its own, and watches the threads of all parts in a further one."""
        for name, action in actions.items():
            self.start_part(name, action, self._ended)
        self._watch.start()

    def start_part(self, name: str, action: Callable[[], None], ended: threading.Event) -> Part:
        """Runs an action in a thread of its own until `ended` is set, or leadership ends; returns the part."""
        part = Part(name, action, ended, threading.Thread(), 0.0)
        with self._lock:
            self._start_thread(part)
            self._parts.append(part)
        return part

    def join_parts(self) -> None:
        """Waits until all parts have ended; has to be called after leadership has ended."""
        self._watch.join()
        for part in self._parts:
            part.join()

    def _start_thread(self, part: Part) -> None:
        def run_action() -> None:
            try:
                part.action()
            except Exception as error:
                LOG.exception("%s ended", part.name)
                part.error = get_message(error)

        part.error, part.restart_at, part.began_at = "", None, time.monotonic()
        part.thread = threading.Thread(target=run_action, name=part.name)
        part.thread.start()

    def _watch_until_ended(self) -> None:
        while not self._ended.wait(self._limits.poll_seconds):
            with self._lock:
                for part in [*self._parts]:
                    self._check_part(part, time.monotonic())

    def _check_part(self, part: Part, now: float) -> None:
        if part.thread.is_alive():
            if part.failures and now - part.began_at > self._limits.steady_seconds:
                part.failures = 0
                self._shared.clear_end(part.name)
        elif self._ended.is_set():
            return
        elif part.ended.is_set():
            self._parts.remove(part)
            self._shared.clear_end(part.name)
        elif part.restart_at is None:
            part.failures += 1
            pause = compute_source_pause(part.failures, self._limits)
            part.restart_at = now + pause
            why = part.error or "ended without being stopped"
            self._shared.set_error(part.name, why, has_ended=True)
            self._say(f"{part.name}: {why}\n  started again in {pause:.0f} s")
        elif now >= part.restart_at:
            self._start_thread(part)


class Leadership:
    """One period in which a service leads, with the actions to call at its end; may be used by any thread."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._actions: list[Callable[[], None]] = []

    def call_at_end(self, action: Callable[[], None]) -> Callable[[], None]:
        """Calls `action` when leadership ends, or at once if it has ended; returns a function that unregisters it."""
        with self._lock:
            self._actions.append(action)
            has_ended = self.ended.is_set()
        if has_ended:
            action()

        def remove_action() -> None:
            with self._lock, suppress(ValueError):
                self._actions.remove(action)

        return remove_action

    def end_leadership(self) -> None:
        self.ended.set()
        with self._lock:
            actions = list(self._actions)
        for action in actions:
            # An action may block for a while, and a signal handler must return quickly.
            threading.Thread(target=action, daemon=True).start()


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
