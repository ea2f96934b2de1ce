"""A join over facts by month, and sums over it, where only new facts change, against the same as plain tables."""

from __future__ import annotations

from functools import partial

from benchmarks.lake import Lake, events_model, lake, query_model
from benchmarks.layers import SUMS, customers, join, turns
from benchmarks.measure import Measurement, ratio

TARGETS = {0.001: 12.0, 0.01: 8.0}
"""The part of all facts that changes → times faster than a table."""
SUMS_TARGET = 6.0
NEWEST = 16
"""Changes are among the newest facts, one of so many."""


def measure(rows: int, rounds: int = 2) -> list[Measurement]:
    """The ratios of computing everything to following the changes; all tables are merged on write."""
    measurements: list[Measurement] = []
    with lake(rows) as bench:
        bench.fill_events()
        facts = events_model("facts", partition_by=["months(e)"])
        joined = query_model("joined", join(facts.table), "id", partition_by=["months(e)"])
        sums = query_model("sums", SUMS, ["city", "b"])
        for model in (facts, customers(bench), joined, sums):
            bench.run(model)
        for place, (fraction, target) in enumerate(TARGETS.items()):
            change = partial(_change, bench, fraction, 100 * (place + 1))
            times = turns(bench, facts, (joined, sums), fraction, rounds, change)
            detail = {name: [round(value, 2) for value in taken] for name, taken in times.items()}
            label = f"join of {rows:,}, {fraction:.1%} changed, all of them new: table / on_write"
            measurements.append(Measurement(label, ratio(times, "table", "joined"), "x", target, True, detail))
        label = f"sums of {rows:,}, {fraction:.1%} changed: table / on_write"
        measurements.append(Measurement(label, ratio(times, "table of sums", "sums"), "x", SUMS_TARGET, True, detail))
    return measurements


def _change(bench: Lake, fraction: float, first: int, turn: int) -> None:
    bench.append_changes(fraction * NEWEST, first + turn, bench.rows - bench.rows // NEWEST)
