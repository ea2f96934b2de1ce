"""Idle sessions that are lent again, and those that a server does not have any more."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException

from arctic_runtime.api.table import Connection
from arctic_runtime.errors import SparkEnded
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import session_pool
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session_pool import SessionPool
from arctic_runtime.thresholds import EngineThresholds


class Remote:
    """A session whose module is that of Spark Connect's, on a server that may have lost it."""

    def __init__(self) -> None:
        self.is_lost = False
        self.conf = self

    def get(self, _: str) -> str:
        if self.is_lost:
            raise SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={})
        return "UTC"


Remote.__module__ = "pyspark.sql.connect.session"


class Environment:
    """Sessions as Spark has them for a profile."""

    def __init__(self) -> None:
        self.profile = Profile.for_embedded("warehouse")
        self.is_started = True
        self.ended: list[object] = []

    def new_session(self) -> Any:
        return Remote()

    def discard_session(self, session: object) -> None:
        self.ended.append(session)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[SessionPool]:
    """A pool on a server that listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"sc://127.0.0.1:{server.getsockname()[1]}"
        for name, value in {"server": url, "is_server_kept": False, "thresholds": EngineThresholds()}.items():
            monkeypatch.setattr(PROCESS, name, value)
        monkeypatch.setattr(session_pool, "preload_modules", lambda _: None)
        made = SessionPool(Profile.for_embedded("warehouse"))
        made.environment = Environment()  # type: ignore[assignment]
        yield made


def test_a_session_that_its_server_has_lost_is_ended_and_another_one_is_lent(pool: SessionPool) -> None:
    lost, other = pool.take_session(), pool.take_session()
    pool.give_back(other)
    pool.give_back(lost)
    lost.is_lost = True  # type: ignore[attr-defined]
    assert pool.take_session() is other
    assert pool.environment.ended == [lost]  # type: ignore[attr-defined]


def test_a_session_is_lent_again_while_its_server_has_it(pool: SessionPool) -> None:
    session = pool.take_session()
    pool.give_back(session)
    assert pool.take_session() is session


def test_no_session_is_lent_while_no_server_answers(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    session = pool.take_session()
    pool.give_back(session)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        monkeypatch.setattr(PROCESS, "server", f"sc://127.0.0.1:{closed.getsockname()[1]}")
    assert pool.take_session() is not session


def test_a_program_gets_another_session_after_its_server_was_started_again(pool: SessionPool, tmp_path: Path) -> None:
    profile = Profile.for_embedded(tmp_path / "warehouse")
    pool.environment.profile = profile
    registered = session_pool.get_pool(profile)
    registered.environment = pool.environment
    connection = Connection(profile)
    try:
        first = connection.get_session()
        assert connection.get_session() is first
        first.is_lost = True  # type: ignore[attr-defined]
        second = connection.get_session()
        assert (second is not first, connection.get_session() is second) == (True, True)
        connection.close_sessions()
    finally:
        session_pool.unregister_pool(registered)


def test_a_new_session_on_a_server_that_ended_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"sc://127.0.0.1:{closed.getsockname()[1]}"
    profile = Profile(catalog_properties={"type": "rest", "uri": "http://127.0.0.1:1"}, method="connect", url=url)
    environment = session_pool.SparkEnvironment(profile)
    for name, value in {"server": url, "thresholds": EngineThresholds(), "root": object()}.items():
        monkeypatch.setattr(PROCESS, name, value)
    monkeypatch.setattr(session_pool.SparkEnvironment, "is_started", True)
    with pytest.raises(SparkEnded, match="it does not answer any more"):
        environment.new_session()
