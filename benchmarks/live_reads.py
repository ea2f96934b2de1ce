"""Reading tables that a service keeps fresh while their sources are written to, and whether its memory grows."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.spark.engine.session_pool import get_pool
from benchmarks import memory
from benchmarks.measure import Measurement, ratio, seconds
from benchmarks.served import ModelText, project_in, served, write_project

TABLES, ROWS, CHANGED, EVERY_SECONDS = 10, 200_000, 1_000, 5.0
"""How many tables there are, the rows of each, and how many of these change how often."""

LOOK_SECONDS, FIRST_LOOK_MINUTES = 15.0, 5.0
MOST_RATIO = 1.5
_COPY = "lake.dws.compacted"
_SOURCES = "sources: [{name: raw, schema: ods, tables: [%s]}]"


def measure(minutes: float) -> list[Measurement]:
    """The seconds of a reading of a served table / of its rows in compacted files, in turn, while writes go on.

    Half of the tables are merged on write, the default, and the others on read. With 25 minutes or more, also the
    memory at the end divided by that after five minutes.
    """
    names = [f"t{number}" for number in range(TABLES)]
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        sources = _SOURCES % ", ".join(f"{{name: {name}}}" for name in names)
        write_project(Path(folder), sources, dict(map(_model, names)))
        project = project_in(Path(folder))
        pool = get_pool(project.loaded.profile)
        reader = project.reader
        spark = pool.take_session()
        _make_sources(spark, names)
        with served(project):
            _wait_for_tables(reader, names)
            with _writing(reader, names), memory.watched(minutes) as looks:
                times = _readings(spark, names, minutes * 60)
        pool.environment.stop_spark()
    return [*_ratios(times), *memory.growth("live_memory", looks, minutes, FIRST_LOOK_MINUTES)]


def _ratios(times: Mapping[str, Mapping[str, list[float]]]) -> Iterator[Measurement]:
    for merge, taken in times.items():
        detail = {way: round(statistics.median(each), 3) for way, each in taken.items()}
        slower = ratio(taken, "served", "compacted")
        yield Measurement(f"live_reads: {merge}: served / compacted", slower, "x", MOST_RATIO, False, detail)


def _merge(name: str) -> str:
    return "on_read" if int(name[1:]) % 2 else "on_write"


def _model(name: str) -> tuple[str, ModelText]:
    config = {"primary_key": "id", "input": "changes", "sequence_by": "turn", "merge": _merge(name)}
    return name, (config, f"select id, a, b, turn from {{{{ changes(source('raw', '{name}')) }}}}")


def _make_sources(spark: Any, names: list[str]) -> None:
    spark.sql("create namespace if not exists ods")
    rows = spark.range(0, ROWS, 1, 1).selectExpr("id", "id % 1000 as a", "concat('name-', id) as b", "0L as turn")
    for name in names:
        rows.writeTo(f"ods.{name}").tableProperty("format-version", "2").create()


def _wait_for_tables(reader: CatalogReader, names: list[str]) -> None:
    end = time.monotonic() + 300
    while not set(names) <= set(reader.list_relations("dws")):
        if time.monotonic() > end:
            raise RuntimeError("the service did not make its tables")
        time.sleep(1)


@contextmanager
def _writing(reader: CatalogReader, names: list[str]) -> Iterator[None]:
    """Every table has a commit every five seconds; without Spark, so that writing costs readers little."""
    ended = threading.Event()

    def write() -> None:
        for turn in itertools.count(1):
            began = time.monotonic()
            for place, name in enumerate(names):
                reader.load_table("ods", name).append(_changes(turn, place))
            if ended.wait(max(0.0, began + EVERY_SECONDS - time.monotonic())):
                return

    with ThreadPoolExecutor(1) as threads:
        running: Future[None] = threads.submit(write)
        try:
            yield
        finally:
            ended.set()
        running.result()


def _changes(turn: int, place: int) -> pa.Table:
    """New rows of keys that are scattered over the table."""
    keys = [(number * 7919 + turn * 104_729 + place) % ROWS for number in range(CHANGED)]
    columns: Mapping[str, Any] = {
        "id": keys,
        "a": [turn] * CHANGED,
        "b": [f"turn-{turn}"] * CHANGED,
        "turn": [turn] * CHANGED,
    }
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.string()), ("turn", pa.int64())])
    return pa.table(columns, schema=schema)


def _readings(spark: Any, names: list[str], length: float) -> dict[str, dict[str, list[float]]]:
    """Seconds of each reading of all columns, by `merge`: of a table as it is, and of a copy without changes."""
    times: dict[str, dict[str, list[float]]] = {
        merge: {"served": [], "compacted": []} for merge in ("on_write", "on_read")
    }
    end = time.monotonic() + length
    for name in itertools.cycle(names):
        if time.monotonic() > end:
            return times
        spark.table(f"dws.{name}").coalesce(1).sortWithinPartitions("id").writeTo(_COPY).using(
            "iceberg"
        ).createOrReplace()
        tables = {"served": f"dws.{name}", "compacted": _COPY}
        for _ in range(3):
            for way, table in tables.items():
                times[_merge(name)][way].append(seconds(lambda table=table: _read(spark, table)))
        latest = ", ".join(f"{way} {taken[-1]:.2f} s" for way, taken in times[_merge(name)].items())
        print(f"  {name}: {latest}", flush=True)
        time.sleep(max(0.0, min(LOOK_SECONDS, end - time.monotonic())))
    raise AssertionError("names go on")


def _read(spark: Any, table: str) -> list[Any]:
    return spark.table(table).selectExpr("count(*)", "sum(id)", "sum(a)", "sum(length(b))", "max(turn)").collect()
