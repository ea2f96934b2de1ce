"""The Spark server that is kept between runs, with a process in its place that has no Java."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
from arctic_runtime.thresholds import EngineThresholds

SERVE = """
import json, os, sys, time
from pathlib import Path
from arctic_runtime.profile import Profile, mask_secrets, select_fixed_settings
from arctic_runtime.spark.engine import server

directory, profile = Path(sys.argv[1]), Profile(**json.load(sys.stdin))
if "spark.fails" in profile.settings:
    sys.exit("java.lang.NoSpark")
lock = server.acquire_server_lock(directory, profile.thresholds.engine)
if lock:
    time.sleep(0.2)
    settings = mask_secrets(select_fixed_settings(profile.build_spark_settings()))
    limit = profile.keep_alive_seconds
    ready = server.Server(os.getpid(), 1, "hush", "now", "log", settings, server.hash_profile(profile), limit)
    server.publish_server(directory, ready)
    while server.is_wanted(directory, ready):
        time.sleep(0.02)
    time.sleep(float(profile.settings.get("spark.sql.lingers", 0)))
"""
START = """
import json, sys
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine import server
server.SERVER_COMMAND = (sys.executable, "-c", sys.argv[2])
print(server.ensure_server(Profile.for_embedded(sys.argv[1], method="connect", url="local")).pid)
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Profile]]:
    """Makes profiles of one catalog whose server is kept, and ends that afterwards."""
    monkeypatch.setenv("DBT_ARCTIC_STATE", str(tmp_path / "home"))
    monkeypatch.setattr(server, "SERVER_COMMAND", (sys.executable, "-c", SERVE))

    def profile(**settings: str) -> Profile:
        return Profile.for_embedded(tmp_path / "warehouse", method="connect", url="local", settings=settings)

    yield profile
    server.stop_server(profile())


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked for its exit code does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not (is_true := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_true


def test_a_second_start_finds_the_first_ones_server(kept: Callable[..., Profile]) -> None:
    assert server.find_server(kept()) is None
    first = server.ensure_server(kept())
    assert server.ensure_server(kept()) == first
    assert server.find_server(kept()) == first
    assert is_there(first.pid)


def test_of_starts_at_the_same_time_one_makes_the_server_and_all_get_it(
    kept: Callable[..., Profile], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", START, str(tmp_path / "warehouse"), SERVE]
    starts = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    pids = {start.communicate(timeout=60)[0].strip() for start in starts}
    address = server.find_server(kept())
    assert address is not None
    assert pids == {str(address.pid)}


def test_who_finds_a_server_ready_does_not_take_its_place_when_it_is_stopped(
    kept: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.ensure_server(kept())
    sleep = time.sleep

    def stop_meanwhile(_: float) -> None:
        monkeypatch.setattr(time, "sleep", sleep)
        server.stop_server(kept())

    monkeypatch.setattr(time, "sleep", stop_meanwhile)
    assert server.acquire_server_lock(server.get_directory(kept()), EngineThresholds()) is None


def test_a_stop_ends_the_server(kept: Callable[..., Profile]) -> None:
    started = server.ensure_server(kept())
    assert server.stop_server(kept()) == started
    assert comes_true(lambda: not is_there(started.pid))
    assert server.find_server(kept()) is None
    assert server.stop_server(kept()) is None


def test_a_server_that_was_killed_is_not_found_and_the_next_start_makes_another(kept: Callable[..., Profile]) -> None:
    killed = server.ensure_server(kept())
    os.kill(killed.pid, signal.SIGKILL)
    assert comes_true(lambda: not is_there(killed.pid))
    assert (server.get_directory(kept()) / "server.json").exists()
    assert server.find_server(kept()) is None
    assert server.ensure_server(kept()).pid != killed.pid


@pytest.mark.slow
def test_a_server_ends_when_its_folder_is_deleted(kept: Callable[..., Profile]) -> None:
    started = server.ensure_server(kept())
    for file in server.get_directory(kept()).iterdir():
        file.unlink()
    assert comes_true(lambda: not is_there(started.pid))
    assert server.ensure_server(kept()).pid != started.pid


@pytest.mark.slow
def test_a_start_waits_for_a_server_that_is_about_to_end(kept: Callable[..., Profile]) -> None:
    ending = server.ensure_server(kept(**{"spark.sql.lingers": "4"}))
    (server.get_directory(kept()) / "server.json").unlink()
    assert server.ensure_server(kept()).pid != ending.pid


def test_an_address_that_is_stale_ends_no_process_of_that_number(kept: Callable[..., Profile]) -> None:
    directory = server.get_directory(kept())
    directory.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as other:
        server.publish_server(directory, server.Server(other.pid, 1, "t", "then", "log", {}, ""))
        assert server.find_server(kept()) is None
        assert server.stop_server(kept()) is None
        assert other.poll() is None
        other.kill()


def test_a_server_with_other_settings_is_named_and_left_alone(kept: Callable[..., Profile]) -> None:
    started = server.ensure_server(kept())
    with pytest.raises(ConfigError, match=r"(?s)spark\.driver\.memory=3g.*spark\.driver\.memory=4g.*arctic spark stop"):
        server.ensure_server(kept(**{"spark.driver.memory": "3g"}))
    assert server.find_server(kept()) == started


@pytest.mark.slow
def test_settings_of_a_session_need_no_other_server(kept: Callable[..., Profile]) -> None:
    assert server.ensure_server(kept()) == server.ensure_server(kept(**{"spark.sql.shuffle.partitions": "3"}))


@pytest.mark.slow
def test_another_secret_needs_another_server_and_is_not_shown(kept: Callable[..., Profile]) -> None:
    server.ensure_server(kept(**{"spark.ssl.keyPassword": "hush1"}))
    with pytest.raises(ConfigError, match="other settings") as refused:
        server.ensure_server(kept(**{"spark.ssl.keyPassword": "hush2"}))
    assert "hush" not in str(refused.value)


def test_a_server_that_does_not_start_is_reported_with_its_last_words(kept: Callable[..., Profile]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)did not start.*java\.lang\.NoSpark.*what to do"):
        server.ensure_server(kept(**{"spark.fails": "yes"}))


def test_only_its_user_can_read_the_servers_token(kept: Callable[..., Profile]) -> None:
    started = server.ensure_server(kept())
    directory = server.get_directory(kept())
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "server.json").stat().st_mode) == 0o600
    assert json.loads((directory / "server.json").read_text())["token"] == "hush"
    assert "hush" not in f"{started} {started.to_public_dict()}"


def test_a_folder_of_somebody_else_is_refused(kept: Callable[..., Profile], monkeypatch: pytest.MonkeyPatch) -> None:
    mine = server.get_directory(kept())
    mine.mkdir(parents=True)
    monkeypatch.setattr(server, "get_directory", lambda _profile: mine)
    monkeypatch.setattr(os, "getuid", lambda: mine.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        server.ensure_server(kept())


def test_catalogs_have_servers_of_their_own(tmp_path: Path) -> None:
    places = {
        server.get_directory(Profile.for_embedded(tmp_path / folder, catalog=catalog))
        for folder in ("a", "b")
        for catalog in ("lake", "pond")
    }
    assert len(places) == 4
