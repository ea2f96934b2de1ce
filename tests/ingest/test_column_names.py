"""Columns whose names no table can store: their table waits alone and says what to do, or stores them under others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.ingest.connectors import connect
from arctic_runtime.ingest.job.ingestion import Ingestion
from arctic_runtime.ingest.source import IngestedTable, IngestSource, TablesWait
from tests.ingest.servers import PostgreSQLServer
from tests.spark.warehouse import Warehouse


def source_of(lake: Warehouse, port: int, schema: str, *names: str) -> IngestSource:
    connection = {"host": "127.0.0.1", "port": port, "database": "shop", "user": "postgres", "slot": schema}
    tables = tuple(IngestedTable(name, f"{schema}.{name}", lake.table(name), {}, reports_key=True) for name in names)
    return IngestSource("shop", "postgresql", connection, tables, lake.table("shop__dead_letters"))


def ingest(lake: Warehouse, source: IngestSource, *tables: str) -> None:
    lake = lake.under(ingest={"lease_seconds": 0})
    connection = connect(source, lake.reader, lake.environment.new_session)
    job = Ingestion(source, connection, lake.reader, lake.environment.new_session)
    job.run(once=True, tables=tables)


def rows(lake: Warehouse, name: str, columns: str) -> list[Any]:
    shown = lake.spark.table(lake.sql_name(name)).selectExpr(f"concat_ws('|', {columns}) as row")
    return sorted(row.row for row in shown.collect())


@pytest.mark.in_turn
def test_a_table_with_a_reserved_column_waits_alone_from_the_first_run_on(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, postgresql.port, slot, "bad", "good", "log")
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.bad (id int primary key, _ts int, _action text)",
        f"create table {slot}.good (id int primary key, n int)",
        f"create table {slot}.log (_ts int, _seq int)",
        *(f"insert into {slot}.{name} values (1, 1)" for name in ("bad", "good", "log")),
    )
    expected = rf"{slot}\.bad waits: [\s\S]*_ts is reserved[\s\S]*columns: {{_action: action_, _ts: ts_}}"
    with pytest.raises(TablesWait, match=expected):
        ingest(lake, source)
    postgresql.sql(*(f"insert into {slot}.{name} values (2, 2)" for name in ("bad", "good", "log")))
    with pytest.raises(TablesWait, match=expected):
        ingest(lake, source)
    assert rows(lake, "good", "id, n") == ["1|1", "2|2"]
    assert rows(lake, "log", "_ts, _seq") == ["1|1", "2|2"]


@pytest.mark.in_turn
def test_columns_get_the_names_that_their_table_declares(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    """The names begin to count with the next load of the table."""
    source = source_of(lake, postgresql.port, slot, "bad", "good")
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.bad (_seq int, _ts int, n text, primary key (_seq, _ts))",
        f"create table {slot}.good (id int primary key)",
        f"insert into {slot}.bad values (1, 1, 'a'), (2, 2, 'b')",
    )
    with pytest.raises(TablesWait, match=r"columns: {_seq: seq_, _ts: ts_}"):
        ingest(lake, source)
    renames = {"_seq": "seq_", "_ts": "ts_", "n": "name"}
    table = replace(source.tables[0], renames=renames, settings={"sort_key": ["name"]})
    source = replace(source, tables=(table, source.tables[1]))
    ingest(lake, source, "bad")
    assert rows(lake, "bad", "seq_, ts_, name") == ["1|1|a", "2|2|b"]
    postgresql.sql(
        f"update {slot}.bad set _ts = 3, n = 'c' where _seq = 2",
        f"delete from {slot}.bad where _seq = 1",
        f"insert into {slot}.bad values (4, 4, 'd')",
    )
    ingest(lake, source)
    assert rows(lake, "bad", "seq_, ts_, name") == ["2|3|c", "4|4|d"]
    assert lake.broken(table.to_model(("seq_", "ts_"))) == []


@pytest.mark.in_turn
def test_a_table_that_is_still_refused_when_it_is_loaded_waits_on(
    lake: Warehouse, postgresql: PostgreSQLServer, slot: str
) -> None:
    source = source_of(lake, postgresql.port, slot, "good", "late", "other")
    postgresql.sql(
        f"create schema {slot}",
        *(f"create table {slot}.{name} (id int primary key, n int)" for name in ("good", "late", "other")),
        *(f"insert into {slot}.{name} values (1, 1)" for name in ("good", "late", "other")),
    )
    ingest(lake, replace(source, tables=source.tables[:1]))
    postgresql.sql(f"alter table {slot}.late add _deleted int", f"insert into {slot}.good values (2, 2)")
    with pytest.raises(TablesWait, match=rf"{slot}\.late waits: [\s\S]*_deleted is reserved"):
        ingest(lake, source)
    assert rows(lake, "good", "id, n") == ["1|1", "2|2"]
    assert rows(lake, "other", "id, n") == ["1|1"]
    postgresql.sql(f"insert into {slot}.other values (2, 2)")
    with pytest.raises(TablesWait, match=rf"{slot}\.late waits"):
        ingest(lake, source, "late")
    postgresql.sql(f"alter table {slot}.late drop _deleted")
    ingest(lake, source, "late")
    assert rows(lake, "late", "id, n") == ["1|1"]
    assert rows(lake, "other", "id, n") == ["1|1", "2|2"]
