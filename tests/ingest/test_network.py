"""Databases over a network that delays, cuts and refuses: each event comes once, and an error can be read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from arctic_runtime.errors import ArcticError, SourceError
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from tests.ingest.reading import drain
from tests.ingest.servers import PostgreSQLServer
from tests.ingest.test_exactly_once import Database, database, ingest, is_equal, is_exact, load
from tests.ingest.test_exactly_once import source as direct
from tests.network_proxy import Fault, NetworkProxy
from tests.spark.warehouse import Warehouse

__all__ = ["database", "direct"]

FAULTS = {
    "delay": Fault(delay_seconds=0.005),
    "refused": Fault(is_refused=True, times=2),
    "cut request": Fault(request_bytes=3_000, times=4),
    "cut answer": Fault(answer_bytes=20_000, times=4),
    "cut answer at once": Fault(answer_bytes=0, times=2),
}


@pytest.fixture
def small(postgresql: PostgreSQLServer, slot: str) -> Iterator[tuple[NetworkProxy, DebeziumConnection]]:
    """A connection through a proxy to a table with 2,000 rows."""
    postgresql.sql(
        f"create schema {slot}",
        f"create table {slot}.a (id int primary key, name text)",
        f"insert into {slot}.a select g, repeat('x', 100) from generate_series(1, 2000) g",
    )
    with NetworkProxy(postgresql.port) as proxy:
        yield (
            proxy,
            DebeziumConnection("postgresql", "127.0.0.1", proxy.port, "shop", "postgres", "-", (f"{slot}.a",), slot),
        )


def test_a_cut_connection_is_an_error_with_its_address_and_no_event_is_lost(
    postgresql: PostgreSQLServer, small: tuple[NetworkProxy, DebeziumConnection]
) -> None:
    """First while the table is loaded, then before and in the stream."""
    proxy, connection = small
    with proxy.faulty(Fault(answer_bytes=60_000)), pytest.raises(SourceError) as raised:
        drain(connection)
    assert str(proxy.port) in str(raised.value)
    first = drain(connection)
    assert sorted(first.ids) == list(range(1, 2001))
    postgresql.sql(f"update {connection.slot}.a set name = 'new' where id <= 500")
    with proxy.faulty(Fault(is_refused=True)), pytest.raises(SourceError, match=str(proxy.port)):
        drain(connection, first.position)
    second = drain(connection, first.position)
    assert sorted(second.ids) == list(range(1, 501))


@pytest.fixture
def proxy(database: Database) -> Iterator[NetworkProxy]:
    with NetworkProxy(database.server.port) as proxy:
        yield proxy


@pytest.fixture
def source(direct: IngestSource, proxy: NetworkProxy) -> IngestSource:
    return replace(direct, connection={**direct.connection, "port": proxy.port})


@contextmanager
def cuts(proxy: NetworkProxy, seconds: float) -> Iterator[None]:
    """All connections are cut again and again until the block ends."""
    ended = threading.Event()

    def cut() -> None:
        while not ended.wait(seconds):
            proxy.cut_all()

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def ingest_with_errors(lake: Warehouse, source: IngestSource, attempts: int) -> list[ArcticError]:
    """Ingests until it succeeds, and returns the errors before."""
    errors: list[ArcticError] = []
    for _ in range(attempts):
        try:
            ingest(lake, source)
            break
        except ArcticError as error:
            errors.append(error)
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize("name", FAULTS)
def test_a_database_under_load_is_ingested_exactly_over_a_bad_network(
    lake: Warehouse, database: Database, proxy: NetworkProxy, source: IngestSource, name: str
) -> None:
    """The fault comes at the snapshot, and at the stream."""
    for seed in (1, 2):
        with load(database, seed), proxy.faulty(FAULTS[name]):
            errors = ingest_with_errors(lake, source, 12)
        assert all(str(proxy.port) in str(error) or error.fix for error in errors), errors
    ingest(lake, source)
    is_exact(lake, database, source)
    assert lake.spark.table(str(source.dead_letter_table)).count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_connections_that_are_cut_every_second_lose_and_repeat_nothing(
    lake: Warehouse, database: Database, proxy: NetworkProxy, source: IngestSource
) -> None:
    ingest(lake, source)
    with load(database, 3, pause=0.05), cuts(proxy, 1.0):
        ingest_with_errors(lake, source, 10)
    ingest(lake, source)
    is_equal(lake, database)
