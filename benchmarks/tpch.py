"""The queries of TPC-H as tables that follow their sources, against the same queries as plain tables.

A batch is like the refresh functions of TPC-H and more: a share of the orders is copied under new keys and as many are
deleted, each with its lines, and as many of the customers, parts, suppliers and their offers get other values and
another home. So 1% of all changes by a share of 0.5%, and 0.1% by one of 0.05%. Bringing a batch into the tables is not
timed.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from benchmarks.lake import NAMESPACE, Lake, differing, lake
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.process import Process
from benchmarks.tpch_models import (
    KEYS,
    Question,
    columns_of,
    events_of,
    keyed_table,
    load_tpch,
    questions,
    write_inserts,
)

LARGE = 10.0
"""From this scale on targets are higher, and answers are compared after the last batch alone, to save time."""

SHARES = {"1%": 200, "0.1%": 2000}
"""How much of a table changes → one of how many rows is made, deleted or updated in a batch."""

NEW_KEYS = 10**9
"""Orders made in a batch have keys past those of all batches before; no order of the first load has one so large."""

UPDATES = {
    "customer": {"c_acctbal": "c_acctbal - 10", "c_nationkey": "(c_nationkey + 1) % 25"},
    "part": {"p_retailprice": "p_retailprice + 1", "p_size": "1 + p_size % 50"},
    "supplier": {"s_acctbal": "s_acctbal + 10", "s_nationkey": "(s_nationkey + 1) % 25"},
    "partsupp": {"ps_availqty": "1 + ps_availqty % 9999", "ps_supplycost": "ps_supplycost + 1"},
}
"""Table → the columns that an update changes, and to what."""

TARGETS = {"1%": 2.2, "0.1%": 4}
"""How much faster queries have to be together at a large scale, by how much of a table changes."""

PLAIN = f"lake.{NAMESPACE}.plain"

HEAP = {"spark.driver.memory": "4500m"}
"""Java takes more than its heap, over a gigabyte of it to read and write Parquet files."""


@dataclass(frozen=True)
class Batches:
    """The batches of one share: a warm-up with the number `first`, and `rounds` that count."""

    first: int
    rounds: int
    one_in: int


@dataclass
class Times:
    """What was seen of one query, by round: how long each way took, bytes that Spark read for it, and how our run went.

    `table` and `model` are seconds on the clock, `table_processor` and `model_processor` seconds of Spark's processors.
    `jobs` are Spark's, of our run. `differing` is the most rows that one of the two tables had and the other had not
    after a batch, warm-up included.
    """

    table: list[float] = field(default_factory=list)
    model: list[float] = field(default_factory=list)
    table_processor: list[float] = field(default_factory=list)
    model_processor: list[float] = field(default_factory=list)
    table_read: list[int] = field(default_factory=list)
    model_read: list[int] = field(default_factory=list)
    ways: list[str] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)
    steps: list[Mapping[str, float]] = field(default_factory=list)
    differing: int = 0

    @property
    def faster(self) -> float:
        """How many times faster than a table."""
        return ratio({"table": self.table, "model": self.model}, "table", "model")

    @property
    def cheaper(self) -> float:
        """How many times less of the processors' time than a table takes."""
        return ratio({"table": self.table_processor, "model": self.model_processor}, "table", "model")


def measure(scale: float, rounds: int = 2) -> list[Measurement]:
    """How the queries compare one by one and together; 1 is some 6 million order lines."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder, lake(0, HEAP) as bench:
        texts, columns = generate_tables(Path(folder), scale)
        tables = [keyed_table(name_table, table, columns[table]) for table in KEYS]
        for model in tables:
            land_events(bench, Path(folder), model.table.name)
            bench.run(model)
        asked = {one: one.model(name_table) for one in questions(texts, name_table)}
        for model in asked.values():
            bench.run(model)
        java = Process.java()
        found, turn = [], 1
        for share, one_in in SHARES.items():
            times = _turns(bench, java, tables, asked, scale, Batches(turn, rounds, one_in))
            turn += rounds + 1
            print(_shown(times), flush=True)
            found += _measurements(times, f"TPC-H at {scale:g}, {share} changed: ", scale >= LARGE and TARGETS[share])
        peak = java.peak_bytes / 2**30
    return [*found, Measurement(f"TPC-H at {scale:g}: most memory of Spark's process", peak, "GB", 6, False)]


def generate_tables(folder: Path, scale: float) -> tuple[Sequence[str], dict[str, tuple[str, ...]]]:
    """Writes all tables as events in Parquet files; returns the texts of the queries and the tables' columns."""
    with duckdb.connect(folder / "tpch.duckdb", config={"memory_limit": "4GB"}) as con:
        texts = load_tpch(con, scale)
        for table in KEYS:
            write_inserts(con, table, folder / f"{table}.parquet")
        return texts, {table: columns_of(con, table) for table in KEYS}


def land_events(bench: Lake, folder: Path, table: str) -> None:
    rows = bench.spark.read.parquet(str(folder / f"{table}.parquet"))
    rows.writeTo(_full(events_of(table))).using("iceberg").create()


def _turns(
    bench: Lake, java: Process, tables: Sequence[Model], asked: Mapping[Question, Model], scale: float, batches: Batches
) -> dict[Question, Times]:
    """Changes, then both ways of every query in turn; the first turn warms up and is not counted."""
    times = {one: Times() for one in asked}
    for turn in range(batches.rounds + 1):
        change_tables(bench, tables, batches.first + turn, batches.one_in)
        print(f"  {f'round {turn}' if turn else 'warm-up'}", flush=True)
        for one, model in asked.items():
            seen = times[one] if turn else Times()
            before, began = java.bytes_read, java.processor_seconds
            seen.table.append(seconds(partial(bench.replace, "plain", one.spark)))
            between, changed = java.bytes_read, java.processor_seconds
            _follow(bench, model, seen)
            seen.table_read.append(between - before)
            seen.model_read.append(java.bytes_read - between)
            seen.table_processor.append(changed - began)
            seen.model_processor.append(java.processor_seconds - changed)
            if scale < LARGE or turn == batches.rounds:
                kept = bench.spark.table(_full(model.table.name))
                seen.differing = differing(bench.spark.table(PLAIN), kept)
                times[one].differing = max(times[one].differing, seen.differing)
            line = f"Q{one.number}: {seen.table[-1]:.2f} s, {seen.model[-1]:.2f} s {seen.ways[-1]}{_wrong(seen)}"
            print(f"    {line}", flush=True)
    return times


def change_tables(bench: Lake, tables: Sequence[Model], turn: int, one_in: int = SHARES["1%"]) -> None:
    """Brings a batch in. All of its events are made of the tables as they were before."""
    changed = {model.table.name: _events(bench, model, turn, one_in) for model in tables}
    for table, rows in changed.items():
        if rows is not None:
            rows.withColumn("lsn", F.lit(turn).cast("bigint")).writeTo(_full(events_of(table))).append()
    for model in tables:
        bench.run(model)


def _events(bench: Lake, model: Model, turn: int, one_in: int) -> DataFrame | None:
    table = model.table.name
    rows = bench.spark.table(_full(table))
    picked = partial(_picked, turn=turn, one_in=one_in)
    if table in UPDATES:
        picked_rows = rows.where(picked(KEYS[table].split(), place=2))
        values = {name: F.expr(value).cast(rows.schema[name].dataType) for name, value in UPDATES[table].items()}
        return picked_rows.withColumns(values).withColumn("op", F.lit("u"))
    if table not in ("orders", "lineitem"):
        return None
    order = KEYS[table].split()[0]
    born = rows.where(picked([order], place=0) & (F.col(order) < NEW_KEYS))
    born = born.withColumn(order, F.col(order) + turn * NEW_KEYS).withColumn("op", F.lit("c"))
    return born.unionAll(rows.where(picked([order], place=1)).withColumn("op", F.lit("d")))


def _picked(key: Sequence[str], turn: int, place: int, one_in: int) -> Any:
    """Rows scattered all over a table; the lines of an order are picked with it."""
    return F.pmod(F.hash(*key, F.lit(turn)), F.lit(one_in)) == place


def _follow(bench: Lake, model: Model, seen: Times) -> None:
    context = bench.spark.sparkContext
    group = f"{model.table} {time.monotonic_ns()}"
    context.setJobGroup(group, "a run of the model")
    start = time.perf_counter()
    outcome = bench.run(model)
    seen.model.append(time.perf_counter() - start)
    seen.jobs.append(len(context.statusTracker().getJobIdsForGroup(group)))
    seen.ways.append(f"{outcome.mode} {outcome.reason}")
    seen.steps.append(outcome.timings)


def _measurements(times: Mapping[Question, Times], title: str, target: float) -> list[Measurement]:
    """What a share came to. `target` is how much faster queries have to be together; 0 at a small scale."""
    faster, cheaper = [seen.faster for seen in times.values()], [seen.cheaper for seen in times.values()]
    detail = {f"Q{one.number}": _detail(seen) for one, seen in times.items()}
    exact = sum(seen.differing == 0 for seen in times.values())
    return [
        Measurement(f"{title}exact answers", exact, "", len(times), True),
        Measurement(f"{title}queries faster", sum(one > 1 for one in faster), "", 16 if target else 10, True, detail),
        Measurement(f"{title}slowest, ours / table", 1 / min(faster), "x", 1.05, False),
        Measurement(f"{title}mean, table / ours", statistics.geometric_mean(faster), "x", target or 1, True),
        Measurement(f"{title}mean, processor of table / ours", statistics.geometric_mean(cheaper), "x", 1, True),
    ]


def _detail(seen: Times) -> dict[str, Any]:
    taken = {"table": [round(one, 2) for one in seen.table], "model": [round(one, 2) for one in seen.model]}
    read = {"table_read": seen.table_read, "model_read": seen.model_read}
    processor = {"table_processor": seen.table_processor, "model_processor": seen.model_processor}
    return {
        **taken,
        **processor,
        **read,
        "ways": seen.ways,
        "jobs": seen.jobs,
        "steps": seen.steps,
        "differing": seen.differing,
    }


def _shown(times: Mapping[Question, Times]) -> str:
    """A line per query: the medians of its rounds, and how its last run went."""
    lines = [
        f"{'':5}{'table':>8}{'ours':>8}{'faster':>9}{'cheaper':>9}{'jobs':>6}{'MB, table':>11}{'MB, ours':>10}  way"
    ]
    for one, seen in times.items():
        medians = [statistics.median(taken) for taken in (seen.table, seen.model)]
        read = [statistics.median(taken) / 10**6 for taken in (seen.table_read, seen.model_read)]
        figures = f"{medians[0]:>8.2f}{medians[1]:>8.2f}{seen.faster:>8.2f}x{seen.cheaper:>8.2f}x{seen.jobs[-1]:>6}"
        figures += f"{read[0]:>11.0f}{read[1]:>10.0f}"
        lines.append(f"{f'Q{one.number}':<5}{figures}  {seen.ways[-1]}{_wrong(seen)}")
    return "\n".join(lines)


def _wrong(seen: Times) -> str:
    return f"  {seen.differing} ROWS DIFFER" if seen.differing else ""


def name_table(table: str) -> TableName:
    return TableName("lake", NAMESPACE, table)


def _full(table: str) -> str:
    return f"lake.{NAMESPACE}.{table}"
