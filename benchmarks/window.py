"""A window of thirty days, a day later: what a model over it costs, beside a table that is computed anew.

The rows of two months are an arctic table, partitioned by day. Each round is one day later, without a change of them.
"""

from __future__ import annotations

import datetime
from functools import partial

from pyspark.sql import functions as F

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.refresh.run import Refresh
from benchmarks.lake import NAMESPACE, Lake, differing, lake, query_model
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.rows import COLUMNS, images

SOURCE, LOADED = (TableName("lake", NAMESPACE, name) for name in ("orders", "loaded"))
FIRST = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.timezone.utc)
DAYS, WINDOW = 60, 30
OURS, GROUPED, TABLE, GROUPED_TABLE = "window", "window, grouped", "table", "table, grouped"


def measure(rows: int, rounds: int = 4) -> list[Measurement]:
    """The seconds of a table of `rows` rows divided by ours, for rows and for groups, and the rows that differ."""
    with lake(rows) as bench:
        _fill(bench)
        times: dict[str, list[float]] = {}
        for turn in range(rounds + 2):
            now = FIRST + turn * datetime.timedelta(days=1)
            for way, taken in _turn(bench, now).items():
                print(f"  {'load' if turn == 0 else f'day {turn}'}: {way}: {taken:.2f} s", flush=True)
                times.setdefault(way, []).extend([taken] if turn > 1 else [])
        tables = [bench.spark.table(quoted("lake", NAMESPACE, name)) for name in ("ours", "theirs", "sums", "totals")]
        wrong = differing(*tables[:2]) + differing(*tables[2:])
    detail = {way: [round(one, 2) for one in taken] for way, taken in times.items()}
    return [
        Measurement("window of 30 days, a day later: table / ours", ratio(times, TABLE, OURS), "x", 8, True, detail),
        Measurement("the same, in groups", ratio(times, GROUPED_TABLE, GROUPED), "x", 8, True, detail),
        Measurement("window of 30 days: rows that differ", wrong, "", 0, False),
    ]


def _fill(bench: Lake) -> None:
    start = (FIRST - datetime.timedelta(days=DAYS - WINDOW // 2)).date()
    day = F.date_add(F.lit(start), (F.col("id") % DAYS).cast("int"))
    rows = bench.spark.range(2 * bench.rows).select(*images(F.col("id"), 0), day.alias("day"))
    rows.writeTo(quoted(*LOADED.parts)).using("iceberg").create()
    text = f"select {', '.join(COLUMNS)}, day from {quoted(*LOADED.parts)}"
    bench.run(query_model("orders", text, "id", partition_by=["day"], nodes=1))


def _query(grouped: bool, today: str) -> str:
    chosen = "a, count(*) as n, sum(b) as total" if grouped else "*"
    text = (
        f"select {chosen} from {quoted(*SOURCE.parts)} where day > {today} - interval {WINDOW} days and day <= {today}"
    )
    return f"{text} group by a" if grouped else text


def _turn(bench: Lake, now: datetime.datetime) -> dict[str, float]:
    today = f"date '{now.date()}'"
    rows = query_model("ours", _query(False, "current_date"), "id")
    groups = query_model("sums", _query(True, "current_date"), "a")
    return {
        OURS: seconds(partial(_run, bench, rows, now)),
        TABLE: seconds(partial(bench.replace, "theirs", _query(False, today))),
        GROUPED: seconds(partial(_run, bench, groups, now)),
        GROUPED_TABLE: seconds(partial(bench.replace, "totals", _query(True, today))),
    }


def _run(bench: Lake, model: Model, now: datetime.datetime) -> None:
    planner = RefreshPlanner(model, bench.reader, Request(), now=now)
    outcome = Refresh(planner, lambda: bench.spark).run_refresh()
    print(f"    {outcome.mode} {outcome.rows} {outcome.because} {outcome.timings} {outcome.estimates}", flush=True)
