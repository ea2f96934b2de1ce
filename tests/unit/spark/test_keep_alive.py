"""Whether Spark is kept after a command, and when a kept Spark ends."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.engine.warm_server import (
    IdleTimer,
    Surroundings,
    choose_keep_alive,
    measure_free_memory,
    observe_surroundings,
    read_keep_alive,
)
from arctic_runtime.thresholds import EngineThresholds
from arctic_runtime.thresholds.engine import GIB

LAPTOP = Surroundings(is_terminal=True, is_ci=False, is_container=False, free_bytes=8 * GIB)


class Clock:
    """A clock that goes on when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("written", "seconds"), [("15m", 900), ("30s", 30), ("2h", 7200), (" 1h ", 3600), (0, 0), ("0", 0), ("0s", 0)]
)
def test_a_time_is_read_as_seconds(written: str | int, seconds: float) -> None:
    assert read_keep_alive(written) == seconds


@pytest.mark.parametrize("written", ["15", 15, True, False, "15 minutes", "-5m", "", 1.5, None, ["15m"]])
def test_anything_else_is_refused_with_an_example(written: Any) -> None:
    with pytest.raises(ConfigError, match=r"`keep_alive` must be a time .* such as 30s, 5m.*0 keeps nothing"):
        read_keep_alive(written)


@pytest.mark.parametrize(
    ("here", "has_server", "seconds"),
    [
        (LAPTOP, False, 900),
        (replace(LAPTOP, is_terminal=False), True, 0),
        (replace(LAPTOP, is_ci=True), True, 0),
        (replace(LAPTOP, is_container=True), True, 0),
        (replace(LAPTOP, free_bytes=None), False, 900),
        (replace(LAPTOP, free_bytes=4 * GIB), False, 900),
        (replace(LAPTOP, free_bytes=4 * GIB - 1), False, 0),
        (replace(LAPTOP, free_bytes=4 * GIB - 1), True, 900),
    ],
)
def test_spark_is_kept_only_for_somebody_at_a_terminal_with_memory_to_spare(
    here: Surroundings, has_server: bool, seconds: float
) -> None:
    assert choose_keep_alive(here, lambda: has_server, EngineThresholds()) == seconds


def test_no_server_is_looked_for_if_there_is_memory() -> None:
    def fail() -> bool:
        raise AssertionError("looked for a server")

    assert choose_keep_alive(LAPTOP, fail, EngineThresholds()) == 900


@pytest.mark.parametrize(
    ("environment", "files", "is_ci", "is_container"),
    [
        ({}, (), False, False),
        ({"CI": "true"}, (), True, False),
        ({"CI": "1"}, (), True, False),
        ({"CI": "false"}, (), False, False),
        ({"CI": ""}, (), False, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, (), False, True),
        ({"container": "podman"}, (), False, True),
        ({}, (".dockerenv",), False, True),
        ({}, ("run/.containerenv",), False, True),
    ],
)
def test_ci_and_containers_are_seen_by_their_marks(
    environment: dict[str, str], files: tuple[str, ...], is_ci: bool, is_container: bool, tmp_path: Path
) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    here = observe_surroundings(environment, tmp_path)
    assert (here.is_ci, here.is_container) == (is_ci, is_container)


class Stream:
    """A standard stream, of a terminal or not."""

    def __init__(self, is_terminal: bool) -> None:
        self.isatty = lambda: is_terminal


@pytest.mark.parametrize(
    ("stdin", "stdout", "is_terminal"),
    [
        (Stream(True), Stream(True), True),
        (Stream(True), Stream(False), True),
        (Stream(False), Stream(True), True),
        (Stream(False), Stream(False), False),
        (None, None, False),
    ],
)
def test_a_terminal_at_either_end_counts(
    stdin: Stream | None, stdout: Stream | None, is_terminal: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    monkeypatch.setattr(sys, "stdout", stdout)
    here = observe_surroundings({}, tmp_path)
    assert here.is_terminal is is_terminal


@pytest.mark.parametrize(
    ("meminfo", "free"),
    [
        ("MemTotal:       16 kB\nMemAvailable:       8 kB\n", 8192),
        ("MemTotal:       16 kB\n", None),
        ("MemAvailable:\n", None),
        (None, None),
    ],
)
def test_free_memory_is_what_the_system_says(meminfo: str | None, free: int | None, tmp_path: Path) -> None:
    if meminfo is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(meminfo)
    assert measure_free_memory(tmp_path) == free


def test_spark_ends_when_it_was_not_used_for_as_long_as_was_said() -> None:
    clock = Clock()
    timer = IdleTimer(60.0, clock, GIB)
    clock.now = 59.9
    assert not timer.is_over(was_used=False, free_bytes=8 * GIB)
    clock.now = 60.0
    assert timer.is_over(was_used=False, free_bytes=8 * GIB)


def test_a_use_begins_the_time_anew() -> None:
    clock = Clock()
    timer = IdleTimer(60.0, clock, GIB)
    clock.now = 100.0
    assert not timer.is_over(was_used=True, free_bytes=None)
    clock.now = 159.9
    assert not timer.is_over(was_used=False, free_bytes=None)
    clock.now = 160.0
    assert timer.is_over(was_used=False, free_bytes=None)


def test_if_memory_is_short_a_spark_ends_that_nobody_uses() -> None:
    timer = IdleTimer(60.0, Clock(), GIB)
    assert not timer.is_over(was_used=True, free_bytes=GIB - 1)
    assert timer.is_over(was_used=False, free_bytes=GIB - 1)


@pytest.mark.parametrize(("own", "kept"), [("", 50_000), ("gc.set_threshold(90_000)", 90_000), ("gc.disable()", 700)])
def test_dbt_searches_seldom_for_garbage_unless_the_program_has_limits_of_its_own(own: str, kept: int) -> None:
    program = (
        f"import gc; gc.set_threshold(700, 10, 10); {own}\nimport dbt.adapters.arctic\nprint(gc.get_threshold()[0])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == kept
