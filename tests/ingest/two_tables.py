"""A source with two tables in each kind of database."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from tests.ingest.servers import MariaDBServer, PostgreSQLServer


@dataclass(frozen=True)
class Source:
    """A schema with the tables `a`, which a stream has, and `b` and `nothing`, which it does not have."""

    server: PostgreSQLServer | MariaDBServer
    at: str
    connection: DebeziumConnection

    def sql(self, *statements: str) -> str:
        return self.server.sql(*(statement.format(at=self.at) for statement in statements))

    def rows(self, table: str) -> dict[int, int]:
        shown = self.sql(f"select concat_ws(',', id, n) from {{at}}.{table}").split()
        return {int(row.split(",")[0]): int(row.split(",")[1]) for row in shown}


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=pytest.mark.slow)])
def source(request: pytest.FixtureRequest, slot: str) -> Source:
    server: PostgreSQLServer | MariaDBServer = request.getfixturevalue(request.param)
    is_postgresql = isinstance(server, PostgreSQLServer)
    user, database = ("postgres", "shop") if is_postgresql else ("root", slot)
    connection = DebeziumConnection(
        request.param, "127.0.0.1", server.port, database, user, "", (rf"{slot}\.a",), slot
    )  # fmt: skip
    made = Source(server, slot, connection)
    made.sql(
        "create schema {at}",
        *(f"create table {{at}}.{table} (id int primary key, n int not null)" for table in ("a", "b", "nothing")),
        *(f"insert into {{at}}.{table} values (1, 0), (2, 0), (3, 0)" for table in ("a", "b")),
    )
    return made
