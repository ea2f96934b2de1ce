"""The clock that the parts of a service read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Clock:
    """Source of the current time; tests pass their own functions.

    `monotonic` returns seconds that never go back, and `time` returns seconds since 1970.
    """

    monotonic: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time

    def read_local(self) -> datetime:
        """Returns the local date and time of the service's machine, without a time zone."""
        return datetime.fromtimestamp(self.time())


SYSTEM_CLOCK = Clock()
