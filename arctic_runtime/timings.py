"""Measures how long the steps of a run or of a maintenance operation take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from arctic_runtime.effects import observe_effect


class Timings:
    """Seconds per step, by the step's name; a step that is performed several times counts with the sum."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure_step(self, step: str) -> Iterator[None]:
        """Adds the duration of the block to the seconds of `step`, and reports the step to the watcher of effects."""
        start = time.monotonic()
        try:
            with observe_effect(step):
                yield
        finally:
            self._seconds[step] = self._seconds.get(step, 0.0) + time.monotonic() - start

    def list_seconds(self) -> dict[str, float]:
        """Returns the seconds of each step, by its name, rounded to milliseconds."""
        return {step: round(seconds, 3) for step, seconds in self._seconds.items()}
