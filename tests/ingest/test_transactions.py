"""What one transaction of a database changes in several tables comes in one batch, by whose position all are told."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.thresholds import SHIPPED
from tests.ingest.reading import Reading, drain, drained, opened, progress
from tests.ingest.servers import PostgreSQLServer
from tests.ingest.two_tables import Source

POLLS = replace(SHIPPED.debezium, poll_events=7)
"""Records cross in parts that end anywhere in transactions."""


@pytest.fixture
def connection(source: Source) -> DebeziumConnection:
    return replace(source.connection, tables=(rf"{source.at}\.(a|b)",))


def transactions(source: Source, first: int, count: int) -> None:
    """Each gives five rows to both tables, all with its number."""
    for number in range(first, first + count):
        ids = range(number * 10, number * 10 + 5)
        rows = ", ".join(f"({key}, {number})" for key in ids)
        source.sql("begin", *(f"insert into {{at}}.{table} values {rows}" for table in "ab"), "commit")


def numbers(reading: Reading) -> list[set[int]]:
    """The transactions that each batch has events of."""
    return [{event["after"]["n"] for _, event in Reading([batch]).events} for batch in reading.batches]


def test_a_transaction_is_whole_in_one_batch(source: Source, connection: DebeziumConnection) -> None:
    position = drain(connection).position
    transactions(source, 1, 12)
    with opened(connection, position, thresholds=POLLS) as transport:
        reading = drained(transport, acknowledge=False)
    assert sum(map(len, numbers(reading))) == 12
    assert len(reading.events) == 120
    assert all("seen" not in json.loads(batch.position) for batch in reading.batches)
    half = len(reading.batches) // 2
    assert half
    with opened(connection, progress(reading.batches[half - 1])) as transport:
        rest = drained(transport, acknowledge=False)
    assert set.union(*numbers(rest)) == set.union(*numbers(reading)[half:])
    assert len(rest.events) == sum(batch.count for batch in reading.batches[half:])


@pytest.mark.slow
def test_one_that_is_too_large_to_wait_for_comes_in_parts(source: Source, connection: DebeziumConnection) -> None:
    position = drain(connection).position
    transactions(source, 1, 6)
    reading = drain(connection, position, thresholds=replace(POLLS, batch_bytes=1))
    assert len(reading.events) == 60
    assert any("seen" in json.loads(batch.position) for batch in reading.batches)


def test_both_events_of_a_row_that_moves_are_in_one_part(postgresql: PostgreSQLServer, slot: str) -> None:
    at = f"{slot}.a"
    postgresql.sql(f"create schema {slot}", f"create table {at} (id int primary key, n int)")
    connection = DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "", (rf"{slot}\.a",), slot
    )
    position = drain(connection).position
    postgresql.sql(f"insert into {at} select g, g from generate_series(1, 40) g", f"update {at} set id = id + 100")
    reading = drain(connection, position, thresholds=replace(POLLS, batch_bytes=1))
    parts = [[event["op"] for _, event in Reading([batch]).events] for batch in reading.batches if batch.count]
    assert len(parts) > 4
    assert {part[-1] for part in parts} == {"c"}
    assert [op for part in parts for op in part] == ["c"] * 40 + ["d", "c"] * 40
    assert sorted(reading.ids) == sorted([*range(1, 41)] * 2 + [*range(101, 141)])


def test_the_last_transaction_does_not_wait_for_another_one(source: Source, connection: DebeziumConnection) -> None:
    """Nothing else happens until its events have come."""
    position = drain(connection).position
    with opened(connection, position) as transport:
        giving_up = threading.Timer(60, transport.close_source)
        giving_up.start()
        batches = transport.read_batches(until_drained=False)
        for number in range(1, 3):
            transactions(source, number, 1)
            assert next((batch.count for batch in batches if batch.count), 0) == 10
        giving_up.cancel()
