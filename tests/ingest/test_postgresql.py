"""A real PostgreSQL through Debezium's engine: nothing is lost, nothing comes twice, and errors say what to do."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.transports.debezium_connection import DebeziumConnection
from tests.ingest.reading import drained, opened
from tests.ingest.servers import PostgreSQLServer


@pytest.fixture
def connection(postgresql: PostgreSQLServer, slot: str) -> DebeziumConnection:
    """A connection to tables `a` and `b` of a schema of the test's own."""
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.a (id int primary key, name text)",
        f"create table {slot}.b (id bigint primary key, amount numeric(10, 2))",
    )
    return DebeziumConnection(
        "postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "nothing", (f"{slot}.a", f"{slot}.b"), slot
    )


def test_a_snapshot_is_followed_by_what_happened_since(
    postgresql: PostgreSQLServer, connection: DebeziumConnection
) -> None:
    at = connection.slot
    postgresql.sql(f"insert into {at}.a select g, 'n' || g from generate_series(1, 3) g")
    with opened(connection) as transport:
        first = drained(transport)
        postgresql.sql(
            f"insert into {at}.b values (7, 1.50)",
            f"update {at}.a set name = 'new' where id = 2",
            f"delete from {at}.a where id = 1",
        )
        second = drained(transport)
    assert first.changes == [("r", {"id": i, "name": f"n{i}"}) for i in (1, 2, 3)]
    assert [(table, event["op"]) for table, event in second.events] == [
        (f"{at}.b", "c"),
        (f"{at}.a", "u"),
        (f"{at}.a", "d"),
    ]
    assert second.changes[0][1] == {"id": 7, "amount": 1.50}
    assert second.ids == [7, 2, 1]
    assert [table for table, _ in second.schemas] == [f"{at}.b", f"{at}.a"]
