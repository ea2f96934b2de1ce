"""Measures the durations of the steps of a run or of a maintenance operation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from arctic_runtime.effects import observe_effect


class Timings:
    """Seconds of each step, by the step's name; those of a step that is performed several times are added up."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def measure_step(self, step: str) -> Iterator[None]:
        """Adds the duration of the `with` block to the seconds of `step`; calls the watcher of effects for the step."""
        start = time.monotonic()
        try:
            with observe_effect(step):
                yield
        finally:
            self._seconds[step] = self._seconds.get(step, 0.0) + time.monotonic() - start

    def list_seconds(self) -> dict[str, float]:
        """Returns the seconds of each step, by its name, rounded to milliseconds."""
        return {step: round(seconds, 3) for step, seconds in self._seconds.items()}
