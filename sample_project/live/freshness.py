"""How far the tables of ODS and of DWS are behind the source."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timezone


@dataclass(frozen=True)
class Reached:
    """What tables have: a number of the source's changes, and the time of the newest; None before the first."""

    changes: int = 0
    newest: datetime | None = None

    def with_batch(self, changes: int, newest: datetime | None) -> Reached:
        """The same after a batch of changes, of which the newest is known or not."""
        return Reached(self.changes + changes, newest or self.newest)

    def age(self, now: datetime) -> float | None:
        """Seconds since the newest change happened that the tables have; a moment without a zone is UTC."""
        if self.newest is None:
            return None
        at = self.newest if self.newest.tzinfo else self.newest.replace(tzinfo=timezone.utc)
        return max(0.0, (now - at).total_seconds())


class Rate:
    """The mean growth of a count over the last seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, now: float, count: int) -> float:
        """Notes a count at a time in seconds; returns how much it grew in a second."""
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._seconds:
            self._seen.popleft()
        then, before = self._seen[0]
        return (count - before) / (now - then) if now > then else 0.0
