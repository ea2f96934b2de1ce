"""Sessions on a Spark Connect server end by request, and never by the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any, cast

import pytest
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator
from pyspark.sql.connect.session import SparkSession

from arctic_runtime.spark.engine.connection import disable_collector_close, end_session


class Fixture:
    """A session on a server that is not there, and the closes of channels that it asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.closes = 0
        monkeypatch.setattr(ExecutePlanResponseReattachableIterator, "shutdown", self.count)
        monkeypatch.setattr(SparkConnectClient, "release_session", lambda _: None)
        self.session: Any = cast(Any, SparkSession("sc://localhost:1"))
        self.client: Any = self.session.client
        disable_collector_close(self.session)

    def count(self) -> None:
        self.closes += 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fixture]:
    fixture = Fixture(monkeypatch)
    yield fixture
    if hasattr(fixture, "client"):
        fixture.client._channel.close()


def test_a_collected_session_waits_for_no_thread(server: Fixture) -> None:
    server.session.__del__()
    assert server.closes == 0


def test_a_session_is_closed_when_it_ends_and_never_again(server: Fixture) -> None:
    end_session(server.session)
    server.session.__del__()
    assert (server.closes, server.client.is_closed) == (1, True)


def test_a_client_is_not_kept_after_its_session(server: Fixture) -> None:
    end_session(server.session)
    client = weakref.ref(server.client)
    del server.session, server.client
    gc.collect()
    assert client() is None


def test_a_session_whose_server_has_ended_ends_without_an_error(
    server: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no server")

    monkeypatch.setattr(SparkSession, "stop", fail)
    end_session(server.session)
