"""A table of a database that can't be read waits alone, whenever that shows, and the others go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.source import TablesWait
from tests.ingest.servers import MariaDBServer, PostgreSQLServer
from tests.ingest.test_column_names import ingest, rows, source_of
from tests.spark.warehouse import Warehouse

COLUMNS = {
    "composite": ("c {s}.pair", r'"pair" is not known'),
    "domains": ("c {s}.age[]", r'"_age" is not known'),
    "intervals": ("c interval[]", r"can't be read exactly: {s}\.intervals\.c"),
    "twins": ('"C" int, c int', r"differ in nothing but case, [\s\S]*{s}\.twins\.C"),
}
"""Columns of tables that the first look at the catalog or at the events refuses, and what the error says."""


@pytest.mark.in_turn
def test_tables_with_columns_that_can_not_be_read_wait_from_the_first_run_on(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, postgresql.port, slot, "good", *COLUMNS)
    postgresql.sql(
        f"create schema {slot}",
        f"create type {slot}.pair as (a int, b int)",
        f"create domain {slot}.age as int",
        f"create table {slot}.good (id int primary key)",
        *(
            f"create table {slot}.{name} (id int primary key, {columns.format(s=slot)})"
            for name, (columns, _) in COLUMNS.items()
        ),
        *(f"alter table {slot}.{name} replica identity full" for name in COLUMNS),
        f"insert into {slot}.good values (1)",
    )
    with pytest.raises(TablesWait) as told:
        ingest(lake, source)
    for name, (_, expected) in COLUMNS.items():
        told.match(rf"{slot}\.{name} waits: " + r"[\s\S]*" + expected.replace("{s}", slot))
    postgresql.sql(f"insert into {slot}.good values (2)", f"alter table {slot}.intervals drop c")
    with pytest.raises(TablesWait):
        ingest(lake, source, "intervals")
    assert rows(lake, "good", "id") == ["1", "2"]
    assert rows(lake, "intervals", "id") == []


@pytest.mark.in_turn
@pytest.mark.parametrize("when", ["snapshot", "stream", "load"])
def test_a_value_that_can_not_be_read_holds_its_table_alone(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str, when: str
) -> None:
    source = source_of(lake, postgresql.port, slot, "bad", "good")
    nan = f"insert into {slot}.bad values (2, '{{NaN}}')"
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.bad (id int primary key, c numeric(9, 2)[])",
        f"create table {slot}.good (id int primary key)",
        f"alter table {slot}.bad replica identity full",
        f"insert into {slot}.bad values (1, '{{1.5}}')",
        f"insert into {slot}.good values (1)",
    )
    if when == "stream":
        ingest(lake, source)
    if when == "load":
        ingest(lake, replace(source, tables=source.tables[1:]))
    postgresql.sql(nan, f"insert into {slot}.good values (2)")
    with pytest.raises(TablesWait, match=rf"{slot}\.bad waits: [\s\S]*column.exclude.list: {slot}\\\.bad\\\.c`"):
        ingest(lake, source)
    assert rows(lake, "good", "id") == ["1", "2"]
    postgresql.sql(f"update {slot}.bad set c = '{{2.5}}' where id = 2", f"insert into {slot}.good values (3)")
    ingest(lake, source, "bad")
    assert rows(lake, "bad", "id, cast(c as string)") == ["1|[1.50]", "2|[2.50]"]
    assert rows(lake, "good", "id") == ["1", "2", "3"]


def test_a_source_whose_only_table_can_not_be_read_ends_with_the_reason(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, postgresql.port, slot, "bad")
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.bad (id int primary key, c numeric(9, 2)[])",
        f"alter table {slot}.bad replica identity full",
        f"insert into {slot}.bad values (1, '{{NaN}}')",
    )
    with pytest.raises(SourceError, match=rf"can't read a value of {slot}\.bad\.c"):
        ingest(lake, source)


@pytest.mark.in_turn
def test_a_definition_that_can_not_be_read_holds_its_table_alone(
    lake: Warehouse, mariadb: MariaDBServer, slot: str
) -> None:
    source = source_of(lake, mariadb.port, slot, "bad", "good", "late")
    source = replace(
        source, connector="mariadb", connection={**source.connection, "database": slot, "user": "root", "password": ""}
    )
    mariadb.sql(
        f"create database {slot}",
        f"create table {slot}.bad (id int primary key, c varchar(50) default concat('a', upper('b')))",
        f"create table {slot}.good (id int primary key, u varchar(50) default uuid())",
        f"create table {slot}.late (id int primary key, u inet6)",
        *(f"insert into {slot}.{name} (id) values (1)" for name in ("bad", "good", "late")),
    )
    with pytest.raises(TablesWait, match=rf"{slot}\.late waits: [\s\S]*{slot}\.late\.u \(inet6\)"):
        ingest(lake, source)
    mariadb.sql(
        f"alter table if exists {slot}.bad add u varchar(9)",
        *(f"insert into {slot}.{name} (id) values (2)" for name in ("bad", "good", "late")),
    )
    expected = rf"{slot}\.bad waits: [\s\S]*can't read the definition of {slot}\.bad[\s\S]*--resync TABLE"
    with pytest.raises(TablesWait, match=expected):
        ingest(lake, source)
    assert rows(lake, "bad", "id, c") == ["1|aB"]
    assert rows(lake, "good", "id") == ["1", "2"]
    mariadb.sql(f"alter table {slot}.bad drop u", f"alter table {slot}.late modify u varchar(40)")
    mariadb.sql(f"insert into {slot}.good (id) values (3)")
    ingest(lake, source, "bad", "late")
    assert [rows(lake, name, "id") for name in ("bad", "good", "late")] == [["1", "2"], ["1", "2", "3"], ["1", "2"]]
