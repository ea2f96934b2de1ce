"""Tables are read under whatever names a database allows, each as itself."""

from __future__ import annotations

import re

import pytest

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from tests.ingest.reading import Reading, drained, opened
from tests.ingest.servers import MariaDBServer, PostgreSQLServer

NAMES = (
    "Zone.B",
    "a b",
    "a_b",
    "a,b",
    "quo\"t'e",
    "back`tick\\slash",
    "Größe☃",
    "orders",
    "#[x]{1}(+)$",
    "x" * 63,
)
"""Names of tables, and of a column in each; Debezium has one topic for the second, third and fourth."""


@pytest.mark.parametrize("connector", ["postgresql", "mariadb"])
def test_names_of_all_kinds_are_those_of_snapshot_and_stream(
    request: pytest.FixtureRequest, connector: str, slot: str
) -> None:
    server: PostgreSQLServer | MariaDBServer = request.getfixturevalue(connector)
    mark = '"' if connector == "postgresql" else "`"

    def quote(name: str) -> str:
        return mark + name.replace(mark, mark * 2) + mark

    schema = f"{slot}.S, ü"
    tables = {name: f"{quote(schema)}.{quote(name)}" for name in NAMES}
    twin = f"{quote(schema)}.{quote('Orders')}"
    server.sql(
        f"create schema {quote(schema)}",
        *(f"create table {table} (id int primary key, {quote(name)} int)" for name, table in tables.items()),
        f"create table {twin} (id int primary key, n int)",
        *(f"insert into {table} values (1, 5)" for table in (*tables.values(), twin)),
    )
    user = "postgres" if connector == "postgresql" else "root"
    patterns = tuple(re.escape(f"{schema}.{name}") for name in NAMES)
    connection = DebeziumConnection(connector, "127.0.0.1", server.port, "shop", user, "", patterns, slot)
    with opened(connection) as transport:
        first = drained(transport)
        server.sql(
            *(f"update {table} set {quote(name)} = 6" for name, table in tables.items()),
            f"update {twin} set n = 6",
        )
        second = drained(transport)

    def list_rows(reading: Reading) -> dict[str, dict[str, int]]:
        rows = zip((table for table, _ in reading.events), (row for _, row in reading.changes), strict=True)
        return dict(sorted(rows))

    for reading, value in ((first, 5), (second, 6)):
        expected = {f"{schema}.{name}": {"id": 1, name: value} for name in NAMES}
        assert list_rows(reading) == dict(sorted(expected.items()))


def test_dates_in_a_table_whose_name_has_a_comma_are_refused_by_its_name(
    postgresql: PostgreSQLServer, slot: str
) -> None:
    postgresql.sql(
        f"create schema {slot}",
        f'create table {slot}."a,b" (id int primary key, day date)',
        f"create table {slot}.c (id int primary key, day date)",
    )
    tables = (f"{slot}.a,b", f"{slot}.c")
    patterns = tuple(map(re.escape, tables))
    connection = DebeziumConnection("postgresql", "127.0.0.1", postgresql.port, "shop", "postgres", "-", patterns, slot)
    reasons = DebeziumTransport(connection).find_unreadable(tables)
    assert [*reasons] == [f"{slot}.a,b"]
    assert f"whose name has a comma: {slot}.a,b.day (date)" in reasons[f"{slot}.a,b"]
