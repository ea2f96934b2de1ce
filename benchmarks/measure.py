"""What a benchmark measures, and how it is shown."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Measurement:
    """One figure against its target. `at_least` tells which side of the target is the good one.

    A figure of somebody else's has no target, and nothing to hold.
    """

    metric: str
    value: float
    unit: str
    target: float | None
    at_least: bool
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.at_least else self.value <= self.target


def seconds(action: Callable[[], object]) -> float:
    """How long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def side_by_side(actions: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Times every action once a round, in turn, so that a machine that drifts drifts for all of them.

    The first round warms up and is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for turn in range(rounds + 1):
        for name, action in actions.items():
            taken = seconds(action)
            print(f"  {'warm-up' if turn == 0 else f'round {turn}'}: {name}: {taken:.2f} s", flush=True)
            if turn:
                times[name].append(taken)
    return times


def ratio(times: Mapping[str, Sequence[float]], slower: str, faster: str) -> float:
    """The median of the ratios of each round."""
    return statistics.median(a / b for a, b in zip(times[slower], times[faster], strict=True))


def table(measurements: Sequence[Measurement]) -> str:
    """A line per figure."""
    return "\n".join(_line(measurement) for measurement in measurements)


def _line(measurement: Measurement) -> str:
    figure = f"{measurement.metric:<52} {measurement.value:8.2f} {measurement.unit:<3}"
    if measurement.target is None:
        return figure.rstrip()
    sign, verdict = "≥" if measurement.at_least else "≤", "holds" if measurement.holds else "MISSED"
    return f"{figure} {sign} {measurement.target:<6g} {verdict}"


def write_json(measurements: Sequence[Measurement], file: Path) -> None:
    """The figures for programs."""
    rows = [{**asdict(measurement), "holds": measurement.holds} for measurement in measurements]
    file.write_text(json.dumps(rows, indent=2) + "\n")
