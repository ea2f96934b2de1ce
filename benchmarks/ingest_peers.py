"""A table of PostgreSQL in Iceberg until a reader sees its rows as they are: by us, and by handlers of pydbzengine.

The same Debezium in the same process reads the same snapshot and the same updates. The handlers append events, so their
readers need a view that picks each key's newest event; ours reads a table. Beside rows as they are, ours has exact
changes with old images, notes its position in each commit, and follows columns; the handlers repeat events after a
death.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.thresholds import SHIPPED
from benchmarks.ingest import DDL, postgresql_source, values
from benchmarks.lake import NAMESPACE, Lake, lake
from benchmarks.measure import Measurement

MUST = 1.5
_PEERS = "handlers"
_SEEN = "select count(*), sum(id), sum(customer), sum(amount) from "
_OURS = f"lake.{NAMESPACE}.a"
_EVENTS_AS_JSON = """(
    select id, customer, amount from (
        select from_json(coalesce(after, before), 'id bigint, customer int, amount decimal(10,2)') as row, op,
            row_number() over (
                partition by _dbz_event_key order by cast(get_json_object(source, '$.lsn') as bigint) desc) as place
        from lake.handlers.{table}) lateral view inline(array(row)) of as id, customer, amount
    where place = 1 and op <> 'd')"""
_FLAT_ROWS = """(
    select id, customer, cast(amount as decimal(10,2)) as amount from (
        select *, row_number() over (partition by id order by __source_lsn desc) as place from lake.handlers.{table})
    where place = 1 and __deleted <> 'true')"""
_EVENT_FIELDS: Mapping[str, PrimitiveType] = {
    "op": StringType(),
    "ts_ms": LongType(),
    "ts_us": LongType(),
    "ts_ns": LongType(),
    "source": StringType(),
    "before": StringType(),
    "after": StringType(),
    "_dbz_event_key": StringType(),
    "_dbz_event_key_hash": UUIDType(),
    "_consumed_at": TimestampType(),
}
_FLAT_FIELDS: Mapping[str, PrimitiveType] = {
    "id": LongType(),
    "customer": LongType(),
    "item": StringType(),
    "amount": StringType(),
    "note": StringType(),
    "__op": StringType(),
    "__source_lsn": LongType(),
    "__deleted": StringType(),
    "_consumed_at": TimestamptzType(),
    "_dbz_event_key": StringType(),
    "_dbz_event_key_hash": StringType(),
}
"""The columns of the handlers' tables, which they would also make themselves, but partitioned by day."""

_FLATTEN = {
    "transforms": "flat",
    "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.flat.add.fields": "op,source.lsn",
    "transforms.flat.delete.tombstone.handling.mode": "rewrite",
}


def measure(events: int) -> list[Measurement]:
    """Their seconds divided by ours: half of the events are rows of a snapshot, the other half updates of these."""
    from pydbzengine.handlers.iceberg import IcebergChangeHandler, IcebergChangeHandlerV2

    ways: Mapping[str, Callable[[Lake, _Load], tuple[float, Any]]] = {
        "ours": _by_us,
        "IcebergChangeHandler": lambda bench, load: _by_handler(
            bench, load, IcebergChangeHandler, {}, _EVENTS_AS_JSON, _EVENT_FIELDS
        ),
        "IcebergChangeHandlerV2": lambda bench, load: _by_handler(
            bench, load, IcebergChangeHandlerV2, _FLATTEN, _FLAT_ROWS, _FLAT_FIELDS
        ),
    }
    taken = {}
    with lake(0) as bench:
        bench.reader.create_namespace(_PEERS)
        # The first round, of fewer events, warms up.
        for count in (events // 10, events):
            for name, run in ways.items():
                with _Load(count) as load:
                    taken[name], seen = run(bench, load)
                    load.check(seen)
                print(f"  {name}: {count:,} events in {taken[name]:.1f} s", flush=True)
    return [
        Measurement(f"ingest_peers: {name} / ours", taken[name] / taken["ours"], "x", MUST, True, taken)
        for name in taken
        if name != "ours"
    ]


class _Load:
    """A server with a table that has half of the events as rows, and the other half as updates when asked for."""

    def __init__(self, events: int) -> None:
        from tests.ingest.servers import PostgreSQLServer

        self.rows = events // 2
        self._server = PostgreSQLServer()
        self._server.sql(f"create table a ({DDL})")
        self._server.sql(f"insert into a select {values(0)} from generate_series(1, {self.rows}) g")
        self.connection = {"host": "127.0.0.1", "port": self._server.port, "database": "shop", "user": "postgres"}

    def __enter__(self) -> _Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.remove()

    def update(self) -> None:
        self._server.sql("update a set amount = amount + 1")

    def check(self, seen: Any) -> None:
        """Raises RuntimeError where a reader does not see what the server has."""
        expected = self._server.sql("select count(*), sum(id), sum(customer), sum(amount) from a").strip()
        join = "|".join(map(str, seen))
        if join != expected:
            raise RuntimeError(f"a reader sees {join}, and the server has {expected}")


class _Clock:
    """Runs from the first event on, and tells when so many have come."""

    def __init__(self) -> None:
        self._count, self._began, self._come = 0, 0.0, threading.Condition()

    def add(self, count: int) -> None:
        with self._come:
            self._began = self._began or time.perf_counter()
            self._count += count
            self._come.notify_all()

    def start(self) -> None:
        with self._come:
            self._began = self._began or time.perf_counter()

    def wait(self, count: int, running: Future[None]) -> None:
        with self._come:
            while self._count < count:
                self._come.wait(0.5)
                if running.done():
                    running.result()
                    raise RuntimeError(f"it ended after {self._count:,} events")

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began


def _by_us(bench: Lake, load: _Load) -> tuple[float, Any]:
    source = postgresql_source({**load.connection, "slot": "ours"})
    source = replace(source, tables=source.tables[:1])
    clock = _Clock()
    way = connect(source, bench.reader, bench.spark.newSession)
    transport = _Timed(way.transport, clock)

    def report(batch: BatchReport) -> None:
        clock.add(batch.count)

    for name in ("a", "a__changes", "a__base", source.dead_letter_table.name):
        bench.spark.sql(f"drop {'view' if name == 'a' else 'table'} if exists lake.{NAMESPACE}.{name}")
    job = Ingestion(
        source, replace(way, transport=transport), bench.reader, bench.spark.newSession, JobListeners(report)
    )
    return _timed(bench, load, clock, lambda: job.run(False), job.stop, _OURS)


class _Timed:
    """A transport whose first batch starts a clock."""

    def __init__(self, transport: Any, clock: _Clock) -> None:
        self._transport, self._clock = transport, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def read_batches(self, until_drained: bool) -> Any:
        for batch in self._transport.read_batches(until_drained):
            self._clock.start()
            yield batch


def _by_handler(
    bench: Lake,
    load: _Load,
    handler: Any,
    properties: Mapping[str, str],
    seen: str,
    fields: Mapping[str, PrimitiveType],
) -> tuple[float, Any]:
    from pydbzengine import DebeziumJsonEngine

    clock = _Clock()

    class Counting(handler):  # type: ignore[misc]
        def handleJsonBatch(self, records: Any) -> None:  # noqa: N802 - theirs
            clock.start()
            super().handleJsonBatch(records)
            clock.add(len(records))

    prefix = f"{handler.__name__}_{load.rows}".lower()
    required = ("op", "source")
    schema = [
        NestedField(i, index, kind, required=index in required) for i, (index, kind) in enumerate(fields.items(), 1)
    ]
    bench.reader.catalog.create_table((_PEERS, f"{prefix}_public_a"), Schema(*schema))
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        given = {**_properties(load, Path(folder), prefix), **properties}
        engine = DebeziumJsonEngine(properties=given, handler=Counting(bench.reader.catalog, (_PEERS,)))
        return _timed(bench, load, clock, engine.run, engine.close, seen.format(table=f"{prefix}_public_a"))


def _properties(load: _Load, folder: Path, prefix: str) -> dict[str, str]:
    """A PostgreSQL connector as its documentation describes it, with our number of events in a batch."""
    batch = SHIPPED.debezium.poll_events
    return {
        "name": "peer",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "topic.prefix": prefix,
        "database.hostname": "127.0.0.1",
        "database.port": str(load.connection["port"]),
        "database.user": "postgres",
        "database.password": "",
        "database.dbname": "shop",
        "plugin.name": "pgoutput",
        "slot.name": "peer",
        "publication.name": "peer",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.a",
        "snapshot.mode": "initial",
        "decimal.handling.mode": "string",
        "tombstones.on.delete": "false",
        "poll.interval.ms": "100",
        "max.batch.size": str(batch),
        "max.queue.size": str(2 * batch),
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "1000",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def _timed(
    bench: Lake, load: _Load, clock: _Clock, run: Callable[[], None], stop: Callable[[], None], rows: str
) -> tuple[float, Any]:
    """Seconds from the first event until all are there and a reader has seen the rows; what it has seen."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            clock.wait(load.rows, running)
            load.update()
            clock.wait(2 * load.rows, running)
            seen = bench.spark.newSession().sql(_SEEN + rows).collect()[0]
            return clock.seconds, seen
        finally:
            stop()
            running.result()
