"""A real database changes while ingestion dies at each of its effects: in the end tables are what the database has."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import DataError, SourceError
from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.job.reports import BatchReport, JobListeners
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.ingest.servers import MariaDBServer, PostgreSQLServer
from tests.spark.warehouse import Warehouse

TABLES = ("orders", "items", "log")
ELSEWHERE = ("ingest.columns", "ingest.create_table", "ingest.layout")
"""Effects that suites without a database let processes die at."""


class Died(Exception):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Database:
    """A database under test: how it creates tables, changes them at random, and shows their rows."""

    connector: str
    server: PostgreSQLServer | MariaDBServer
    schema: str
    setup: tuple[str, ...]
    upsert: str
    shown: Mapping[str, str]

    def sql(self, *statements: str) -> str:
        return self.server.sql(*(statement.format(at=self.schema) for statement in statements))


def postgresql_of(server: PostgreSQLServer, schema: str) -> Database:
    """With long texts that updates leave out."""
    setup = (
        "create schema {at}",
        "create table {at}.orders (id int primary key, item text, amount numeric(12,2), at timestamptz, note text)",
        "alter table {at}.orders alter column note set storage external",
        "create table {at}.items (a int, b text, n bigint, primary key (a, b))",
        "insert into {at}.orders select g, 'i' || g % 7, g * 1.5, now(), repeat('x' || g, 2000) "
        "from generate_series(1, 200) g",
        "insert into {at}.items select g, 'b', g from generate_series(1, 50) g",
        "create table {at}.log (n int, what text)",
        "insert into {at}.log select g % 3, 'w' from generate_series(1, 30) g",
    )
    shown = {
        "orders": "select concat_ws('|', id, item, amount, (extract(epoch from at) * 1000000)::bigint, md5(note)) "
        "from {at}.orders",
        "items": "select concat_ws('|', a, b, n) from {at}.items",
        "log": "select concat_ws('|', n, what) from {at}.log",
    }
    return Database("postgresql", server, schema, setup, "on conflict ({key}) do update set {column} = {value}", shown)


def mariadb_of(server: MariaDBServer, schema: str) -> Database:
    setup = (
        "create database {at}",
        "create table {at}.orders "
        "(id int primary key, item text, amount decimal(12,2), at timestamp(6), note longtext)",
        "create table {at}.items (a int, b varchar(20), n bigint, primary key (a, b))",
        "insert into {at}.orders select seq, concat('i', seq % 7), seq * 1.5, now(6), repeat(concat('x', seq), 2000) "
        "from seq_1_to_200",
        "insert into {at}.items select seq, 'b', seq from seq_1_to_50",
        "create table {at}.log (n int, what text)",
        "insert into {at}.log select seq % 3, 'w' from seq_1_to_30",
    )
    shown = {
        "orders": "select concat_ws('|', id, item, amount, cast(unix_timestamp(at) * 1000000 as signed), md5(note)) "
        "from {at}.orders",
        "items": "select concat_ws('|', a, b, n) from {at}.items",
        "log": "select concat_ws('|', n, what) from {at}.log",
    }
    return Database("mariadb", server, schema, setup, "on duplicate key update {column} = {value}", shown)


BOTH = pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture
def database(request: pytest.FixtureRequest, slot: str) -> Database:
    server = request.getfixturevalue(request.param)
    made = postgresql_of(server, slot) if request.param == "postgresql" else mariadb_of(server, slot)
    made.sql(*made.setup)
    return made


@pytest.fixture
def source(database: Database, lake: Warehouse) -> IngestSource:
    connection = {
        "host": "127.0.0.1",
        "port": database.server.port,
        "database": "shop" if database.connector == "postgresql" else database.schema,
        "user": "postgres" if database.connector == "postgresql" else "root",
        "slot": database.schema,
    }
    tables = tuple(
        IngestedTable(name, f"{database.schema}.{name}", lake.table(name), {}, reports_key=True) for name in TABLES
    )
    return IngestSource("shop", database.connector, connection, tables, lake.table("shop__dead_letters"))


def ingest(
    lake: Warehouse, source: IngestSource, tables: Collection[str] = (), **thresholds: Mapping[str, Any]
) -> list[BatchReport]:
    """Ingests a source to its end, some tables from another snapshot on."""
    under = lake.under(ingest={"lease_seconds": 0}, **thresholds)
    connection = connect(source, under.reader, lake.environment.new_session)
    reports: list[BatchReport] = []
    job = Ingestion(source, connection, under.reader, lake.environment.new_session, JobListeners(reports.append))
    job.run(once=True, tables=tables)
    return reports


def ingest_dying(lake: Warehouse, source: IngestSource, at: tuple[str, ...] = ("ingest.", "commit.")) -> set[str]:
    """Ingests, dies once after each effect whose name begins so, and goes on; returns the names of these effects."""
    died: set[str] = set()

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        if name not in died and name not in ELSEWHERE and name.startswith(at):
            died.add(name)
            raise Died(name)
        return done

    with set_failpoint(dying):
        for _ in range(40):
            with contextlib.suppress(Died):
                ingest(lake, source)
                break
    return died


@contextlib.contextmanager
def load(database: Database, seed: int, pause: float = 0.0) -> Iterator[None]:
    """While this lasts, rows are inserted, updated, moved to other keys and deleted, in transactions of two tables.

    `pause` is the time between two transactions, in seconds.
    """
    chance, stopped = random.Random(seed), threading.Event()

    def work() -> None:
        while not stopped.wait(pause):
            database.sql(";".join(["begin", *(statement(chance, database) for _ in range(20)), "commit"]))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def statement(chance: random.Random, database: Database) -> str:
    key, other = chance.randrange(300), chance.randrange(300)
    amount = database.upsert.format(key="id", column="amount", value=other)
    n = database.upsert.format(key="a, b", column="n", value=other)
    return chance.choice(
        (
            f"insert into {{at}}.orders values ({key}, 'new', {other}, now(), repeat('y', {other * 20})) {amount}",
            f"update {{at}}.orders set amount = amount + 1, item = 'u{other}' where id = {key}",
            f"update {{at}}.orders set note = null where id = {key}",
            f"update {{at}}.orders set id = {other + 300} where id = {key} "
            f"and not exists (select 1 from (select id from {{at}}.orders) o where o.id = {other + 300})",
            f"delete from {{at}}.orders where id = {key} or id = {other + 300}",
            f"insert into {{at}}.items (a, b, n) values ({key}, 'c', {other}) {n}",
            f"delete from {{at}}.items where a = {key}",
            f"insert into {{at}}.log values ({key % 3}, 'x'), ({key % 3}, 'x')",
        )
    )


def is_equal(lake: Warehouse, database: Database) -> None:
    """Source and table are equal row by row."""
    own = {"orders": "id, item, amount, unix_micros(at), md5(note)", "items": "a, b, n", "log": "n, what"}
    for name in TABLES:
        rows = lake.spark.table(lake.sql_name(name)).selectExpr(f"concat_ws('|', {own[name]}) as row").collect()
        assert sorted(database.sql(database.shown[name]).splitlines()) == sorted(row[0] for row in rows)


def is_exact(lake: Warehouse, database: Database, source: IngestSource) -> None:
    """Tables are what the database has, and what their changes say."""
    is_equal(lake, database)
    for table, key in zip(source.tables, (("id",), ("a", "b")), strict=False):
        assert lake.broken(table.to_model(key)) == []


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("at", [("ingest.advance", "commit.publish"), ("",)])
def test_a_database_under_load_is_ingested_exactly_wherever_the_process_dies(
    lake: Warehouse, database: Database, source: IngestSource, at: tuple[str, ...]
) -> None:
    """It dies once after each effect whose name begins so; the empty text stands for all."""
    with load(database, 1):
        died = ingest_dying(lake, source, at=at)
    telling = {"ingest.lease", "ingest.advance", "commit.append", "commit.publish"}
    assert {name for name in telling if name.startswith(at)} <= died
    assert ("view.replace" in died) == ("" in at)
    ingest(lake, source)
    is_exact(lake, database, source)
    assert lake.spark.table(str(source.dead_letter_table)).count() == 0


@pytest.mark.slow
@BOTH
def test_an_interrupted_and_a_requested_snapshot_delete_what_is_gone(
    lake: Warehouse, database: Database, source: IngestSource
) -> None:
    ingest(lake, source)
    database.sql("delete from {at}.orders where id <= 100")
    if isinstance(database.server, PostgreSQLServer):
        database.sql("select pg_drop_replication_slot('{at}')")
    else:
        database.sql("flush binary logs")
        database.server.purge_logs()
    with pytest.raises(SourceError, match="arctic ingest --resync"):
        ingest(lake, source)
    connection = connect(source, lake.reader, lake.environment.new_session)
    resync = Ingestion(source, connection, lake.reader, lake.environment.new_session)
    resync.run(once=True, resync=True)
    is_equal(lake, database)
    assert lake.spark.table(lake.sql_name("orders__changes")).where("_action = 'delete'").count() == 100
    database.sql("update {at}.orders set item = 'late' where id = 150")
    ingest(lake, source)
    is_equal(lake, database)


@pytest.mark.slow
@BOTH
def test_a_table_is_loaded_alongside_the_stream_exactly_wherever_the_process_dies(
    lake: Warehouse, database: Database, source: IngestSource
) -> None:
    """One is declared later and was altered since; then one is loaded again that was restored to an old version."""
    orders = source.tables[0].to_model(("id",))
    ingest(lake, replace(source, tables=source.tables[:1]))
    first = lake.state(orders).changes
    assert first is not None
    assert first.head is not None
    database.sql("insert into {at}.items values (1000, 'b', 1)", "alter table {at}.items add more int")
    places = ("commit.publish", "ingest.advance")
    with load(database, 2, pause=1.0):
        assert ingest_dying(lake, source, places) == {*places}
    ingest(lake, source)
    is_equal(lake, database)
    restore_version(lake.session_of(orders), first.head.snapshot)
    with load(database, 3, pause=1.0):
        ingest(lake, source, ["orders"])
    ingest(lake, source)
    is_exact(lake, database, source)


@contextlib.contextmanager
def following(lake: Warehouse, source: IngestSource) -> Iterator[Future[None]]:
    """While this lasts, a source is ingested; raises what that raises."""
    under = lake.under(ingest={"lease_seconds": 0})
    connection = connect(source, under.reader, lake.environment.new_session)
    job = Ingestion(source, connection, under.reader, lake.environment.new_session)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job.run, False)
        try:
            yield running
        finally:
            job.stop()
        running.result()


def has_come(is_there: Callable[[], bool]) -> bool:
    """Whether something is there before the test gives up."""
    until = time.monotonic() + 120
    while not (outcome := is_there()) and time.monotonic() < until:
        time.sleep(0.1)
    return outcome


def followed(lake: Warehouse, source: IngestSource) -> frozenset[str]:
    """The tables that the stream of a source has."""
    known = observe_progress(lake.reader, source.dead_letter_table)
    return (known.progress.tables if known is not None else None) or frozenset()


@pytest.mark.slow
@BOTH
def test_a_stream_takes_tables_on_exactly_wherever_the_process_dies(
    lake: Warehouse, database: Database, source: IngestSource
) -> None:
    """In the stream, which goes on, or in the load beside it."""
    ingest(lake, replace(source, tables=source.tables[:1]))
    died: set[str] = set()
    names = ("ingest.create_stage", "ingest.stage", "ingest.drop_stage", "ingest.advance", "commit.publish")

    def dying(name: str, action: Callable[[], Any]) -> Any:
        done = action()
        thread = "load" if threading.current_thread().name.startswith("load") else "stream"
        if name in names and (place := f"{name} of the {thread}") not in died:
            died.add(place)
            raise Died(place)
        return done

    with load(database, 5, pause=0.3), set_failpoint(dying):
        for _ in range(20):
            with contextlib.suppress(Died), following(lake, source) as running:
                assert has_come(lambda value=running: value.done() or len(followed(lake, source)) == len(TABLES))
            if len(followed(lake, source)) == len(TABLES):
                break
    assert {"ingest.create_stage of the load", "commit.publish of the load", "ingest.advance of the stream"} <= died
    ingest(lake, source)
    is_exact(lake, database, source)


@pytest.mark.slow
@BOTH
def test_other_tables_stay_fresh_while_one_is_loaded(lake: Warehouse, database: Database, source: IngestSource) -> None:
    """The load is held up until rows have come that others were given after it began."""
    ingest(lake, replace(source, tables=source.tables[:1]))
    is_begun, is_fresh = threading.Event(), threading.Event()

    def holding(name: str, action: Callable[[], Any]) -> Any:
        if name in ("ingest.create_stage", "ingest.stage"):
            is_begun.set()
            assert is_fresh.wait(120)
        return action()

    def has(table: str, rows: str) -> bool:
        return not lake.spark.table(lake.sql_name(table)).where(rows).isEmpty()

    with set_failpoint(holding), following(lake, source):
        assert is_begun.wait(120)
        database.sql("insert into {at}.orders (id, item) values (1000, 'fresh')")
        assert has_come(lambda: has("orders", "id = 1000"))
        assert followed(lake, source) == {f"{database.schema}.orders"}
        database.sql("insert into {at}.items values (1000, 'b', 1)", "insert into {at}.log values (1000, 'x')")
        is_fresh.set()
        assert has_come(lambda: len(followed(lake, source)) == len(TABLES))
        with load(database, 4, pause=0.5):
            time.sleep(3)
        database.sql("update {at}.items set n = 2 where a = 1000")
        assert has_come(lambda: has("items", "a = 1000 and n = 2"))
    ingest(lake, source)
    is_exact(lake, database, source)


@pytest.mark.slow
@BOTH
def test_small_batches_are_ingested_as_exactly_as_large_ones(
    lake: Warehouse, database: Database, source: IngestSource
) -> None:
    reports = ingest(lake, replace(source, trigger_seconds=0), debezium={"poll_events": 60, "batch_bytes": 1})
    assert sum(report.count for report in reports) == 280
    assert all(table.read == table.applied for report in reports for table in report.tables)
    is_equal(lake, database)


@pytest.mark.slow
@BOTH
def test_changes_of_rows_without_a_key_are_dead_letters_until_the_table_is_read_again(
    lake: Warehouse, database: Database, source: IngestSource
) -> None:
    ingest(lake, source)
    if database.connector == "postgresql":
        database.sql("alter table {at}.log replica identity full")
    database.sql("insert into {at}.log values (8, 'before')")
    database.sql("update {at}.log set n = 7 where n = 1", "delete from {at}.log where n = 2", "truncate {at}.log")
    # The job may end before it reads this transaction.
    database.sql("insert into {at}.log values (9, 'after')")
    with pytest.raises(DataError, match="no more than 0 dead letters"):
        ingest(lake, source)
    dead = lake.spark.table(str(source.dead_letter_table)).groupBy("reason").count().collect()
    counts = {row.reason.split(" ")[1]: row["count"] for row in dead}
    assert counts == {"update": 10, "delete": 10, "truncate": 1}
    assert lake.spark.table(lake.sql_name("log")).where("n <> 9").count() == 31
    lake.spark.sql(f"delete from {source.dead_letter_table}")
    connection = connect(source, lake.reader, lake.environment.new_session)
    Ingestion(source, connection, lake.reader, lake.environment.new_session).run(True, True)
    is_equal(lake, database)
