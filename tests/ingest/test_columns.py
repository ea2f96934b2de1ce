"""Definitions of tables change in real databases: older rows keep up, or ingestion ends and says what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource, SchemaChanges, TablesWait
from tests.ingest.servers import MariaDBServer, PostgreSQLServer
from tests.ingest.test_types import POSTGRESQL
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


@pytest.mark.in_turn
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


@pytest.mark.in_turn
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
    with pytest.raises(SourceError, match=r"column number was added.* its default differs.*\n.*arctic resync keyed"):
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
    mariadb.sql(
        f"alter table {slot}.keyed add none int not null",
        f"insert into {slot}.keyed (id, none) values (5, 6)",
        f"alter table {slot}.keyed add n int default (id + 1)",
        f"insert into {slot}.keyed (id, none) values (6, 7)",
    )
    with pytest.raises(SourceError, match=r"column n was added.* not an expression of constants.*\n.*arctic resync"):
        ingest(lake, source)
    assert rows(lake, "keyed", "id, none") == ["1|0", "2|0", "3|0", "4|0", "5|6"]
    ingest(lake, source, resync=True)
    expected = mariadb.sql(f"select concat_ws('|', id, none, n) from {slot}.keyed").splitlines()
    assert rows(lake, "keyed", "id, none, n") == sorted(expected)


DEFAULTS_OF_MARIADB = (
    "varchar(10) not null default 'it''s'", r"varchar(10) default 'it\'s\\'", "varchar(10) default \"a'b\"",
    "varchar(10) default _utf8mb4'é😀?'", "varchar(10) default N'x'", "varchar(10) default x'41'", "text default 0x41",
    "varchar(9) character set latin1 default _latin1 x'E9'", "varchar(10) default 'a' 'b'", "char(5) default 'a '",
    "varchar(10) default 1.50", "varchar(10) default ''", "enum('a','b''c') default 'B''c'",
    "set('a','b') default 'b,a'",
    "int default 0x41", "int default 1e2", "int default +5", "int default '7'", "int default (1+1)", "int not null",
    "bigint unsigned default 18446744073709551615", "decimal(10,2) default 1.005", "decimal(10,2) default -1.5e1",
    "decimal(50,2) default 1234567890123456789012345678901234567890.1", "double default 1.5e-3", "float default 0.1",
    "bool default true", "tinyint(1) default false", "bit(1) default b'1'", "bit(12) default b'101'",
    "bit(12) default 0x0ff", "year default '24'", "date default '2024-2-9'", "date default date '2024-02-09'",
    "datetime(3) default '2024-02-29 12:00:00.1235'", "time default '-12:00'", "time(3) default '1 12:00:01.5'",
    "varbinary(9) default 'abc'", "binary(5) default x'4100'", "blob default 'x'", "json default '{\"a\":  1}'",
    "varchar(10) default (concat('a', 'b'))", "varchar(10) default (cast(12 as char))",
    "json default (json_array(1, 2))", "varchar(10) default concat('a', upper('b)'))", "int default floor(1.5)",
    "varchar(10) default repeat('it''s', 2) comment 'default x('",
)  # fmt: skip
DEFAULTS_OF_POSTGRESQL = (
    *(f"{case.sql_type} default {case.sql_value}" for case in POSTGRESQL if case.value != "NAN"),
    "varchar(9) default 'it''s'::character varying", r"text default E'\\n'", "int[] default '{}'::int[]",
    "text default concat('a', 'b')", "numeric default 1e3", "int default (1 + 1)",
    "text[] default array['a\"b', null]", "timestamp default '2024-02-29'", "bytea default 'it''s'::bytea",
    "interval default '-1 day 00:00:01'", "timetz default '10:00+00'", "time default '10:00'", "bit(3) default b'110'",
)  # fmt: skip


def add_with_defaults(server: MariaDBServer | PostgreSQLServer, table: str, defaults: tuple[str, ...]) -> None:
    """Adds a column for each of `defaults`, then a row that has them all."""
    added = ", ".join(f"add c{i} {text}" for i, text in enumerate(defaults))
    required = [f"c{i}" for i, text in enumerate(defaults) if "not null" in text and "default" not in text]
    names, values = ", ".join(["id", *required]), ", ".join(["2", *["0"] * len(required)])
    server.sql(f"alter table {table} {added}", f"insert into {table} ({names}) values ({values})")


def assert_same_rows(lake: Warehouse, defaults: tuple[str, ...]) -> None:
    older, newer = lake.spark.table(lake.sql_name("keyed")).orderBy("id").drop("id").collect()
    differing = {text: (older[i], newer[i]) for i, text in enumerate(defaults) if repr(older[i]) != repr(newer[i])}
    assert differing == {}
    assert None not in older


@pytest.mark.in_turn
def test_older_rows_have_each_default_of_mariadb_as_an_event_has_it(
    lake: Warehouse, mariadb: MariaDBServer, slot: str
) -> None:
    source = source_of(lake, "mariadb", mariadb.port, slot)
    source = replace(source, tables=source.tables[:1])
    mariadb.sql(f"create database {slot}", f"create table {slot}.keyed (id int primary key)")
    mariadb.sql(f"insert into {slot}.keyed values (1)")
    ingest(lake, source)
    add_with_defaults(mariadb, f"{slot}.keyed", DEFAULTS_OF_MARIADB)
    ingest(lake, source)
    assert_same_rows(lake, DEFAULTS_OF_MARIADB)


@pytest.mark.in_turn
def test_older_rows_have_each_default_of_postgresql_as_an_event_has_it(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, "postgresql", postgresql.port, slot)
    source = replace(source, tables=source.tables[:1])
    postgresql.sql(
        f"create schema {slot}",
        "do $$ begin create type mood as enum ('sad', 'happy'); exception when duplicate_object then null; end $$",
        f"create table {slot}.keyed (id int primary key)",
        f"alter table {slot}.keyed replica identity full",
        f"insert into {slot}.keyed values (1)",
    )
    ingest(lake, source)
    add_with_defaults(postgresql, f"{slot}.keyed", DEFAULTS_OF_POSTGRESQL)
    ingest(lake, source)
    assert_same_rows(lake, DEFAULTS_OF_POSTGRESQL)


def test_a_column_that_is_added_and_renamed_at_once_is_followed_where_another_was_dropped_before(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, "postgresql", postgresql.port, slot)
    source = replace(source, tables=source.tables[:1])
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.keyed (id int primary key, gone int, a text)",
        f"alter table {slot}.keyed drop gone",
        f"insert into {slot}.keyed values (1, 'a1')",
    )
    ingest(lake, source)
    postgresql.sql(
        f"alter table {slot}.keyed add c text default 'it''s'",
        f"insert into {slot}.keyed values (2, 'a2', 'c2')",
        f"alter table {slot}.keyed rename c to d",
        f"insert into {slot}.keyed values (3, 'a3', 'd3')",
    )
    ingest(lake, source)
    assert rows(lake, "keyed", "id, a, d") == ["1|a1|it's", "2|a2|c2", "3|a3|d3"]


@pytest.mark.in_turn
def test_a_table_that_was_made_again_with_the_same_columns_is_loaded_anew(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    """A publication of a whole schema has the new table at once, and no event tells that the old rows are gone."""
    source = source_of(lake, "postgresql", postgresql.port, slot)
    make = [
        f"create table {slot}.{name} (id int {key}, a text)" for name, key in (("keyed", "primary key"), ("log", ""))
    ]
    postgresql.sql(
        f"create schema {slot}",
        *make,
        *(f"insert into {slot}.{name} values (1, 'a1'), (2, 'a2')" for name in ("keyed", "log")),
        f"create publication {slot} for tables in schema {slot}",
    )
    ingest(lake, source)
    postgresql.sql(
        *(f"drop table {slot}.{name}" for name in ("keyed", "log")),
        *make,
        *(f"insert into {slot}.{name} values (2, 'b2'), (3, 'b3')" for name in ("keyed", "log")),
    )
    with pytest.raises(TablesWait, match=r"keyed waits: [^\n]*it was dropped and made again in the source"):
        ingest(lake, source)
    ingest(lake, source)
    postgresql.sql(*(f"insert into {slot}.{name} values (4, 'b4')" for name in ("keyed", "log")))
    ingest(lake, source)
    for name in ("keyed", "log"):
        assert rows(lake, name, "id, a") == ["2|b2", "3|b3", "4|b4"]
