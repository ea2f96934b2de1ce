"""Real servers for the suites of ingestion, one of each kind for all tests of a process, and the Spark of others."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from tests.ingest.kafka_server import KafkaServer
from tests.ingest.servers import MariaDBServer, Missing, PostgreSQLServer
from tests.ingest.two_tables import source
from tests.spark.conftest import environment, lake, namespace, reader, spark

__all__ = ["environment", "lake", "namespace", "reader", "source", "spark"]

Server = TypeVar("Server")

_NUMBERS = itertools.count(1)


def running(server: Callable[[], Any]) -> Any:
    """A server, or the reason why suites that need it do not run; where CI is set, they must."""
    try:
        return server()
    except Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQLServer]:
    server = running(PostgreSQLServer)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDBServer]:
    server = running(MariaDBServer)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    server = running(KafkaServer)
    yield server
    server.remove()


@pytest.fixture
def slot() -> str:
    """A name that no other test has: of a schema, a replication slot and a publication."""
    return f"t{next(_NUMBERS)}"
