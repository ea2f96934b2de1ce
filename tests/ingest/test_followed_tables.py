"""What a snapshot shows and the stream does not is refused by its name, before anything is made or loaded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import TableGone
from tests.ingest.reading import drain, drained, opened
from tests.ingest.servers import PostgreSQLServer

PASSWORD = "s3cret-of-the-test"
PLAIN = "create table {s}.t (id int primary key, n int)"
PARTS = "create table {s}.t (id int primary key, n int) partition by range (id)"
WAREHOUSE = "create extension if not exists file_fdw; create server if not exists files foreign data wrapper file_fdw"

REFUSALS = {
    "generated": (
        ["create table {s}.t (id int primary key, n int, twice int generated always as (n * 2) stored)"],
        r"generated columns, [\s\S]*{s}\.t\.twice\.[\s\S]*column\.exclude\.list: {s}\\\.t\\\.twice`",
    ),
    "view": ([PLAIN.replace(".t ", ".x "), "create view {s}.t as select * from {s}.x"], r"{s}\.t is a view"),
    "materialized": (["create materialized view {s}.t as select 1 as id"], r"{s}\.t is a materialized view"),
    "foreign": (
        [WAREHOUSE, "create foreign table {s}.t (id int) server files options (filename '/nowhere')"],
        r"{s}\.t is a foreign table",
    ),
    "unlogged": ([PLAIN.replace("table", "unlogged table")], r"{s}\.t is an unlogged table"),
    "partitions": (
        [PARTS, "create unlogged table {s}.p partition of {s}.t for values from (0) to (9)"],
        r"{s}\.t has partitions of which no change is logged: {s}\.p",
    ),
    "identity": (
        [PLAIN.replace("n int", "n int not null unique"), "alter table {s}.t replica identity using index t_n_key"],
        r"without the primary key: {s}\.t\.[\s\S]*`alter table {s}\.t replica identity default`",
    ),
    "operations": (
        [PLAIN, "create publication {s} for table {s}.t with (publish = 'insert, delete')"],
        r"publication {s} publishes no update, truncate[\s\S]*set \(publish = 'insert, update, delete, truncate'\)",
    ),
    "rows": (
        [PLAIN, "create publication {s} for table {s}.t where (id > 5)"],
        r"only rows of {s}\.t with \(id > 5\)[\s\S]*alter publication {s} drop table {s}\.t",
    ),
    "columns": (
        [PLAIN, "create publication {s} for table {s}.t (id)"],
        r"publication {s} lacks columns of {s}\.t: n\.[\s\S]*alter publication {s} drop table {s}\.t",
    ),
    "root": (
        [
            PARTS.replace(".t ", ".root "),
            "create table {s}.t partition of {s}.root for values from (0) to (9)",
            "create publication {s} for table {s}.root with (publish_via_partition_root = true)",
        ],
        r"changes of {s}\.t come under the name of {s}\.root",
    ),
    "publication": (
        [PLAIN, PLAIN.replace(".t ", ".x "), "create publication {s} for table {s}.x"],
        r"publication {s} lacks {s}\.t\.[\s\S]*`alter publication {s} add table {s}\.t`",
    ),
}  # fmt: skip
"""Statements that make `t`, and what the error says."""


@pytest.fixture
def connection(postgresql: PostgreSQLServer, slot: str) -> DebeziumConnection:
    postgresql.sql(f"create schema {slot}")
    return DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "-", (rf"{slot}\.t",), slot
    )


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_the_stream_would_leave_out_is_named(
    postgresql: PostgreSQLServer, connection: DebeziumConnection, kind: str
) -> None:
    statements, expected = REFUSALS[kind]
    postgresql.sql(*[statement.format(s=connection.slot) for statement in statements])
    before = publications(postgresql)
    by_root = replace(connection, properties={"publish.via.partition.root": "true"})
    with pytest.raises(SourceError, match=expected.replace("{s}", connection.slot)):
        DebeziumTransport(by_root).open_at(DebeziumTransport.initial)
    assert publications(postgresql) == before
    assert postgresql.sql(f"select 1 from pg_replication_slots where slot_name = '{connection.slot}'") == ""


def publications(postgresql: PostgreSQLServer) -> str:
    return postgresql.sql("select * from pg_publication", "select * from pg_publication_rel")


def test_rows_that_a_role_may_not_see_are_reported(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at, user = connection.slot, f"u_{connection.slot}"
    postgresql.sql(
        PLAIN.format(s=at),
        f"create role {user} login replication password '{PASSWORD}'",
        f"grant usage on schema {at} to {user}",
        f"grant select on {at}.t to {user}",
        f"create publication {at} for table {at}.t",
        f"alter table {at}.t enable row level security",
    )
    reader = replace(connection, user=user, password=PASSWORD)
    with pytest.raises(SourceError, match=rf"may hide rows of {at}\.t [\s\S]*`alter role {user} bypassrls`"):
        DebeziumTransport(reader).check_source(None)
    postgresql.sql(f"alter role {user} bypassrls")
    DebeziumTransport(reader).check_source(None)


def test_columns_that_are_left_out_need_not_be_published(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(
        f"create table {at}.t (id int generated always as identity primary key, n int, secret text, "
        "twice int generated always as (n * 2) stored)",
        f"create publication {at} for table {at}.t (id, n)",
        f"insert into {at}.t (n) values (1)",
    )
    excluded = {"column.exclude.list": rf"{at}\.t\.secret,{at}\.t\.twice"}
    with opened(replace(connection, properties=excluded)) as transport:
        first = drained(transport)
        postgresql.sql(f"update {at}.t set n = 5", f"insert into {at}.t (n) values (7)")
        second = drained(transport)
    assert first.changes == [("r", {"id": 1, "n": 1})]
    assert second.changes == [("u", {"id": 1, "n": 5}), ("c", {"id": 2, "n": 7})]


def test_a_column_that_becomes_a_generated_one_ends_reading(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(
        f"create table {at}.t (id int primary key, n int, twice int)", f"insert into {at}.t values (1, 1, 2)"
    )
    with opened(connection) as transport:
        drained(transport)
        postgresql.sql(
            f"alter table {at}.t drop twice, add twice int generated always as (n * 2) stored",
            f"update {at}.t set n = 5",
        )
        with pytest.raises(SourceError, match=rf"generated columns, [\s\S]*{at}\.t\.twice\."):
            drained(transport)


def test_a_publication_of_others_stays_as_it_is(postgresql: PostgreSQLServer, connection: DebeziumConnection) -> None:
    at = connection.slot
    postgresql.sql(
        PLAIN.format(s=at),
        f"create table {at}.x (id int primary key)",
        f"create publication {at} for table {at}.t, {at}.x",
    )
    before = publications(postgresql)
    position = drain(connection).position
    postgresql.sql(f"insert into {at}.t values (1, 1)")
    assert drain(connection, position).ids == [1]
    assert publications(postgresql) == before
    postgresql.sql(f"alter publication {at} drop table {at}.t")
    unsent = DebeziumTransport(connection).find_unsent([f"{at}.t", f"{at}.x"], [f"{at}.t"])
    assert re.search(rf"lacks {at}\.t\.[\s\S]*`alter publication {at} add table {at}\.t`", str(unsent.pop(f"{at}.t")))
    assert unsent == {}


def test_a_publication_of_ingestion_has_the_tables_that_are_read(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    """A table that is taken out is published no more: PostgreSQL refuses updates of one without a key that is."""
    at = connection.slot
    postgresql.sql(PLAIN.format(s=at), f"create table {at}.x (id int)")
    both = replace(connection, tables=(*connection.tables, rf"{at}\.x"))
    position = drain(both).position
    assert postgresql.sql(f"select tablename from pg_publication_tables where pubname = '{at}' order by 1") == "t\nx"
    drain(connection, position)
    assert postgresql.sql(f"select tablename from pg_publication_tables where pubname = '{at}'") == "t"
    postgresql.sql(f"insert into {at}.x values (1)", f"update {at}.x set id = 2")


def test_a_table_is_added_to_the_publication_where_both_are_the_readers(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at, user = connection.slot, f"u_{connection.slot}"
    postgresql.sql(
        PLAIN.format(s=at),
        PLAIN.format(s=at).replace(".t ", ".x "),
        f"create role {user} login replication password '{PASSWORD}'",
        f"grant usage on schema {at} to {user}",
        f"grant create on database shop to {user}",
        f"alter table {at}.t owner to {user}",
        f"alter table {at}.x owner to {user}",
        f"create publication {at} for table {at}.t",
        f"comment on publication {at} is 'kept by arctic ingest'",
    )
    transport = DebeziumTransport(replace(connection, user=user, password=PASSWORD))
    tables = [f"{at}.t", f"{at}.x"]
    refused = transport.find_unsent(tables, tables[:1])
    assert list(refused) == tables[1:]
    assert re.search(
        rf"lacks {at}\.x, and user {user} may not add them[\s\S]*`alter publication {at} add table {at}\.x`",
        str(refused[tables[1]]),
    )
    postgresql.sql(f"alter publication {at} owner to {user}", f"drop table {at}.t")
    found = transport.find_unsent(tables, tables[:1])
    assert found.pop(tables[1]) is None
    assert [type(error) for error in found.values()] == [TableGone]
