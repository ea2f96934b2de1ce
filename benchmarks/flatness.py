"""What it costs to follow as many changes where the table that they are in is ten times as large."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace

from arctic_runtime.model.table import Model
from benchmarks.lake import EVENTS, Lake, events_model, lake, query_model
from benchmarks.layers import customers, join
from benchmarks.measure import Measurement, seconds

TIMES_LARGER = 10
CHANGED = 0.001
"""The part of the larger table that changes in a round: 10,000 of 10 million rows, and as many of the smaller one."""
TARGET = 1.2


@dataclass(frozen=True)
class Side:
    """Facts of one size, and the join that follows them: seconds of each round, and how it went."""

    bench: Lake
    facts: Model
    joined: Model
    fraction: float
    taken: list[float] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)

    def change(self, turn: int) -> None:
        """Changes facts; the join has yet to follow."""
        self.bench.append_changes(self.fraction, turn)
        self.bench.run(self.facts)

    def follow(self) -> None:
        """Brings the changes into the join, and notes how long that took."""
        self.taken.append(seconds(lambda: self.ways.append(_way(self.bench, self.joined))))


def measure(rows: int, rounds: int = 7) -> list[Measurement]:
    """The seconds of the larger table divided by those of the smaller one, medians of both in one run."""
    with lake(rows) as bench:
        bench.run(customers(bench))
        larger = _side(bench, "larger", rows, CHANGED)
        smaller = _side(bench, "smaller", rows // TIMES_LARGER, CHANGED * TIMES_LARGER)
        for turn in range(rounds + 1):
            _follow_both(smaller, larger, turn)
    # The first round warms up and is not counted.
    medians = [statistics.median(side.taken[1:]) for side in (larger, smaller)]
    label = f"{CHANGED * rows:,.0f} changes, {rows:,} rows / {rows // TIMES_LARGER:,} rows"
    return [Measurement(label, medians[0] / medians[1], "x", TARGET, False, _detail(smaller, larger))]


def _side(bench: Lake, size: str, rows: int, fraction: float) -> Side:
    """The landing table, the facts and the join of one size, all of them filled."""
    own = replace(bench, rows=rows, events=EVENTS.with_name(f"events_{size}"))
    facts = events_model(f"facts_{size}", own.events, merge="on_read")
    joined = query_model(f"joined_{size}", join(facts.table), "id", merge="on_read")
    own.fill_events()
    for model in (facts, joined):
        own.run(model)
    return Side(own, facts, joined, fraction)


def _follow_both(smaller: Side, larger: Side, turn: int) -> None:
    """Changes both, then times one after the other; who is first changes from round to round."""
    for side in (smaller, larger):
        side.change(turn + 1)
    for side in (smaller, larger) if turn % 2 else (larger, smaller):
        side.follow()
        title = f"round {turn}" if turn else "warm-up"
        print(f"  {title}: {side.bench.rows:,} rows: {side.taken[-1]:.2f} s, {side.ways[-1]}", flush=True)


def _way(bench: Lake, model: Model) -> str:
    outcome = bench.run(model)
    return f"{outcome.mode} {outcome.reason} {sum(outcome.rows.values())}"


def _detail(*sides: Side) -> dict[str, object]:
    return {
        f"{side.bench.rows:,} rows": {"seconds": [round(one, 2) for one in side.taken[1:]], "ways": side.ways}
        for side in sides
    }
