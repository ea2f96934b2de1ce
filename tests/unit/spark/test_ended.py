"""Noticing that Spark is gone while nobody uses it, and ending what can't go on without it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.errors import PySparkAssertionError, PySparkRuntimeError
from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException

from arctic_runtime.errors import SparkEnded
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.spark_loss import to_spark_ended, watch_spark
from arctic_runtime.thresholds import EngineThresholds
from dbt.adapters.arctic.commands.termination import stop_with_spark

LIMITS = EngineThresholds(spark_watch_seconds=0.02, connect_seconds=1.0)
HANGING = """
import subprocess, sys, threading
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.thresholds import EngineThresholds
from dbt.adapters.arctic.commands.termination import stop_with_spark
limits = EngineThresholds(spark_watch_seconds=0.02, spark_end_seconds=0.1)
PROCESS.thresholds, PROCESS.jvm = limits, subprocess.Popen([sys.executable, "-c", ""])
with stop_with_spark("serve", lambda _: None, limits):
    threading.Event().wait()
"""

ENDING = """
import subprocess, sys, threading, time
from arctic_runtime.errors import SparkEnded
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.thresholds import EngineThresholds
from dbt.adapters.arctic.commands.termination import stop_with_spark
limits = EngineThresholds(spark_watch_seconds=0.02, spark_end_seconds=0.2)
PROCESS.thresholds, PROCESS.jvm = limits, subprocess.Popen([sys.executable, "-c", ""])
stopped = threading.Event()
try:
    with stop_with_spark("serve", lambda _: stopped.set(), limits):
        stopped.wait()
except SparkEnded:
    time.sleep(0.5)
    print("went on")
"""


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of Java's."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state = {
        "server": "",
        "is_server_kept": False,
        "settings": {},
        "thresholds": LIMITS,
        "jvm": process,
        "ended": None,
        "log": Path(),
    }
    for name, value in state.items():
        monkeypatch.setattr(PROCESS, name, value)
    yield process
    process.kill()
    process.communicate()


class Heard(list[SparkEnded]):
    """The ends that somebody was told of."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def __call__(self, error: SparkEnded) -> None:
        self.append(error)
        self.came.set()


def test_java_that_is_killed_while_nobody_uses_it_is_noticed_once(java: subprocess.Popen[bytes]) -> None:
    heard = Heard()
    with watch_spark(LIMITS, heard):
        assert not heard.came.wait(0.2)
        java.kill()
        assert heard.came.wait(60)
    assert [f"process {java.pid}" in str(error) and "signal 9" in str(error) for error in heard] == [True]


def test_a_kept_server_that_stops_listening_is_noticed(java: subprocess.Popen[bytes]) -> None:
    heard = Heard()
    PROCESS.is_server_kept = True
    with socket.create_server(("127.0.0.1", 0)) as server:
        PROCESS.server = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with watch_spark(LIMITS, heard):
            assert not heard.came.wait(0.2)
            server.close()
            assert heard.came.wait(60)
    assert "it does not answer any more" in str(heard[0])


def test_a_server_of_others_may_come_back_so_that_nobody_ends_with_it(java: subprocess.Popen[bytes]) -> None:
    heard = Heard()
    with socket.create_server(("127.0.0.1", 0)) as server:
        PROCESS.server = f"sc://127.0.0.1:{server.getsockname()[1]}"
    with watch_spark(LIMITS, heard):
        ended = to_spark_ended(ConnectionRefusedError())
        assert not heard.came.wait(0.2)
    assert "it does not answer any more" in str(ended)
    assert "run again when it answers" in str(ended)


class Held:
    """A session on a server, whose requests wait until its channel is closed."""

    def __init__(self) -> None:
        self.client, self._channel, self.closed = self, self, threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_requests_to_a_server_whose_machine_is_gone_do_not_wait_for_ever(
    java: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, held = Heard(), Held()
    monkeypatch.setattr(PROCESS, "lent", {held})
    with socket.create_server(("127.0.0.1", 0)) as server:
        PROCESS.server = f"sc://127.0.0.1:{server.getsockname()[1]}"
        with watch_spark(LIMITS, heard):
            assert not held.closed.wait(0.2)
            server.close()
            assert held.closed.wait(60)
    assert not heard


LOST = {
    "a request of an ended session": SparkConnectException(errorClass="NO_ACTIVE_SESSION", messageParameters={}),
    "an answer that was cut off": PySparkRuntimeError(
        errorClass="RESPONSE_ALREADY_RECEIVED", messageParameters={"error_type": "INVALID_HANDLE.SESSION_NOT_FOUND"}
    ),
    "a session that is not there": SparkConnectGrpcException(
        "[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid.", errorClass="INVALID_HANDLE.SESSION_CLOSED"
    ),
    "a request under way when its channel was closed": SparkConnectGrpcException("Channel closed!"),
    "a later request": ValueError("Cannot invoke RPC on closed channel!"),
    "an answer of another server": PySparkAssertionError(
        "Received incorrect server side session identifier for request. Please create a new Spark Session."
    ),
}


@pytest.mark.parametrize("error", LOST.values(), ids=LOST.keys())
def test_a_session_that_its_server_lost_is_an_error_with_the_server_and_what_to_do(
    java: subprocess.Popen[bytes], error: Exception
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        PROCESS.server = f"sc://127.0.0.1:{server.getsockname()[1]}/;token=secret"
        ended = str(to_spark_ended(error))
    assert f"where: the server at 127.0.0.1:{server_port(PROCESS.server)}\n" in ended
    assert "found: it was started again, or has ended this session\n" in ended
    assert "run again when it answers: nothing is lost, and nothing is applied twice" in ended
    assert to_spark_ended(RuntimeError(str(error))) is None


def server_port(url: str) -> int | None:
    return urlsplit(url).port


def test_an_end_that_is_known_is_not_looked_for_another_time(java: subprocess.Popen[bytes]) -> None:
    known, error = SparkEnded("Spark is gone."), RuntimeError("a refresh failed")
    error.__cause__ = known
    assert to_spark_ended(error) is known


def test_what_a_part_notices_everybody_learns(java: subprocess.Popen[bytes]) -> None:
    heard = Heard()
    with watch_spark(LIMITS, heard):
        assert to_spark_ended(RuntimeError("no such column")) is None
        assert not heard.came.wait(0.2)
        stopped = to_spark_ended(RuntimeError("IllegalStateException: Cannot call methods on a stopped SparkContext."))
        assert heard.came.wait(60)
    assert heard == [stopped]
    assert "where: Spark in this process\n" in str(stopped)
    assert "found: its Spark context was stopped, or lost its cluster" in str(stopped)


def test_a_command_that_ends_as_asked_fails_with_the_end_of_spark(java: subprocess.Popen[bytes]) -> None:
    stopped = threading.Event()

    def work() -> None:
        with stop_with_spark("serve", lambda _: stopped.set(), LIMITS):
            assert stopped.wait(60)
            raise RuntimeError("a refresh failed, which is not why the command ends")

    java.kill()
    with pytest.raises(SparkEnded, match="Spark is gone"):
        work()


def test_a_command_whose_spark_is_there_fails_by_its_own_error(java: subprocess.Popen[bytes]) -> None:
    with pytest.raises(RuntimeError, match="a refresh failed"), stop_with_spark("serve", lambda _: None, LIMITS):
        raise RuntimeError("a refresh failed")


def test_a_command_that_does_not_end_is_ended() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (1, "arctic serve: Spark is gone.")


def test_a_command_that_has_ended_leaves_its_process_alone() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "went on\n")


def test_an_end_that_was_noticed_before_is_not_one_of_the_next_command(java: subprocess.Popen[bytes]) -> None:
    PROCESS.ended = SparkEnded("an earlier one")
    heard = Heard()
    with watch_spark(LIMITS, heard):
        assert not heard.came.wait(0.2)
        java.kill()
        assert heard.came.wait(60)
    assert "signal 9" in str(heard[0])
