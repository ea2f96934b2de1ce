"""The rights of the documentation are enough to ingest a database, and a missing one is named with its statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from tests.documented_rights import PASSWORD, read_statements
from tests.ingest.conftest import running
from tests.ingest.reading import Reading, drain, drained, opened
from tests.ingest.servers import MariaDBServer, PostgreSQLServer


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQLServer]:
    """A server of its own, since the rights are those of the documentation, with its names."""
    server = running(PostgreSQLServer)
    yield server
    server.remove()


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDBServer]:
    server = running(MariaDBServer)
    yield server
    server.remove()


TABLES = ("orders", "customers")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "title", ["PostgreSQL: the publication is the owner's", "PostgreSQL: ingestion keeps the publication"]
)
def test_the_rights_of_postgresql_are_enough(postgresql: PostgreSQLServer, title: str) -> None:
    postgresql.sql(
        "drop role if exists arctic, shop_owner",
        "create role shop_owner",
        *[f"create table {table} (id int primary key, n int)" for table in TABLES],
        *[f"alter table {table} owner to shop_owner" for table in TABLES],
        "insert into orders values (1, 1)",
        *read_statements("ingestion.md", title),
    )
    tables = tuple(rf"public\.{table}" for table in TABLES)
    connection = DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "arctic", PASSWORD, tables, "arctic_shop"
    )
    try:
        with opened(connection) as transport:
            first = drained(transport)
            postgresql.sql("update orders set n = 2", "insert into customers values (3, 3)")
            second = drained(transport)
        assert (first.ids, second.ids) == ([1], [1, 3])
        end = loaded(connection, second, "public.customers")
        postgresql.sql(
            "revoke all on customers from arctic", "revoke shop_owner from arctic", "insert into orders values (9, 9)"
        )
        alone = replace(connection, tables=tables[:1])
        assert drain(alone, end).ids == [9]
    finally:
        postgresql.sql(
            "select pg_drop_replication_slot('arctic_shop')",
            "drop publication arctic_shop",
            "drop table orders, customers",
            "drop owned by arctic, shop_owner",
        )


def follow_advice(connection: DebeziumConnection, run: Callable[[str], str]) -> None:
    """Runs the first statement of each error until nothing is missing; each statement mends something."""
    tried: list[str] = []
    while (error := failure(connection)) is not None:
        advice = re.search(r"`([^`]+)`", error)
        assert advice is not None, error
        assert advice[1] not in tried, error
        tried.append(advice[1])
        run(advice[1])
    assert tried


def failure(connection: DebeziumConnection) -> str | None:
    try:
        DebeziumTransport(connection).check_source(None)
    except SourceError as error:
        return str(error)
    return None


def loaded(connection: DebeziumConnection, reading: Reading, table: str) -> str:
    """The position after one of the tables was loaded again beside the stream."""
    transport = DebeziumTransport(connection)
    transport.follow_tables(
        [pattern.replace("\\", "") for pattern in connection.tables if pattern.replace("\\", "") != table]
    )
    load = transport.load_tables([table], reading.position)
    rows: list[int] = []
    load.finish_load()
    last = None
    for batch in load.read_batches():
        rows += Reading([batch]).ids
        last = batch
    load.close_source()
    assert rows == [3]
    assert last is not None
    return transport.join_tables([table], reading.position, last)


def test_a_missing_right_in_postgresql_is_named_with_its_statement(postgresql: PostgreSQLServer) -> None:
    postgresql.sql(
        "create schema private",
        "create table private.t (id int primary key)",
        f"create role clerk login password '{PASSWORD}'",
    )
    clerk = DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "clerk", PASSWORD, (r"private\.t",), "clerk"
    )
    follow_advice(clerk, postgresql.sql)
    assert drain(clerk).ids == []
    assert postgresql.sql("select rolsuper from pg_roles where rolname = 'clerk'") == "f"


def test_the_rights_of_mariadb_are_enough(mariadb: MariaDBServer) -> None:
    mariadb.sql(
        *[f"create table {table} (id int primary key, n int)" for table in TABLES],
        "insert into orders values (1, 1)",
        *read_statements("ingestion.md", "MySQL and MariaDB"),
    )
    tables = tuple(rf"shop\.{table}" for table in TABLES)
    connection = DebeziumConnection("mariadb", "127.0.0.1", mariadb.port, "shop", "arctic", PASSWORD, tables, "arctic")
    with opened(connection) as transport:
        first = drained(transport)
        mariadb.sql("update orders set n = 2", "insert into customers values (3, 3)")
        second = drained(transport)
    assert (first.ids, second.ids) == ([1], [1, 3])
    end = loaded(connection, second, "shop.customers")
    mariadb.sql("revoke select on shop.customers from arctic@'%'", "insert into orders values (9, 9)")
    assert drain(replace(connection, tables=tables[:1]), end).ids == [9]


def test_a_missing_right_in_mariadb_is_named_with_its_statement(mariadb: MariaDBServer) -> None:
    mariadb.sql("create table secrets (id int primary key)", f"create user clerk@'%' identified by '{PASSWORD}'")
    mariadb.sql("grant create temporary tables on shop.* to clerk@'%'")
    clerk = DebeziumConnection(
        "mariadb", "127.0.0.1", mariadb.port, "shop", "clerk", PASSWORD, (r"shop\.secrets",), "clerk"
    )
    follow_advice(clerk, mariadb.sql)
    assert drain(clerk).ids == []
    assert "ALL PRIVILEGES" not in mariadb.sql("show grants for clerk@'%'")
