"""Clones of three models: the seconds that each takes, and the bytes that are written."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame

from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.cloning.clone_plan import CloneRequest
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.cloning import clone_model
from arctic_runtime.spark.tables.table_session import TableSession
from benchmarks.lake import Lake, differing, events_model, lake, query_model
from benchmarks.layers import SUMS, customers, join
from benchmarks.measure import Measurement, seconds

SECONDS_TARGET = 3.0
BYTES_TARGET = 1_000_000


def measure(rows: int, rounds: int = 3) -> list[Measurement]:
    """The slowest of three clones, and the bytes of all three: facts with unmerged changes, their join, and sums.

    The first round warms up and is not counted.
    """
    with lake(rows) as bench:
        bench.fill_events()
        facts = events_model("facts", merge="on_read")
        joined = query_model("joined", join(facts.table), "id")
        models = (facts, joined, query_model("sums", SUMS, ["city", "b"]))
        for model in (facts, customers(bench), *models[1:]):
            bench.run(model)
        bench.append_changes(0.01, 1)
        for model in models:
            bench.run(model)
        taken: dict[str, list[float]] = {model.table.name: [] for model in models}
        written: list[int] = []
        for turn in range(rounds + 1):
            schema = f"dev{turn}"
            bench.reader.create_namespace(schema)
            before = _measure_files(bench)
            times = {model.table.name: seconds(partial(_clone, bench, model, schema)) for model in models}
            written.append(_measure_files(bench) - before)
            print(f"  {f'round {turn}' if turn else 'warm-up'}: {times} s, {written[-1]:,} bytes", flush=True)
            for name, value in times.items():
                taken[name] += [value] if turn else []
        wrong = sum(differing(_read(bench, model.table), _read(bench, _rename(model, schema))) for model in models)
    detail = {"seconds": taken, "bytes": written[1:], "rows that differ": wrong}
    slowest = max(statistics.median(values) for values in taken.values())
    label = f"clone of {rows:,} rows"
    return [
        Measurement(f"{label}: seconds of the slowest of 3 models", slowest, "s", SECONDS_TARGET, False, detail),
        Measurement(f"{label}: bytes of 3 models", statistics.median(written[1:]), "B", BYTES_TARGET, False, detail),
        Measurement(f"{label}: rows that differ", wrong, "rows", 0, False),
    ]


def _clone(bench: Lake, model: Model, schema: str) -> None:
    own = replace(model, table=_rename(model, schema))
    request = CloneRequest(model.table, round(1000 * time.time()), schema)
    clone_model(TableSession(own, bench.reader, lambda: bench.spark), request)


def _rename(model: Model, schema: str) -> TableName:
    return replace(model.table, schema=schema)


def _read(bench: Lake, table: TableName) -> DataFrame:
    return bench.spark.table(quote_name(*table.parts))


def _measure_files(bench: Lake) -> int:
    """Bytes of all files of the warehouse but those of the catalog's database."""
    folder = Path(bench.reader.profile.catalog_properties["warehouse"])
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and "catalog.db" not in file.name)
