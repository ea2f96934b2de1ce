"""Time as the parts of a service read it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Clock:
    """`monotonic` are seconds that only go forward, and `time` seconds since 1970; a test gives its own."""

    monotonic: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time

    def read_local(self) -> datetime:
        """The time of day where the service runs, without a zone."""
        return datetime.fromtimestamp(self.time())


SYSTEM_CLOCK = Clock()
