"""Asking why a row of a third layer is what it is, after many small commits to all layers."""

from __future__ import annotations

from pyspark.sql import functions as F

from arctic_runtime.model.row_trail import RowChange
from arctic_runtime.spark.why.trail import RowSearch
from benchmarks.lake import events_model, lake, query_model
from benchmarks.layers import customers, join
from benchmarks.measure import Measurement, seconds

COMMITS = 200
CHANGES = 40
CITY = "city-7"
TARGET = 5.0
_SUMS = "select city, count(*) as n, sum(a) as total from lake.bench.joined group by city"


def measure(rows: int, commits: int = COMMITS, rounds: int = 3) -> list[Measurement]:
    """Seconds until the trail of a group is there; the tables have a fiftieth of `rows`."""
    with lake(max(rows // 50, 1_000)) as bench:
        bench.fill_events()
        facts = events_model("facts")
        people = customers(bench)
        joined, sums = query_model("joined", join(facts.table), "id"), query_model("sums", _SUMS, "city")
        models = (facts, people, joined, sums)
        for turn in range(commits + 1):
            if turn:
                bench.append_changes(CHANGES / bench.rows, turn)
            for model in models if not turn else (facts, joined, sums):
                bench.run(model)
        followed: list[int] = []

        def ask() -> None:
            search = RowSearch(bench.reader, bench.spark, {model.table: model for model in models})
            followed.append(sum(map(_count_followed, search.trace_row(sums, [CITY]).changes)))

        taken = [seconds(ask) for _ in range(rounds)]
        city_rows = bench.spark.table("lake.bench.joined").where(F.col("city") == CITY).count()
        detail = {"seconds": [round(value, 2) for value in taken], "followed": followed, "rows of the group": city_rows}
        label = f"why, a group of three layers after {commits} commits: seconds"
        return [Measurement(label, max(taken), "s", TARGET, False, detail)]


def _count_followed(change: RowChange) -> int:
    """Number of changes in a trail that have upstreams, or end at a source."""
    below = sum(_count_followed(row) for upstream in change.upstreams for row in upstream.changes)
    return below + bool(change.upstreams or change.transaction)
