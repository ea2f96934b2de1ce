"""Tables are loaded beside a stream while they change: each change is in their rows, or comes after them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import yaml

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import Batch
from dbt.adapters.arctic.cli import main
from tests.ingest.reading import Reading, drain, drained
from tests.ingest.servers import PostgreSQLServer, ServerError
from tests.ingest.two_tables import Source


@contextmanager
def changes(source: Source, seed: int) -> Iterator[None]:
    """While this lasts, transactions of both tables insert, update and delete rows, some side by side."""
    stopped = threading.Event()

    def work(number: int) -> None:
        chance = random.Random(seed + number)
        while not stopped.is_set():
            statements = []
            for _ in range(chance.randrange(1, 4)):
                table, key = chance.choice("ab"), number * 50 + chance.randrange(50)
                statements += [
                    f"delete from {{at}}.{table} where id = {key}",
                    f"insert into {{at}}.{table} (id, n) values ({key}, {chance.randrange(1000)})",
                    f"update {{at}}.{table} set n = n + 1 where id = {key + chance.randrange(2)}",
                ]
            try:
                source.sql(";".join(["begin", *statements, "commit"]))
            except ServerError as error:
                if "deadlock" not in str(error).lower():
                    raise

    threads = [threading.Thread(target=work, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def loaded(
    source: Source, tables: list[str], position: str, more: int = 0
) -> tuple[DebeziumTransport, Reading, Reading]:
    """The rows of a load and the events that it gives after them, in `more` batches before it is to finish."""
    transport = DebeziumTransport(source.connection)
    load = transport.load_tables([f"{source.at}.{table}" for table in tables], position)
    rows, events = Reading(), Reading()
    if not more:
        load.finish_load()
    for batch in load.read_batches():
        if not rows.batches or rows.batches[-1].is_snapshot:
            rows.batches.append(batch)
            continue
        known = (events.batches or rows.batches)[-1].position
        events.batches.append(replace(batch, tables=tuple(load.select_after(table, known) for table in batch.tables)))
        if len(events.batches) == more:
            load.finish_load()
    assert [batch.is_snapshot for batch in rows.batches] == [True] * (len(rows.batches) - 1) + [False]
    return transport, rows, events


def applied(rows: dict[int, int], events: list[dict[str, Any]]) -> dict[int, int]:
    """Rows after events, each of which must fit to the rows before it: none is lost, none comes twice."""
    for event in events:
        if event["op"] == "c":
            assert event["after"]["id"] not in rows
        else:
            old = rows.pop((event["before"] or event["after"])["id"])
            assert event["op"] == "d" or old + 1 == event["after"]["n"]
        if event["op"] != "d":
            rows[event["after"]["id"]] = event["after"]["n"]
    return rows


@pytest.mark.slow
def test_each_change_is_in_the_rows_of_a_load_or_comes_after_it(source: Source) -> None:
    """Also where the table changed its columns after the stream's position."""
    position = drain(source.connection).position
    source.sql("insert into {at}.b values (1000, 0)", "alter table {at}.b add more int")
    source.sql("update {at}.b set n = 1 where id = 1000")
    loads = []
    with changes(source, 1):
        for more in (0, 2):
            loads.append(loaded(source, ["b"], position, more))
            source.sql("insert into {at}.b (id, n) values (2000, 1)", "delete from {at}.b where id = 2000")
    assert sum(batch.count for batch in loads[0][1].batches) > 1
    for transport, rows, later in loads:
        end: Batch = [*rows.batches, *later.batches][-1]
        transport.open_at(transport.join_tables([f"{source.at}.b"], position, end))
        try:
            rest = drained(transport, acknowledge=False)
            new = [
                [
                    transport.select_after(table, end.position) if table.table.endswith(".b") else table
                    for table in batch.tables
                ]
                for batch in rest.batches
            ]
        finally:
            transport.close_source()
        again = next((i for i, batch in enumerate(rest.batches) if batch.is_rewound), None)
        assert (again is None) == isinstance(source.server, PostgreSQLServer)
        kept = [replace(batch, tables=tuple(tables)) for batch, tables in zip(rest.batches, new, strict=True)]
        events = [event for table, event in Reading(kept).events if table.endswith(".b")]
        seen = applied({row["id"]: row["n"] for _, row in rows.changes}, [event for _, event in later.events])
        assert applied(seen, events) == source.rows("b")
        first = [event for table, event in Reading(kept[:again]).events if table.endswith(".a")]
        assert again is not None or applied({1: 0, 2: 0, 3: 0}, first) == source.rows("a")
    if isinstance(source.server, PostgreSQLServer):
        assert source.sql("select count(*) from pg_replication_slots where slot_name like '{at}%'") == "1"


def test_tables_without_rows_tell_their_columns(source: Source) -> None:
    both = replace(source.connection, tables=(rf"{source.at}\.(a|nothing)",))
    first = drain(both)
    later = loaded(source, ["b", "nothing"], first.position)[1]
    columns = (SourceColumn("id", "int"), SourceColumn("n", "int"))
    for reading in (first, later):
        assert [dict(reading.schemas)[f"{source.at}.nothing"]] == [SourceSchema(columns, ("id",))]
        assert [row["id"] for _, row in reading.changes] == [1, 2, 3]


def test_a_table_that_is_not_there_is_named_and_nothing_is_made(source: Source) -> None:
    position = drain(source.connection).position
    with pytest.raises(SourceError, match=rf"there is no table {source.at}\\?\.c"):
        loaded(source, ["c"], position)
    assert drain(source.connection, position).changes == []


def test_the_catalog_has_the_tables_of_a_database_with_their_keys(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    source.sql(
        "create table {at}.pair (x int, b int, a int, primary key (b, a))",
        "create table {at}.keyless (x int)",
        "create view {at}.v as select 1 as x",
    )
    tables = [table for table in DebeziumTransport(source.connection).list_catalog() if table.schema == source.at]
    keys = {"a": ("id",), "b": ("id",), "keyless": (), "nothing": ("id",), "pair": ("b", "a")}
    assert {table.name: table.key for table in tables} == keys
    connection = source.connection
    assert (
        main(
            [
                "ingest",
                "--discover",
                f"{connection.connector}://{connection.user}@{connection.host}:{connection.port}/{connection.database}",
            ]
        )
        == 0
    )
    (declared,) = yaml.safe_load(capsys.readouterr().out)["sources"]
    named = {
        table.get("config", {}).get("meta", {}).get("arctic", {}).get("source_table") for table in declared["tables"]
    }
    names = {table["name"] for table in declared["tables"]}
    assert f"{source.at}.pair" in named if connection.connector == "postgresql" else names == set(keys)


def test_rows_are_estimated_by_the_statistics_of_the_server(source: Source) -> None:
    is_postgresql = isinstance(source.server, PostgreSQLServer)
    source.sql("analyze {at}.a" if is_postgresql else "analyze table {at}.a")
    tables = [f"{source.at}.{table}" for table in ("a", "nothing")]
    assert DebeziumTransport(source.connection).estimate_rows(tables) == {tables[0]: 3}
