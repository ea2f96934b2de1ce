"""Measures the times of the steps of one piece of work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from arctic_runtime.effects import observe_effect


class Timings:
    """Seconds that each step took, by its name; the sum if a step was done several times."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure_step(self, step: str) -> Iterator[None]:
        """Adds the time that the block takes to the seconds of `step`; watchers of effects see the step."""
        start = time.monotonic()
        try:
            with observe_effect(step):
                yield
        finally:
            self._seconds[step] = self._seconds.get(step, 0.0) + time.monotonic() - start

    def list_seconds(self) -> dict[str, float]:
        """Returns the seconds of each step, by its name, rounded to milliseconds."""
        return {step: round(seconds, 3) for step, seconds in self._seconds.items()}
