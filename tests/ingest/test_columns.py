"""Definitions of tables change in real databases: older rows keep up, or ingestion ends and says `--resync`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource, SchemaChanges
from tests.ingest.servers import MariaDBServer, PostgreSQLServer
from tests.spark.warehouse import Warehouse


def source_of(lake: Warehouse, connector: str, port: int, schema: str) -> IngestSource:
    users = {"postgresql": ("shop", "postgres"), "mariadb": (schema, "root")}
    database, user = users[connector]
    connection = {"host": "127.0.0.1", "port": port, "database": database, "user": user, "slot": schema}
    names = ("keyed", "log")
    tables = tuple(IngestedTable(name, f"{schema}.{name}", lake.table(name), {}, reports_key=True) for name in names)
    return IngestSource("shop", connector, connection, tables, lake.table("shop__dead_letters"))


def ingest(lake: Warehouse, source: IngestSource, resync: bool = False) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})
    connection = connect(source, lake.reader, lake.environment.new_session)
    job = Ingestion(source, connection, lake.reader, lake.environment.new_session)
    job.run(once=True, resync=resync)


def rows(lake: Warehouse, name: str, columns: str) -> list[Any]:
    shown = lake.spark.table(lake.sql_name(name)).selectExpr(f"concat_ws('|', {columns}) as row")
    return sorted(row.row for row in shown.collect())


@pytest.mark.parametrize("changes", ["safe", pytest.param("evolve", marks=pytest.mark.slow)])
def test_postgresql_tells_renames_and_defaults_of_columns_also_to_one_who_lags_behind(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str, changes: SchemaChanges
) -> None:
    source = source_of(lake, "postgresql", postgresql.port, slot)
    source = replace(source, tables=tuple(replace(table, schema_changes=changes) for table in source.tables))
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.keyed (id int primary key, a text, n int, gone int)",
        f"create table {slot}.log (id int, a text, n int, gone int)",
        *(
            f"insert into {slot}.{name} select g, 'a' || g, g, g from generate_series(1, 5) g"
            for name in ("keyed", "log")
        ),
    )
    ingest(lake, source)
    for table in ("keyed", "log"):
        postgresql.sql(
            f"insert into {slot}.{table} values (6, 'before', 6, 6)",
            f"alter table {slot}.{table} rename a to b",
            f"alter table {slot}.{table} add five numeric(6, 2) default 5, add at timestamptz default now(), "
            "add word varchar(9) default 'it''s', add nothing int, add yes bool default true, "
            'add doc jsonb default \'{"a": [1, "x"]}\', add share float8 default 0.1, drop gone',
            f"insert into {slot}.{table} (id, b, n, five, at, nothing, doc) "
            "values (7, 'after', 7, 1.50, '2024-02-29 12:00:00+01', 8, '{}')",
        )
    ingest(lake, source)
    shown = "id, b, n, five, {at}, word, nothing, yes::text, doc, share"
    asked = shown.format(at="(extract(epoch from at) * 1000000)::bigint")
    own = shown.format(at="unix_micros(at)").replace("yes::text", "yes")
    for table in ("keyed", "log"):
        expected = postgresql.sql(f"select concat_ws('|', {asked}) from {slot}.{table}").splitlines()
        assert rows(lake, table, own) == sorted(expected)
        assert ("gone" in lake.spark.table(lake.sql_name(table)).columns) == (changes == "safe")
    assert lake.broken(source.tables[0].to_model(("id",))) == []


def test_several_definitions_in_a_row_are_followed_by_one_who_lags_behind(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    """Events of each are read when the table has the last one."""
    source = source_of(lake, "postgresql", postgresql.port, slot)
    source = replace(source, tables=tuple(replace(table, schema_changes="evolve") for table in source.tables[:1]))
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.keyed (id int primary key, a text, b text)",
        f"insert into {slot}.keyed values (1, 'a1', 'b1')",
    )
    ingest(lake, source)
    postgresql.sql(
        f"alter table {slot}.keyed add c int default 5",
        f"insert into {slot}.keyed values (2, 'a2', 'b2', 2)",
        f"alter table {slot}.keyed rename a to x",
        f"alter table {slot}.keyed rename b to y",
        f"insert into {slot}.keyed values (3, 'a3', 'b3', 3)",
        f"alter table {slot}.keyed rename c to b",
        f"alter table {slot}.keyed add d text default 'd'",
        f"insert into {slot}.keyed values (4, 'a4', 'b4', 4, 'd4')",
    )
    ingest(lake, source)
    expected = postgresql.sql(f"select concat_ws('|', id, x, y, b, d) from {slot}.keyed").splitlines()
    assert rows(lake, "keyed", "id, x, y, b, d") == sorted(expected)
    assert lake.broken(source.tables[0].to_model(("id",))) == []


@pytest.mark.slow
def test_postgresql_says_where_a_default_differs_from_row_to_row(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, "postgresql", postgresql.port, slot)
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.keyed (id int primary key)",
        f"create table {slot}.log (id int)",
        f"insert into {slot}.keyed select generate_series(1, 5)",
    )
    ingest(lake, source)
    postgresql.sql(f"alter table {slot}.keyed add number bigserial", f"insert into {slot}.keyed values (6)")
    with pytest.raises(SourceError, match=r"number, with a default that differs.*\n.*--resync"):
        ingest(lake, source)
    ingest(lake, source, resync=True)
    expected = postgresql.sql(f"select concat_ws('|', id, number) from {slot}.keyed").splitlines()
    assert rows(lake, "keyed", "id, number") == sorted(expected)


@pytest.mark.slow
def test_mariadb_tells_renames_and_constant_defaults_by_its_statements(
    lake: Warehouse, mariadb: MariaDBServer, slot: str
) -> None:
    source = source_of(lake, "mariadb", mariadb.port, slot)
    mariadb.sql(
        f"create database {slot}",
        *(
            f"create table {slot}.{table} (id int {key}, a varchar(9))"
            for table, key in (("keyed", "primary key"), ("log", ""))
        ),
        *(f"insert into {slot}.{name} values (1, 'a1'), (2, 'a2')" for name in ("keyed", "log")),
    )
    ingest(lake, source)
    for table in ("keyed", "log"):
        mariadb.sql(
            f"insert into {slot}.{table} values (3, 'a3')",
            f"alter table {slot}.{table} change a b varchar(9), add five int default 5",
            f"alter table {slot}.{table} alter column five drop default, add more int first",
            f"insert into {slot}.{table} (id, b) values (4, 'b4')",
        )
    ingest(lake, source)
    for table in ("keyed", "log"):
        expected = mariadb.sql(f"select concat_ws('|', id, b, five, more) from {slot}.{table}").splitlines()
        assert rows(lake, table, "id, b, five, more") == sorted(expected)
    mariadb.sql(f"alter table {slot}.keyed add none int not null", f"insert into {slot}.keyed (id, none) values (5, 6)")
    with pytest.raises(SourceError, match=r"found: none, with a default.*\n.*--resync"):
        ingest(lake, source)
    ingest(lake, source, resync=True)
    assert rows(lake, "keyed", "id, none") == ["1|0", "2|0", "3|0", "4|0", "5|6"]
