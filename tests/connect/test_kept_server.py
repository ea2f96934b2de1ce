"""The Spark server that is kept, with Java in it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from arctic_runtime.profile import KEPT, Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.server import Server

ASK = """
import sys
from pyspark.sql import SparkSession
print(SparkSession.builder.remote(sys.argv[1]).create().sql("select 40 + 2").collect()[0][0])
"""

JOIN = """
import json, sys
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.session import SparkEnvironment
environment = SparkEnvironment(Profile(**json.loads(sys.argv[1])))
print(environment.new_session().range(3).count(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory, spark_settings: dict[str, str]) -> Profile:
    warehouse = tmp_path_factory.mktemp("kept") / "warehouse"
    return Profile.for_embedded(warehouse, method="connect", url=KEPT, settings=spark_settings)


@pytest.fixture(scope="module")
def running(profile: Profile) -> Iterator[Server]:
    yield server.ensure_server(profile)
    server.stop_server(profile)


def ask(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ASK, url], capture_output=True, text=True, check=False)


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.in_turn
def test_it_answers_only_those_who_know_its_token(running: Server) -> None:
    assert ask(running.url).stdout == "42\n"
    conflicting = ask(running.url.replace(running.token, "guessed"))
    assert conflicting.returncode != 0
    assert "Invalid authentication token" in conflicting.stderr


def test_it_listens_on_the_loopback_address_only(running: Server) -> None:
    assert listens("127.0.0.1", running.port)
    assert not listens("127.0.0.2", running.port)


@pytest.mark.slow
def test_java_ends_with_it_however_it_ends_and_holds_up_no_client(running: Server, profile: Profile) -> None:
    given = {name: value for name, value in asdict(profile).items() if name != "thresholds"}
    with subprocess.Popen(
        [sys.executable, "-c", JOIN, json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "3\n"
        os.kill(running.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while listens("127.0.0.1", running.port) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not listens("127.0.0.1", running.port)
        client.communicate(timeout=120)
        assert client.returncode == 0
