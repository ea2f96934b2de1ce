"""How old rows of a database are when readers of their ODS table see them, and whether memory grows meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F

from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks import memory
from benchmarks.ingest import DDL, postgresql_source, values
from benchmarks.lake import Lake, lake
from benchmarks.measure import Measurement

MUST_LATENCY = 6.0
RATE = 500
WARM_UP_SECONDS = 40
"""How long the load lasts before rows count: the first batches of a stream wait for Java to compile their code."""

FIRST_LOOK_MINUTES = 2.0
"""When memory is first looked at."""

_LOADED_ROWS = 100_000
_SCRIPT = """\\set id random(1, 200000)
insert into a values (:id, 1, 'item', 1, 'note', clock_timestamp())
on conflict (id) do update set amount = a.amount + 1, at = clock_timestamp();
"""


def measure(minutes: float) -> list[Measurement]:
    """The age of rows at the commits of their changes, while `pgbench` writes 500 transactions a second to PostgreSQL.

    Where it lasts long enough, also the memory at the end divided by that after two minutes.
    """
    from tests.ingest.servers import PostgreSQLServer

    server = PostgreSQLServer()
    try:
        with lake(0) as bench:
            server.sql(f"create table a ({DDL}, at timestamptz)")
            server.sql(f"insert into a select {values(0)}, clock_timestamp() from generate_series(1, {_LOADED_ROWS}) g")
            source = postgresql_source({"host": "127.0.0.1", "port": server.port, "database": "shop"})
            source = replace(source, tables=source.tables[:1])
            with _ingested(bench, source):
                _load(server, WARM_UP_SECONDS)
                began = time.time()
                with memory.watched(minutes) as looks:
                    _load(server, minutes * 60)
            grown = memory.growth("ingest_memory", looks, minutes, FIRST_LOOK_MINUTES)
            return [_latency(bench, source.tables[0].table, began), *grown]
    finally:
        server.remove()


def _load(server: Any, seconds: float) -> None:
    server.pgbench(_SCRIPT, "-R", str(RATE), "-c", "4", "-T", str(round(seconds)))


@contextmanager
def _ingested(bench: Lake, source: Any) -> Iterator[None]:
    """Goes on from when the first load is done; at the end waits until everything is ingested."""
    loaded, idle = threading.Event(), threading.Event()
    rows = 0

    def report(batch: BatchReport) -> None:
        nonlocal rows
        rows += batch.count
        if rows >= _LOADED_ROWS:
            loaded.set()

    way = connect(source, bench.reader, bench.spark.newSession)
    job = Ingestion(source, way, bench.reader, bench.spark.newSession, JobListeners(report))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job.run, False)
        try:
            _wait(loaded, running)
            yield
            before = -1
            while rows != before:
                before = rows
                idle.wait(10)
        finally:
            job.stop()
            running.result()


def _wait(event: threading.Event, running: Future[None]) -> None:
    while not event.wait(0.5):
        if running.done():
            running.result()
            raise RuntimeError("ingestion ended before everything was loaded")


def _latency(bench: Lake, table: TableName, began: float) -> Measurement:
    """From the time that each row has to the commit of its change, of those since `began`, in seconds since 1970."""
    changes = bench.reader.load_table(table.changes.schema, table.changes.name)
    commits = [(snapshot.sequence_number, snapshot.timestamp_ms) for snapshot in changes.metadata.snapshots]
    at = bench.spark.createDataFrame(commits, "sequence bigint, millis bigint")
    rows = bench.spark.table(quoted(*table.changes.parts)).where(F.unix_micros("at") >= F.lit(int(began * 1e6)))
    aged = rows.join(at, F.col("_last_updated_sequence_number") == F.col("sequence"))
    age = (F.col("millis") - F.unix_millis("at")) / 1000
    parts = F.array(F.lit(0.5), F.lit(0.99), F.lit(1.0))
    (median, high, most), count = aged.agg(F.percentile(age, parts), F.count(age)).collect()[0]
    minute = F.floor((F.unix_millis("at") - F.lit(round(began * 1000))) / 60_000)
    by_minute = aged.groupBy(minute.alias("minute")).agg(F.percentile(age, parts)).orderBy("minute").collect()
    print(f"  seconds by minute: {[[round(delay, 1) for delay in delays] for _, delays in by_minute]}", flush=True)
    detail = {"median": median, "most": most, "rows": count, "of_rows": rows.count(), "commits": len(commits)}
    print(f"  {detail}", flush=True)
    return Measurement("ingest_latency: 99th percentile", high, "s", MUST_LATENCY, False, detail)
