"""Runs the parts of a service in threads, and starts a part again that has ended without being stopped."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
