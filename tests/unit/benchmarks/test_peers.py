"""What is made of the figures of other engines, and of engines that can't be had. No Spark is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.spark.engine.java import jars
from benchmarks.peers import comparison
from benchmarks.peers.comparison import Absent, Found, check_same, follow, ratios
from benchmarks.peers.ours import WAYS
from benchmarks.peers.work import ACTIONS

ROWS = [3, 6, 5, 4, -17]


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "find_java", lambda: jars.Java(Path("java-home/bin/java"), "17"))


def process(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def make_side(seconds: float, rows: list[int] = ROWS) -> Found:
    return Found({"Spark": "4"}, {action: [seconds, seconds] for action in ACTIONS}, rows)


def test_what_a_process_tells_by_json_is_found_and_all_else_it_prints_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = """print('{"ready": {"Spark": "4"}}\\nnoise\\n{"said": "halfway"}')
print('{"found": {"seconds": {"write": [1.5]}, "rows": [3]}}')"""
    assert follow("a peer", process(script)) == Found({"Spark": "4"}, {"write": [1.5]}, [3])
    assert capsys.readouterr().out == "  a peer: Spark 4\n  halfway\n"


def test_a_process_that_ends_before_it_is_ready_has_an_engine_that_is_absent() -> None:
    with pytest.raises(Absent, match="no such JAR"):
        follow("a peer", process("raise SystemExit('no such JAR')"))


def test_a_process_that_fails_at_work_is_an_error_and_not_an_absent_engine() -> None:
    with pytest.raises(RuntimeError, match="out of memory"):
        follow("a peer", process("""print('{"ready": {"Spark": "4"}}'); raise SystemExit('out of memory')"""))


def test_tables_that_differ_are_an_error_that_shows_each() -> None:
    check_same({"on_read": make_side(1), "a peer": make_side(2)})
    with pytest.raises(AssertionError, match="a peer: \\[2, 6, 5, 4, -17\\]"):
        check_same({"on_read": make_side(1), "a peer": make_side(2, [2, *ROWS[1:]])})


def test_a_ratio_above_one_says_that_we_are_ahead() -> None:
    figures = ratios("a peer", make_side(3.0), dict.fromkeys(WAYS, make_side(2.0)))
    assert {figure.value for figure in figures} == {1.5}
    assert all(figure.holds and figure.target == 1.0 for figure in figures)
    assert len({figure.metric for figure in figures}) == len(figures) == 6


def test_the_others_are_measured_where_one_is_absent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Any) -> list[str]:
        raise Absent("no environment")

    monkeypatch.setattr(comparison, "follow", lambda *_: make_side(1))
    monkeypatch.setattr(comparison, "PEERS", {"gone": fail, "there": lambda _: []})
    figures = comparison.measure(100)
    assert {figure.metric.split(": ")[1].split(" / ")[0] for figure in figures} == {"there"}
    assert "gone is not measured: no environment" in capsys.readouterr().out


def test_an_environment_that_can_not_be_made_is_said_and_recreated_the_next_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: Any) -> None:
        raise subprocess.CalledProcessError(1, "pip", output="no network")

    monkeypatch.setenv("DBT_ARCTIC_HOME", str(tmp_path))
    monkeypatch.setattr(comparison.venv, "create", lambda folder, **_: Path(folder).mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(comparison, "install_requirement", fail)
    with pytest.raises(Absent, match="no network"):
        comparison.find_older_python()
    monkeypatch.setattr(comparison, "install_requirement", lambda *_: None)
    first = comparison.find_older_python()
    monkeypatch.setattr(comparison, "install_requirement", fail)
    assert comparison.find_older_python() == first
