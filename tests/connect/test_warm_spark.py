"""Commands of which each leaves its Spark to the next, with Java in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.warm_server import find_uses, open_door
from arctic_runtime.thresholds import EngineThresholds

COMMAND = """
import json, sys
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.session import SparkEnvironment
environment = SparkEnvironment(Profile.for_embedded(**json.loads(sys.argv[1])))
session = environment.new_session()
rows = [row[0] for row in session.sql(sys.argv[2]).collect()]
print(json.dumps({"rows": rows, "is_kept": bool(PROCESS.server)}), flush=True)
sys.stdin.read()
"""
LIMITS = EngineThresholds()
FEW_ROWS = "select id from range(3)"
MUCH_WORK = "select count(*) from range(1000000) a cross join range(1000000) b"


@dataclass
class Answer:
    """The rows that a command got, whether its Spark is kept, and the lines that it printed for its user."""

    rows: list[Any]
    is_kept: bool
    lines: str


class Commands:
    """Programs that use the Spark of one warehouse."""

    def __init__(self, warehouse: Path, settings: dict[str, str]) -> None:
        self.warehouse = warehouse
        self.settings = settings
        self.running: list[subprocess.Popen[str]] = []

    @property
    def profile(self) -> Profile:
        return Profile.for_embedded(self.warehouse, settings=self.settings, keep_alive_seconds=600.0)

    def start(self, query: str = FEW_ROWS, keep_alive: float = 600.0, **settings: str) -> subprocess.Popen[str]:
        """Starts a command, which stays until its input ends."""
        given = {
            "warehouse": str(self.warehouse),
            "settings": {**self.settings, **settings},
            "keep_alive_seconds": keep_alive,
        }
        arguments = [sys.executable, "-c", COMMAND, json.dumps(given), query]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.running.append(subprocess.Popen(arguments, text=True, **pipes))
        return self.running[-1]

    def run(self, query: str = FEW_ROWS, keep_alive: float = 600.0, **settings: str) -> Answer:
        """Runs a command to its end."""
        out, lines = self.start(query, keep_alive, **settings).communicate(timeout=300)
        return Answer(**json.loads(out), lines=lines)

    def find_server(self) -> server.Server:
        running = server.find_server(self.profile)
        assert running is not None
        return running

    def find_users(self) -> tuple[str, ...]:
        directory = server.get_directory(self.profile)
        with open_door(directory, LIMITS):
            return find_uses(directory, self.find_server().fingerprint).users


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, spark_settings: dict[str, str]) -> Iterator[Commands]:
    made = Commands(tmp_path_factory.mktemp("warm") / "warehouse", spark_settings)
    yield made
    for command in made.running:
        command.kill()
        command.communicate()
    server.stop_server(made.profile)


def comes_true(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    deadline = time.monotonic() + seconds
    while not (is_true := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return is_true


@pytest.mark.in_turn
def test_a_command_finds_the_spark_of_the_one_before_and_says_nothing(commands: Commands) -> None:
    first = commands.run()
    kept = commands.find_server()
    second = commands.run()
    assert (first.rows, first.is_kept, second.rows, second.is_kept) == ([0, 1, 2], True, [0, 1, 2], True)
    assert (f"in process {kept.pid}" in first.lines, second.lines) == (True, "")
    assert commands.find_server() == kept


@pytest.mark.in_turn
def test_a_command_with_other_settings_has_a_spark_of_its_own_while_the_kept_one_is_used(commands: Commands) -> None:
    user = commands.start()
    assert user.stdout is not None
    assert user.stdout.readline()
    kept = commands.find_server()
    other = commands.run(**{"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert (other.rows, other.is_kept) == ([0, 1, 2], False)
    assert f"process {user.pid} uses it" in other.lines
    assert other.lines.count("\n") == 1
    assert commands.find_server() == kept
    user.communicate()


def test_a_command_that_is_killed_at_work_leaves_the_spark_to_the_next_one(commands: Commands) -> None:
    commands.run()
    kept, working = commands.find_server(), commands.start(MUCH_WORK)
    assert comes_true(lambda: str(working.pid) in commands.find_users())
    working.kill()
    working.communicate()
    assert commands.run().rows == [0, 1, 2]
    assert (commands.find_server(), commands.find_users()) == (kept, ())


@pytest.mark.slow
def test_a_spark_that_is_killed_under_a_command_is_replaced_by_the_next_one(commands: Commands) -> None:
    commands.run()
    kept, user = commands.find_server(), commands.start()
    assert user.stdout is not None
    assert user.stdout.readline()
    os.kill(kept.pid, signal.SIGKILL)
    assert user.communicate(timeout=120)[0] == ""
    after = commands.run()
    assert (after.rows, after.is_kept) == ([0, 1, 2], True)
    assert commands.find_server().pid != kept.pid


@pytest.mark.slow
def test_an_unused_spark_with_other_settings_is_replaced_and_ends_when_its_time_is_over(commands: Commands) -> None:
    commands.run()
    kept = commands.find_server()
    replaced = commands.run(keep_alive=1.0)
    assert (replaced.is_kept, "0.0167 minutes" in replaced.lines) == (True, True)
    assert comes_true(lambda: server.find_server(commands.profile) is None)
    assert commands.run().is_kept
    assert commands.find_server().pid != kept.pid


def test_a_spark_that_can_not_be_kept_is_started_by_the_command_itself(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Commands(tmp_path / "warehouse", commands.settings)
    directory = server.get_directory(other.profile)
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_text("a file in the place of the folder")
    answer = other.run()
    directory.unlink()
    assert (answer.rows, answer.is_kept) == ([0, 1, 2], False)
    assert answer.lines.startswith("Spark runs in this process and is not kept.")
    assert answer.lines.count("\n") == 1
