"""Reading through a table that is merged on read with 10% of its rows unmerged, against reading its base alone."""

from __future__ import annotations

from benchmarks.lake import events_model, lake
from benchmarks.measure import Measurement, ratio, side_by_side
from benchmarks.rows import total


def measure(rows: int, rounds: int = 5) -> list[Measurement]:
    """The ratio of the two readings, with the changes in one commit and in five."""
    figures = []
    for commits in (1, 5):
        with lake(rows) as bench:
            bench.fill_events()
            model = events_model("table", merge="on_read")
            bench.run(model)
            for turn in range(commits):
                bench.append_changes(0.1 / commits, turn + 1)
                bench.run(model)
            actions = {
                "base alone": lambda: total(bench.spark.table("lake.bench.table__base")),
                "base and changes": lambda: total(bench.spark.table("lake.bench.table")),
            }
            times = side_by_side(actions, rounds)
        detail = {name: [round(value, 2) for value in taken] for name, taken in times.items()}
        name = f"read with 10% unmerged in {commits} commit(s) / base alone"
        figures.append(Measurement(name, ratio(times, "base and changes", "base alone"), "x", 2.0, False, detail))
    return figures
