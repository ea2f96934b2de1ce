"""Commands that share a Spark which ends when none uses it, with a process in its place that has no Java."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.spark.engine.java.process import PROCESS
from arctic_runtime.spark.engine.serve import end_if_idle
from arctic_runtime.spark.engine.server import Server, get_directory
from arctic_runtime.spark.engine.warm_server import (
    IdleTimer,
    announce_use,
    begin_warm_server,
    find_uses,
    join_warm_server,
    leave_warm_server,
    open_door,
)
from arctic_runtime.thresholds import EngineThresholds, Thresholds
from tests.thresholds import changed
from tests.unit.spark.test_server import SERVE, comes_true, is_there

LIMITS = EngineThresholds()
OTHER = {"spark.driver.memory": "3g"}
USE = """
import sys
from pathlib import Path
from arctic_runtime.spark.engine.warm_server import announce_use, open_door
from arctic_runtime.thresholds import EngineThresholds
with open_door(Path(sys.argv[1]), EngineThresholds()):
    use = announce_use(Path(sys.argv[1]), sys.argv[2])
print("uses", flush=True)
sys.stdin.read()
"""
HOLD = """
import sys
from pathlib import Path
from arctic_runtime.spark.engine.warm_server import open_door
from arctic_runtime.thresholds import EngineThresholds
with open_door(Path(sys.argv[1]), EngineThresholds()):
    print("holds", flush=True)
    sys.stdin.read()
"""
MakeProfile = Callable[..., Profile]


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeProfile]:
    """Makes profiles of one catalog whose embedded Spark is kept, and ends that afterwards."""
    monkeypatch.setenv("DBT_ARCTIC_STATE", str(tmp_path / "home"))
    monkeypatch.setattr(server, "SERVER_COMMAND", (sys.executable, "-c", SERVE))
    alone = {"root": None, "server_use": None, "server_process": None, "report": lambda _: None}
    for name, value in alone.items():
        monkeypatch.setattr(PROCESS, name, value)

    def profile(seconds: float = 60.0, thresholds: Thresholds | None = None, **settings: str) -> Profile:
        return Profile.for_embedded(
            tmp_path / "warehouse", settings=settings, keep_alive_seconds=seconds, thresholds=thresholds
        )

    yield profile
    leave_warm_server()
    server.stop_server(profile())


@pytest.fixture
def used(warm: MakeProfile) -> Iterator[Callable[[Server], subprocess.Popen[str]]]:
    """Starts other commands that use a server."""
    commands: list[subprocess.Popen[str]] = []

    def use(running: Server) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", USE, str(get_directory(warm())), running.fingerprint]
        commands.append(subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert commands[-1].stdout is not None
        assert commands[-1].stdout.readline() == "uses\n"
        return commands[-1]

    yield use
    for command in commands:
        command.kill()
        command.communicate()


def find_users(profile: Profile) -> tuple[str, ...]:
    directory = get_directory(profile)
    with open_door(directory, LIMITS):
        return find_uses(directory, server.hash_profile(profile)).users


def test_the_next_command_finds_the_server_of_the_first(warm: MakeProfile) -> None:
    first = join_warm_server(warm())
    leave_warm_server()
    assert join_warm_server(warm()) == first
    assert first.keep_alive_seconds == 60.0


def test_only_the_first_command_reports_a_start(warm: MakeProfile) -> None:
    lines: list[str] = []
    PROCESS.report = lines.append
    started = join_warm_server(warm(seconds=900.0))
    join_warm_server(warm(seconds=900.0))
    assert lines == [
        f"Spark is kept for the next commands, in process {started.pid}, until none has used it for 15 minutes; "
        "`arctic spark stop` ends it"
    ]


def test_a_server_that_was_begun_early_is_the_one_that_is_joined(warm: MakeProfile) -> None:
    begin_warm_server(warm())
    begun = PROCESS.server_process
    assert begun is not None
    assert join_warm_server(warm()).pid == begun.pid


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_nothing_begins_early_if_nothing_is_kept_or_a_server_runs(warm: MakeProfile, seconds: float) -> None:
    if seconds:
        join_warm_server(warm())
    begin_warm_server(warm(seconds))
    assert PROCESS.server_process is None


def test_a_begin_that_fails_is_left_to_the_join(warm: MakeProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(server, "make_directory", fail)
    begin_warm_server(warm())
    with pytest.raises(PermissionError):
        join_warm_server(warm())


def test_an_unused_server_with_other_settings_is_replaced(warm: MakeProfile) -> None:
    first = join_warm_server(warm())
    second = join_warm_server(warm(**OTHER))
    assert second.pid != first.pid
    assert comes_true(lambda: not is_there(first.pid))


def test_sql_settings_differ_as_well(warm: MakeProfile) -> None:
    first = join_warm_server(warm())
    assert join_warm_server(warm(**{"spark.sql.ansi.enabled": "false"})).pid != first.pid


@pytest.mark.parametrize("variable", ["AWS_PROFILE", "TZ", "SPARK_LOCAL_DIRS"])
def test_a_server_with_other_environment_variables_is_another_one(
    warm: MakeProfile, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server.hash_profile(warm())
    monkeypatch.setenv(variable, "other")
    assert server.hash_profile(warm()) != before


def test_a_server_in_another_folder_is_another_one_since_paths_in_queries_are_relative(
    warm: MakeProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = server.hash_profile(warm())
    monkeypatch.chdir(tmp_path)
    assert server.hash_profile(warm()) != before


def test_variables_of_connect_clients_make_no_difference(warm: MakeProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    before = server.hash_profile(warm())
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    assert server.hash_profile(warm()) == before


def test_a_server_with_other_settings_that_a_command_uses_is_left_alone(
    warm: MakeProfile, used: Callable[[Server], subprocess.Popen[str]]
) -> None:
    running = join_warm_server(warm())
    command = used(running)
    leave_warm_server()
    with pytest.raises(ConfigError, match=rf"other settings, and process {command.pid} uses it"):
        join_warm_server(warm(**OTHER))
    assert server.find_server(warm()) == running
    assert PROCESS.server_use is None


def test_a_command_that_was_killed_uses_nothing_any_more(
    warm: MakeProfile, used: Callable[[Server], subprocess.Popen[str]]
) -> None:
    running = join_warm_server(warm())
    command = used(running)
    leave_warm_server()
    assert find_users(warm()) == (str(command.pid),)
    command.kill()
    command.wait()
    assert find_users(warm()) == ()
    assert join_warm_server(warm(**OTHER)).pid != running.pid


def test_commands_with_the_same_settings_use_one_server_at_once(
    warm: MakeProfile, used: Callable[[Server], subprocess.Popen[str]]
) -> None:
    running = join_warm_server(warm())
    command = used(running)
    assert set(find_users(warm())) == {str(command.pid), str(os.getpid())}


def test_a_server_that_was_killed_is_replaced(warm: MakeProfile) -> None:
    first = join_warm_server(warm())
    os.kill(first.pid, 9)
    assert comes_true(lambda: not is_there(first.pid))
    assert join_warm_server(warm()).pid != first.pid


def test_a_server_that_does_not_start_is_used_by_nobody(warm: MakeProfile) -> None:
    with pytest.raises(ConfigError, match="did not start"):
        join_warm_server(warm(**{"spark.fails": "yes"}))
    assert PROCESS.server_use is None


def test_a_door_that_stays_shut_is_an_error_and_no_wait(warm: MakeProfile) -> None:
    limits = changed(Thresholds(), engine={"server_door_seconds": 0.05})
    directory = get_directory(warm())
    directory.mkdir(parents=True)
    arguments = [sys.executable, "-c", HOLD, str(directory)]
    command = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert command.stdout is not None
    assert command.stdout.readline() == "holds\n"
    with pytest.raises(ConfigError, match="can't be joined"):
        join_warm_server(warm(thresholds=limits))
    command.communicate()


def test_a_server_without_use_withdraws_its_address_and_ends(warm: MakeProfile) -> None:
    running, now = join_warm_server(warm()), [0.0]
    directory, timer = get_directory(warm()), IdleTimer(60.0, lambda: now[0], 0)
    now[0] = 1000.0
    assert not end_if_idle(directory, running, timer, LIMITS, lambda _: None)
    leave_warm_server()
    now[0] = 2000.0
    assert not end_if_idle(directory, running, timer, LIMITS, lambda _: None), "it was used since the last look"
    now[0] = 2059.0
    assert not end_if_idle(directory, running, timer, LIMITS, lambda _: None)
    now[0] = 2060.0
    assert end_if_idle(directory, running, timer, LIMITS, lambda _: None)
    assert comes_true(lambda: not is_there(running.pid))


def test_the_sessions_of_a_command_that_was_killed_are_closed_once(
    warm: MakeProfile, used: Callable[[Server], subprocess.Popen[str]]
) -> None:
    running, closed = join_warm_server(warm()), []
    directory, timer = get_directory(warm()), IdleTimer(60.0, lambda: 0.0, 0)
    command = used(running)
    end_if_idle(directory, running, timer, LIMITS, closed.extend)
    assert closed == []
    command.kill()
    command.wait()
    end_if_idle(directory, running, timer, LIMITS, closed.extend)
    end_if_idle(directory, running, timer, LIMITS, closed.extend)
    assert [name.partition("-")[0] for name in closed] == [str(command.pid)]


def test_a_command_that_joins_at_the_last_moment_keeps_the_server(warm: MakeProfile) -> None:
    running, now = join_warm_server(warm()), [0.0]
    directory, timer = get_directory(warm()), IdleTimer(60.0, lambda: now[0], 0)
    leave_warm_server()
    end_if_idle(directory, running, timer, LIMITS, lambda _: None)
    now[0] = 1000.0
    assert join_warm_server(warm()) == running
    assert not end_if_idle(directory, running, timer, LIMITS, lambda _: None)
    assert server.find_server(warm()) == running


def test_a_waiting_command_with_other_settings_does_not_keep_a_server(warm: MakeProfile) -> None:
    running = join_warm_server(warm())
    leave_warm_server()
    directory = get_directory(warm())
    with open_door(directory, LIMITS):
        other = announce_use(directory, "other")
        assert find_uses(directory, running.fingerprint).users == ()
        other.end_use()


def test_a_server_that_stays_until_it_is_stopped_is_another_one(warm: MakeProfile, tmp_path: Path) -> None:
    kept = Profile.for_embedded(tmp_path / "warehouse", method="connect", url="local")
    assert get_directory(kept) != get_directory(warm())
    assert get_directory(warm(seconds=0.0)) == get_directory(warm()), "status and stop need no keep_alive"
