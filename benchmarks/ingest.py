"""Change events into keyed tables: how many a second, from files and from a database through Debezium's engine."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.model.names import TableName
from benchmarks.lake import NAMESPACE, Lake, lake
from benchmarks.measure import Measurement, seconds

TABLES = ("a", "b", "c", "d")
COLUMNS = {"id": "bigint", "customer": "int", "item": "string", "amount": "decimal(10,2) as plain", "note": "string"}
DDL = "id bigint primary key, customer int, item text, amount numeric(10,2), note text"
NEW_KEYS = 1_000_000_000
"""How far the keys are apart that turns insert."""

MUST_FILES, MUST_ENGINE = 60_000.0, 0.6


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
        lines = (event_text(key, turn, "c" if key % 2 or not turn else "u") for key in range(count // len(TABLES)))
        (folder / table / f"{turn:03}.json").write_text("\n".join(lines))
    return count // len(TABLES) * len(TABLES)


def event_text(key: int, turn: int, operation: str) -> str:
    """A Debezium event of a turn: an update of a key, or an insert of one that no other turn has."""
    own = key if operation == "u" else key + turn * NEW_KEYS
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
                server.sql(f"insert into {table} select {values(0)} from generate_series(1, {count // 4}) g")
            measurements = [
                Measurement(f"ingest_debezium: {name}: tables / thrown away", value, "x", MUST_ENGINE, True, detail)
                for name, value, detail in _engine(bench, server)
            ]
    finally:
        server.remove()
    return measurements


def values(turn: int) -> str:
    """A row of a table in SQL, of key `g`; another one in each turn."""
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


_POSITIONS: dict[str, str] = {}


def _thrown_away(bench: Lake, connection: dict[str, Any]) -> float:
    """Events a second, from the first batch on, of a consumer that keeps nothing."""
    source = postgresql_source(connection)
    transport = connect(source, bench.reader, lambda: bench.spark).transport
    transport.open_at(_POSITIONS.get("thrown", transport.initial))
    done: list[tuple[float, int]] = []
    with _closed(transport):
        for batch in transport.read_batches(True):
            transport.acknowledge_batch(batch)
            _POSITIONS["thrown"] = batch.position
            done.append((time.perf_counter(), batch.count))
    return _rate(done)


def _published(bench: Lake, connection: dict[str, Any]) -> float:
    """Events a second, from the first batch on, until all tables have them."""
    done: list[tuple[float, int]] = []
    source = postgresql_source(connection)
    ingest(bench, source, lambda report: done.append((time.perf_counter(), report.count)))
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


def postgresql_source(connection: dict[str, Any]) -> IngestSource:
    """The four tables of a PostgreSQL server, kept by `id`."""
    return _source("postgresql", {"user": "postgres", **connection}, {})


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
    ingest(bench, _source(connector, connection, columns), report)


def ingest(bench: Lake, source: IngestSource, report: Callable[[BatchReport], None] = lambda _: None) -> None:
    """Ingests what a source has now."""
    way = connect(source, bench.reader, bench.spark.newSession)
    Ingestion(source, way, bench.reader, bench.spark.newSession, JobListeners(report)).run(once=True)
