"""Log of a service's events, in order; readers in other threads follow it from any event number."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any


@dataclass(frozen=True)
class Event:
    """An event of a service; `number` is one more than that of the previous event."""

    number: int
    kind: str
    at: datetime
    data: Any


class EventLog:
    """The newest events of a service, at most `capacity`; older ones are dropped."""

    def __init__(self, capacity: int) -> None:
        self._events: deque[Event] = deque(maxlen=capacity)
        self._last = 0
        self._changed = threading.Condition()

    @property
    def last(self) -> int:
        """Number of the newest event; 0 before the first."""
        return self._last

    def append_event(self, kind: str, data: Any) -> Event:
        """Appends an event, and wakes threads that wait for one."""
        with self._changed:
            self._last += 1
            event = Event(self._last, kind, datetime.now(timezone.utc), data)
            self._events.append(event)
            self._changed.notify_all()
        return event

    def wait_after(self, event_number: int, timeout_seconds: float = 0.0) -> tuple[Sequence[Event], int]:
        """Waits for events with numbers above `event_number`; returns them with the number of events that were lost.

        The events are sorted by number. Lost are events above `event_number` that were dropped already, because the log
        keeps only the newest ones. Returns at once if there is an event above `event_number`, otherwise when the first
        one arrives, or after `timeout_seconds`, then without events. If `event_number` is above that of the last event,
        as with a number from before a restart of the process, 0 is used instead, so that all events are returned.
        """
        end = time.monotonic() + timeout_seconds
        with self._changed:
            if event_number > self._last:
                event_number = 0
            while self._last <= event_number and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            events = [event for event in self._events if event.number > event_number]
            return events, max(0, self._last - event_number - len(events))
