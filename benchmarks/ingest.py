"""Change events into keyed tables: how many a second, from files and from a database through Debezium's engine."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job import BatchReport, Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.statement import name as quoted
from benchmarks.lake import NAMESPACE, Lake, lake
from benchmarks.measure import Measurement, seconds

TABLES = ("a", "b", "c", "d")
COLUMNS = {"id": "bigint", "customer": "int", "item": "string", "amount": "decimal(10,2) as plain", "note": "string"}
DDL = "id bigint primary key, customer int, item text, amount numeric(10,2), note text"
MUST_FILES, MUST_ENGINE, MUST_LATENCY = 60_000.0, 0.6, 6.0


def measure_files(events: int) -> list[Measurement]:
    """Events a second from files of Debezium JSON to four tables.

    A round has a tenth of `events`, and the first two warm up.
    """
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder, lake(0) as bench:
        rates = []
        for turn in range(6):
            count = _write_files(Path(folder), events // 10, turn)
            taken = seconds(lambda: _ingest(bench, "files", {"path": folder}, COLUMNS))
            print(f"  round {turn}: {count / taken:,.0f} events/s", flush=True)
            rates += [count / taken] if turn > 1 else []
    value = statistics.median(rates)
    return [Measurement("ingest_files: events a second", value, "1/s", MUST_FILES, True, {"rates": rates})]


def _write_files(folder: Path, count: int, turn: int) -> int:
    """A file for each table: inserts of new keys, and as many updates of old ones."""
    for table in TABLES:
        (folder / table).mkdir(exist_ok=True)
        lines = (_event(key, turn, "c" if key % 2 or not turn else "u") for key in range(count // len(TABLES)))
        (folder / table / f"{turn:03}.json").write_text("\n".join(lines))
    return count // len(TABLES) * len(TABLES)


def _event(key: int, turn: int, operation: str) -> str:
    own = key if operation == "u" else key + turn * 1_000_000_000
    row = {"id": own, "customer": key % 1000, "item": f"item {key % 97}", "amount": key % 10_000 / 4, "note": "n" * 40}
    source = {
        "version": "3.6",
        "connector": "postgresql",
        "ts_us": 1_700_000_000_000_000 + key,
        "table": "t",
        "lsn": key,
    }
    return json.dumps({"before": None, "after": row, "source": source, "op": operation, "transaction": None})


def measure_debezium(events: int) -> list[Measurement]:
    """A snapshot and a stream of PostgreSQL into four tables, against the same engine whose events are thrown away."""
    from tests.ingest.servers import PostgreSQLServer

    count = events // 10
    server = PostgreSQLServer()
    try:
        with lake(0) as bench:
            for table in TABLES:
                server.sql(f"create table {table} ({DDL})")
                server.sql(f"insert into {table} select {_values(0)} from generate_series(1, {count // 4}) g")
            found = [
                Measurement(f"ingest_debezium: {name}: tables / thrown away", value, "x", MUST_ENGINE, True, detail)
                for name, value, detail in _engine(bench, server)
            ]
    finally:
        server.remove()
    return found


def _values(turn: int) -> str:
    return f"g, g % 1000, 'item ' || g % 97, g % 10000 / 4.0 + {turn}, repeat('n', 40)"


def _engine(bench: Lake, server: Any) -> Iterator[tuple[str, float, dict[str, float]]]:
    connection = {"host": "127.0.0.1", "port": server.port, "database": "shop", "user": "postgres"}
    for part in ("snapshot", "stream"):
        rates = {}
        for name in ("thrown away", "tables"):
            slot = {**connection, "slot": f"s_{name.replace(' ', '_')}"}
            if part == "stream":
                for table in TABLES:
                    server.sql(f"update {table} set amount = amount + 1")
            run = _thrown_away if name == "thrown away" else _published
            rates[name] = run(bench, slot)
            print(f"  {part}: {name}: {rates[name]:,.0f} events/s", flush=True)
        yield part, rates["tables"] / rates["thrown away"], rates


def measure_latency(minutes: float) -> list[Measurement]:
    """How old rows are when readers can see them, while `pgbench` writes 500 transactions a second to PostgreSQL."""
    from tests.ingest.servers import PostgreSQLServer

    server = PostgreSQLServer()
    try:
        with lake(0) as bench:
            server.sql(f"create table a ({DDL}, at timestamptz)")
            server.sql(f"insert into a select {_values(0)}, clock_timestamp() from generate_series(1, 100000) g")
            connection = {"host": "127.0.0.1", "port": server.port, "database": "shop", "user": "postgres"}
            source = replace(_source("postgresql", connection, {}), tables=_source("postgresql", {}, {}).tables[:1])
            way = connect(source, bench.reader, bench.spark.newSession)
            job = Ingestion(source, way.transport, way.form, bench.reader, bench.spark.newSession)
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(job.run, False)
                time.sleep(WARM_UP_SECONDS)
                server.pgbench(SCRIPT, "-R", "500", "-c", "4", "-T", str(round(minutes * 60)))
                time.sleep(WARM_UP_SECONDS)
                job.stop()
                running.result()
            return _latencies(bench, source.tables[0].table)
    finally:
        server.remove()


WARM_UP_SECONDS = 20
SCRIPT = """\\set id random(1, 200000)
insert into a values (:id, 1, 'item', 1, 'note', clock_timestamp())
on conflict (id) do update set amount = a.amount + 1, at = clock_timestamp();
"""


def _latencies(bench: Lake, table: TableName) -> list[Measurement]:
    """From each row's time to the commit of its change; those of the first load are left out."""
    changes = bench.reader.load_table(table.changes.schema, table.changes.name)
    commits = [(of.sequence_number, of.timestamp_ms) for of in changes.metadata.snapshots]
    at = bench.spark.createDataFrame(commits, "sequence bigint, millis bigint")
    rows = bench.spark.table(quoted(*table.changes.parts)).where("item = 'item'")
    aged = rows.join(at, F.col("_last_updated_sequence_number") == F.col("sequence"))
    age = (F.col("millis") - F.unix_millis("at")) / 1000
    found = aged.agg(F.percentile(age, F.array(F.lit(0.5), F.lit(0.99))), F.count(age)).collect()[0]
    detail = {"median": found[0][0], "rows": found[1], "commits": len(commits)}
    print(f"  {detail}", flush=True)
    return [Measurement("ingest_latency: 99th percentile", found[0][1], "s", MUST_LATENCY, False, detail)]


_POSITIONS: dict[str, str] = {}


def _thrown_away(bench: Lake, connection: dict[str, Any]) -> float:
    """Events a second, from the first batch on, of a consumer that keeps nothing."""
    source = _source("postgresql", connection, {})
    transport = connect(source, bench.reader, lambda: bench.spark).transport
    transport.open(_POSITIONS.get("thrown", transport.initial))
    done: list[tuple[float, int]] = []
    with _closed(transport):
        for batch in transport.batches(True):
            transport.acknowledge(batch)
            _POSITIONS["thrown"] = batch.position
            done.append((time.perf_counter(), batch.count))
    return _rate(done)


def _published(bench: Lake, connection: dict[str, Any]) -> float:
    """Events a second, from the first batch on, until all tables have them."""
    done: list[tuple[float, int]] = []
    _ingest(bench, "postgresql", connection, {}, lambda report: done.append((time.perf_counter(), report.count)))
    return _rate(done)


def _rate(done: list[tuple[float, int]]) -> float:
    """From when the first batch is done, as starting the engine takes seconds of its own."""
    (begun, _), *rest = [(at, count) for at, count in done if count]
    return sum(count for _, count in rest) / (rest[-1][0] - begun)


@contextmanager
def _closed(transport: Any) -> Iterator[None]:
    try:
        yield
    finally:
        transport.close()


def _source(connector: str, connection: dict[str, Any], columns: dict[str, str]) -> IngestSource:
    schema = "public." if connector == "postgresql" else ""
    settings = {"primary_key": "id"}
    tables = tuple(
        IngestedTable(name, f"{schema}{name}", TableName("lake", NAMESPACE, name), settings, columns) for name in TABLES
    )
    return IngestSource("bench", connector, connection, tables, TableName("lake", NAMESPACE, "bench__dead_letters"))


def _ingest(
    bench: Lake,
    connector: str,
    connection: dict[str, Any],
    columns: dict[str, str],
    report: Callable[[BatchReport], None] = lambda _: None,
) -> None:
    source = _source(connector, connection, columns)
    way = connect(source, bench.reader, bench.spark.newSession)
    Ingestion(source, way.transport, way.form, bench.reader, bench.spark.newSession, report).run(once=True)
