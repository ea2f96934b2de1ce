"""A real database changes while ingestion dies at each of its effects: in the end tables are what the database has."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.effects import failpoint
from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job import BatchReport, Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from tests.ingest.servers import PostgreSQLServer
from tests.spark.warehouse import Warehouse

TABLES = ("orders", "items")


class Died(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def source(postgresql: PostgreSQLServer, lake: Warehouse, slot: str) -> IngestSource:
    """Two tables: one with long texts that updates leave out, and one with a key of two columns."""
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.orders (id int primary key, item text, amount numeric(12,2), at timestamptz, note text)",
        f"alter table {slot}.orders alter column note set storage external",
        f"create table {slot}.items (a int, b text, n bigint, primary key (a, b))",
        f"insert into {slot}.orders select g, 'i' || g % 7, g * 1.5, now(), repeat('x' || g, 2000) "
        "from generate_series(1, 200) g",
        f"insert into {slot}.items select g, 'b', g from generate_series(1, 50) g",
    )
    connection = {"host": "127.0.0.1", "port": postgresql.port, "database": "shop", "user": "postgres", "slot": slot}
    tables = tuple(IngestedTable(name, f"{slot}.{name}", lake.table(name), {}) for name in TABLES)
    return IngestSource("shop", "postgresql", connection, tables, lake.table("shop__dead_letters"))


def ingest(lake: Warehouse, source: IngestSource, **thresholds: Mapping[str, Any]) -> list[BatchReport]:
    under = lake.under(ingest={"lease_seconds": 0}, **thresholds)
    connection = connect(source, under.reader, lake.environment.session)
    reports: list[BatchReport] = []
    job = Ingestion(
        source, connection.transport, connection.form, under.reader, lake.environment.session, reports.append
    )
    job.run(once=True)
    return reports


@contextlib.contextmanager
def load(server: PostgreSQLServer, schema: str, seed: int) -> Iterator[None]:
    """While this lasts, rows are inserted, updated, moved to other keys and deleted, in transactions of two tables."""
    chance, stopped = random.Random(seed), threading.Event()

    def work() -> None:
        while not stopped.is_set():
            server.sql(";".join(["begin", *(statement(chance, schema) for _ in range(20)), "commit"]))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def statement(chance: random.Random, schema: str) -> str:
    key, other = chance.randrange(300), chance.randrange(300)
    return chance.choice(
        (
            f"insert into {schema}.orders values ({key}, 'new', {other}, now(), repeat('y', {other * 20})) "
            f"on conflict (id) do update set amount = {other}",
            f"update {schema}.orders set amount = amount + 1, item = 'u{other}' where id = {key}",
            f"update {schema}.orders set note = null where id = {key}",
            f"update {schema}.orders set id = {other + 300} where id = {key} "
            f"and not exists (select from {schema}.orders where id = {other + 300})",
            f"delete from {schema}.orders where id = {key} or id = {other + 300}",
            f"insert into {schema}.items values ({key}, 'c', {other}) on conflict (a, b) do update set n = {other}",
            f"delete from {schema}.items where a = {key}",
        )
    )


def is_equal(lake: Warehouse, server: PostgreSQLServer, schema: str) -> None:
    """Source and table are equal row by row, and each table is what its change table folds to."""
    columns = {"orders": "id, item, amount, extract(epoch from at) * 1000000, md5(note)", "items": "a, b, n"}
    own = {"orders": "id, item, amount, unix_micros(at), md5(note)", "items": "a, b, n"}
    for name in TABLES:
        at_source = server.sql(f"select {columns[name]} from {schema}.{name} order by 1, 2").splitlines()
        rows = lake.spark.table(lake.sql_name(name)).selectExpr(*own[name].split(", ")).collect()
        here = ["|".join("" if of is None else str(of) for of in row) for row in rows]
        assert sorted(line.replace(".000000", "") for line in at_source) == sorted(here)


def test_a_database_under_load_is_ingested_exactly_wherever_the_process_dies(
    lake: Warehouse, postgresql: PostgreSQLServer, source: IngestSource, slot: str
) -> None:
    died: set[str] = set()

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if name not in died:
            died.add(name)
            raise Died(name)
        return done

    with load(postgresql, slot, 1), failpoint(dying):
        for _ in range(40):
            with contextlib.suppress(Died):
                ingest(lake, source)
                break
    assert {"ingest.lease", "ingest.advance", "commit.append", "commit.publish", "view.replace"} <= died
    ingest(lake, source)
    is_equal(lake, postgresql, slot)
    for table, key in zip(source.tables, (("id",), ("a", "b")), strict=True):
        assert lake.broken(table.model(key)) == []
    assert lake.spark.table(str(source.ledger)).count() == 0


def test_an_interrupted_and_a_requested_snapshot_delete_what_is_gone(
    lake: Warehouse, postgresql: PostgreSQLServer, source: IngestSource, slot: str
) -> None:
    ingest(lake, source)
    postgresql.sql(f"select pg_drop_replication_slot('{slot}')", f"delete from {slot}.orders where id <= 100")
    with pytest.raises(Exception, match="arctic ingest --resync"):
        ingest(lake, source)
    connection = connect(source, lake.reader, lake.environment.session)
    resync = Ingestion(source, connection.transport, connection.form, lake.reader, lake.environment.session)
    resync.run(once=True, resync=True)
    is_equal(lake, postgresql, slot)
    assert lake.spark.table(lake.sql_name("orders__changes")).where("_action = 'delete'").count() == 100
    postgresql.sql(f"update {slot}.orders set item = 'late' where id = 150")
    ingest(lake, source)
    is_equal(lake, postgresql, slot)


def test_small_batches_are_ingested_as_exactly_as_large_ones(
    lake: Warehouse, postgresql: PostgreSQLServer, source: IngestSource, slot: str
) -> None:
    reports = ingest(lake, replace(source, trigger_seconds=0), debezium={"batch_events": 60})
    assert sum(report.count for report in reports) == 250
    assert all(of.read == of.applied for report in reports for of in report.tables)
    is_equal(lake, postgresql, slot)
