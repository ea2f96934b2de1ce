"""Another server in the place of the one that was read: what it lacks is an error, and never left out in silence."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import read_position
from arctic_runtime.ingest.transports.debezium.servers.postgresql_log import check_same_log, read_timelines
from arctic_runtime.ingest.transports.debezium.servers.source_database import SourceDatabase
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.thresholds import SHIPPED
from tests.ingest.conftest import running
from tests.ingest.reading import drain
from tests.ingest.servers import MariaDBServer, PostgreSQLServer


class Pair(PostgreSQLServer):
    """A PostgreSQL with a standby that has what was there when it was copied, and takes its place."""

    def copy(self) -> None:
        self._run("pg_basebackup", "-D", str(self.standby), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")

    @property
    def standby(self) -> Path:
        return self.folder / "standby"

    def fail_over(self) -> None:
        """The first server is gone, and the standby answers at its address, on a timeline of its own."""
        self.stop()
        data = self.folder / "data"
        data.rename(self.folder / "gone")
        self.standby.rename(data)
        (data / "standby.signal").touch()
        shutil.chown(data / "standby.signal", self._user)
        self.start()
        self.sql("select pg_promote()")


@pytest.fixture
def pair() -> Iterator[Pair]:
    server = running(Pair)
    server.sql("create table a (id int primary key, name text)", "insert into a values (1, 'first')")
    yield server
    server.remove()


def connect(pair: Pair) -> DebeziumConnection:
    return DebeziumConnection("postgresql", "127.0.0.1", pair.port, "shop", "postgres", "-", ("public.a",), "pair")


def create_slot(pair: Pair) -> None:
    """As an operator does who wants the stream to go on; PostgreSQL 17 can keep the slot on the standby."""
    pair.sql("select pg_create_logical_replication_slot('pair', 'pgoutput')")


@pytest.mark.in_turn
def test_a_standby_that_lacks_what_was_read_is_an_error_although_it_has_written_more_since(pair: Pair) -> None:
    """Its new rows have places in the log that are before the position, and would be left out as read."""
    first = drain(connect(pair))
    pair.copy()
    pair.sql("insert into a select n, 'lost' from generate_series(2, 2000) n")
    position = drain(connect(pair), first.position).position
    pair.fail_over()
    create_slot(pair)
    pair.sql("insert into a select n, 'new' from generate_series(2, 9000) n")
    for attempt in (DebeziumTransport(connect(pair)).check_source, DebeziumTransport(connect(pair)).open_at):
        with pytest.raises(
            SourceError, match=r"standby was promoted that had not received[\s\S]*arctic ingest --resync"
        ):
            attempt(position)


@pytest.mark.in_turn
def test_a_log_that_ends_before_what_was_read_is_an_error_for_a_position_of_an_earlier_version(pair: Pair) -> None:
    first = drain(connect(pair))
    pair.copy()
    pair.sql("insert into a select n, 'lost' from generate_series(2, 20000) n")
    position = drain(connect(pair), first.position).position.replace('"log"', '"unknown"')
    assert read_position(position).log is None
    pair.fail_over()
    create_slot(pair)
    with pytest.raises(SourceError, match=r"ends before what was read[\s\S]*a log up to 0/[\s\S]*its end at 0/"):
        DebeziumTransport(connect(pair)).check_source(position)


@pytest.mark.in_turn
def test_a_standby_that_had_received_all_is_no_error(pair: Pair) -> None:
    position = read_position(drain(connect(pair)).position)
    pair.copy()
    pair.fail_over()
    database = SourceDatabase(connect(pair), SHIPPED.debezium.heap_bytes)
    ((timeline, begin),) = read_timelines(database, "2")
    assert (timeline, begin >= position.reached) == (1, True)
    check_same_log(connect(pair), database, position)
    database.close_connection()


@pytest.mark.in_turn
def test_another_server_at_the_address_is_an_error(pair: Pair) -> None:
    position = drain(connect(pair)).position
    other = Pair()
    try:
        other.sql("create table a (id int primary key, name text)")
        create_slot(other)
        with pytest.raises(SourceError, match=r"another server answers[\s\S]*system identifier \d+"):
            DebeziumTransport(connect(other)).check_source(position)
    finally:
        other.remove()


@pytest.mark.in_turn
def test_a_replica_with_a_binary_log_of_its_own_is_an_error(mariadb: MariaDBServer, slot: str) -> None:
    """Its log may have files of the same names, and its places mean other events."""
    mariadb.sql(f"create database {slot}", f"create table {slot}.a (id int primary key)")
    connection = DebeziumConnection("mariadb", "127.0.0.1", mariadb.port, slot, "root", "", (rf"{slot}\.a",), slot)
    position = drain(connection).position
    replica = MariaDBServer(**{"server-id": "2"})
    try:
        replica.sql(f"create database {slot}", f"create table {slot}.a (id int primary key)")
        replica.sql(*["flush binary logs"] * 5)
        there = DebeziumConnection("mariadb", "127.0.0.1", replica.port, slot, "root", "", (rf"{slot}\.a",), slot)
        with pytest.raises(SourceError, match=r"another server answers[\s\S]*server_id 1[\s\S]*server_id 2"):
            DebeziumTransport(there).check_source(position)
    finally:
        replica.remove()
