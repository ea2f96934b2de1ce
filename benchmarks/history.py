"""What it costs to keep every version of a row: beside one row per key, and beside `dbt snapshot`.

Events change 1% of the rows. They go into a keyed table, and into one with history. The keyed table is then read by a
model with history of its query, and by a snapshot of dbt with the strategy `check`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.dbt_runs import PROJECTS, run_dbt, write_profile
from benchmarks.lake import Lake, differing, events_model, lake
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.rows import COLUMNS

FRACTION = 0.01
PROJECT = PROJECTS / "history"
KEYED, VERSIONS, OURS, SNAPSHOT = "one row per key", "history", "history of a query", "dbt snapshot"
WAYS = {"on_write": ("keyed", "versions"), "on_read": ("keyed_on_read", "versions_on_read")}
"""How a table is merged → the names of the keyed table and of that with history."""

Times = dict[str, list[float]]


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The ratios of the seconds of each way, and the versions in which ours and those of dbt differ."""
    with lake(rows) as bench:
        bench.fill_events()
        times = _turns(bench, rounds)
        wrong = differing(
            _versions(bench, "ours", "versions_of_rows"), _versions(bench, "snapshot", "snapshot_of_rows")
        )
    detail = {way: [round(one, 2) for one in taken] for way, taken in times.items()}
    of_events = [
        Measurement(
            f"history 1%, {merge}: versions / rows",
            ratio(times, f"{VERSIONS}, {merge}", f"{KEYED}, {merge}"),
            "x",
            1.5,
            False,
            detail,
        )
        for merge in WAYS
    ]
    return [
        *of_events,
        Measurement("history 1%: dbt snapshot / ours", ratio(times, SNAPSHOT, OURS), "x", 5.0, True, detail),
        Measurement("history 1%: versions that differ from dbt's", wrong, "", 0, False),
    ]


def _turns(bench: Lake, rounds: int) -> Times:
    """The same changes brought in by each way; the first turn loads, the second warms up, and neither is counted."""
    folder = write_profile(bench, "history", ("ours", "snapshot"))
    times: Times = {}
    for turn in range(rounds + 2):
        if turn:
            bench.append_changes(FRACTION, turn)
        for way, taken in _turn(bench, folder).items():
            title = f"round {turn - 1}" if turn > 1 else ("warm-up" if turn else "first load")
            print(f"  {title}: {way}: {taken:.2f} s", flush=True)
            times.setdefault(way, []).extend([taken] if turn > 1 else [])
    return times


def _turn(bench: Lake, folder: Path) -> dict[str, float]:
    values: dict[str, float] = {}
    for merge, (keyed, versions) in WAYS.items():
        models = {
            KEYED: events_model(keyed, merge=merge),
            VERSIONS: events_model(versions, merge=merge, history="scd2"),
        }
        for way, model in models.items():
            values[f"{way}, {merge}"] = seconds(partial(bench.run, model))
    (ours,) = run_dbt("run", PROJECT, folder, "ours")
    (snapshot,) = run_dbt("snapshot", PROJECT, folder, "snapshot")
    return {**values, OURS: ours["execution_time"], SNAPSHOT: snapshot["execution_time"]}


def _versions(bench: Lake, schema: str, table: str) -> DataFrame:
    return bench.spark.table(quoted("lake", schema, table)).select(*COLUMNS)
