"""The comparison of published changes: its checks, its figures, and its talk with processes. No Spark is started."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.spark.engine.java import jars
from benchmarks.peers import comparison, delta, hudi, iceberg, paimon, published, publishing
from benchmarks.peers.changes import AFTER, BEFORE, DELETE, INSERT, Counts
from benchmarks.peers.comparison import Absent
from benchmarks.peers.published import (
    BOTH,
    OURS,
    READ,
    TABLE,
    WRITE,
    Running,
    Side,
    check_rows,
    check_same_changes,
    compute_ratios,
    measure,
)
from benchmarks.peers.publishing import Publisher, Round, add_arrivals, run_round, serve_rounds

COUNTS: Counts = {INSERT: (3, 30), BEFORE: (5, -7), AFTER: (5, 8), DELETE: (2, 20)}
"""One row more, and 30 + 7 + 8 - 20 = 25 more of hashes."""

_PROCESS = """import json, sys
tell = lambda **report: print(json.dumps(report), flush=True)
tell(ready={{"Spark": "4"}})
print("noise", flush=True)
tell(held={{name: [10, 100] for name in {names}}})
turns = 0
for turns, _ in enumerate(sys.stdin, 1):
    tell(round={{name: {{"seconds": {seconds}, "changes": {counts}}} for name in {names}}})
tell(held={{name: [10 + turns, 100 + 25 * turns] for name in {names}}})
"""


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "find_java", lambda: jars.Java(Path("java-home/bin/java"), "17"))
    monkeypatch.setattr(jars, "resolve_jar_paths", lambda wanted: tuple(Path(f"jars/{jar.artifact}") for jar in wanted))


def make_process(names: Sequence[str], write: float, read: float, counts: Counts = COUNTS) -> list[str]:
    seconds = {WRITE: write, READ: read, TABLE: 1.0}
    return [sys.executable, "-c", _PROCESS.format(names=list(names), seconds=seconds, counts=json.dumps(counts))]


def run_program(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def make_side(write: float = 2.0, read: float = 1.0, **given: Any) -> Side:
    seconds = {WRITE: [write] * 2, READ: [read] * 2, BOTH: [write + read] * 2, TABLE: [1.0] * 2}
    return Side(
        {"Spark": "4"}, **{"seconds": seconds, "changes": [COUNTS] * 3, "held": [[10, 100], [13, 175]], **given}
    )


def set_engines(monkeypatch: pytest.MonkeyPatch, **commands: Any) -> None:
    ours = make_process(["on_write", "on_read"], write=2.0, read=0.5)
    monkeypatch.setattr(published, "ENGINES", {OURS: lambda _: ours, **commands})


def test_sides_with_the_same_changes_and_rows_pass() -> None:
    sides = {"on_write": make_side(), "a peer": make_side(9)}
    check_same_changes(sides)
    check_rows(sides)


def test_a_change_that_one_side_counts_differently_is_an_error_that_shows_each() -> None:
    other = make_side(changes=[COUNTS, {**COUNTS, DELETE: (3, 20)}, COUNTS])
    with pytest.raises(AssertionError, match=r"differ in round 1 .*\n.*on_write.*\n.*a peer: .*'delete': \(3, 20\)"):
        check_same_changes({"on_write": make_side(), "a peer": other})


def test_a_round_without_changes_of_one_kind_is_an_error() -> None:
    without = {kind: counted for kind, counted in COUNTS.items() if kind != INSERT}
    with pytest.raises(AssertionError, match="round 0"):
        check_same_changes({"on_write": make_side(changes=[without]), "a peer": make_side(changes=[without])})


@pytest.mark.parametrize("held", [[[10, 100], [13, 174]], [[10, 100], [12, 175]]], ids=["hash", "number"])
def test_rows_that_the_changes_do_not_explain_are_an_error_even_if_all_sides_have_them(held: list[list[int]]) -> None:
    with pytest.raises(AssertionError, match=r"which lead to \[13, 175\]"):
        check_rows({"on_write": make_side(held=held), "a peer": make_side(held=held)})


def test_rows_that_differ_between_sides_are_an_error() -> None:
    with pytest.raises(AssertionError, match=r"a peer: \[\[11, 100\], \[14, 175\]\]"):
        check_rows({"on_write": make_side(), "a peer": make_side(held=[[11, 100], [14, 175]])})


def test_a_ratio_below_one_says_that_we_are_ahead() -> None:
    figures = compute_ratios({"on_write": make_side(2, 1), "a peer": make_side(4, 4)})
    assert {figure.metric: figure.value for figure in figures} == {
        "write 1%: on_write / a peer": 0.5,
        "read its changes: on_write / a peer": 0.25,
        "write 1% and read its changes: on_write / a peer": 0.375,
        "read the table after it: on_write / a peer": 1.0,
    }
    assert all(figure.holds and figure.target == 1.0 for figure in figures)
    slower = compute_ratios({"on_write": make_side(2, 1), "a peer": make_side(1, 1)})
    assert [figure.holds for figure in slower] == [False, True, False, True]


def test_processes_take_turns_and_the_first_round_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_engines(monkeypatch, peer=lambda _: make_process(["a peer"], write=4.0, read=1.0))
    figures = {figure.metric: figure for figure in measure(100, rounds=2)}
    assert figures["write 1% and read its changes: on_write / a peer"].value == 0.5
    detail = figures["write 1%: on_read / a peer"].detail
    assert detail["a peer"]["seconds"] == [4.0, 4.0]
    assert detail["a peer"]["changes"] == [{kind: tuple(counted) for kind, counted in COUNTS.items()}] * 3
    shown = [line.split(": write")[0].strip() for line in capsys.readouterr().out.splitlines() if "round" in line]
    assert shown == [f"round {turn}: {name}" for turn in (1, 2) for name in ("on_write", "on_read", "a peer")]


def test_an_engine_that_ends_before_it_is_ready_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: int) -> list[str]:
        raise Absent("no environment")

    set_engines(monkeypatch, gone=lambda _: run_program("raise SystemExit('no such JAR')"), bare=fail)
    assert measure(100, rounds=1) == []
    out = capsys.readouterr().out
    assert "gone is not measured" in out
    assert "no such JAR" in out
    assert "bare is not measured: no environment" in out


def test_ours_that_ends_before_it_is_ready_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "ENGINES", {OURS: lambda _: run_program("raise SystemExit('no Java')")})
    with pytest.raises(Absent, match="no Java"):
        measure(100)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("print('{\"ready\": {}}'); raise SystemExit('out of memory')", "was ready"),
        ('print(\'{"ready": {"Spark": "4"}}\'); raise SystemExit(\'out of memory\')', "tables with rows"),
    ],
    ids=["before", "after"],
)
def test_a_process_that_fails_while_it_fills_tables_says_why(tmp_path: Path, program: str, expected: str) -> None:
    running = Running("a peer", run_program(program), tmp_path)
    with pytest.raises((Absent, RuntimeError), match=rf"(?s){expected}.*out of memory"):
        running.fill_tables()
    published.end_process(running.process)


def test_a_process_that_fails_in_a_round_is_an_error_and_not_an_absent_engine(tmp_path: Path) -> None:
    program = """import json, sys
print(json.dumps({"ready": {"Spark": "4"}}))
print(json.dumps({"held": {"a peer": [1, 1]}}), flush=True)
sys.stdin.readline()
raise SystemExit("no space left")"""
    running = Running("a peer", run_program(program), tmp_path)
    running.fill_tables()
    with pytest.raises(RuntimeError, match=r"(?s)figures of round 0.*no space left"):
        running.run_round(0)
    published.end_process(running.process)


def test_a_process_that_ends_without_its_rows_is_an_error(tmp_path: Path) -> None:
    program = """import json, sys
print(json.dumps({"ready": {"Spark": "4"}}))
print(json.dumps({"held": {"a peer": [1, 1]}}), flush=True)
sys.stdin.read()"""
    running = Running("a peer", run_program(program), tmp_path)
    running.fill_tables()
    with pytest.raises(RuntimeError, match="the rows at the end"):
        running.finish()
    published.end_process(running.process)


def test_each_line_asks_for_a_round_of_changes_that_did_not_land_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    heads, landed = iter([7, 8, 8, 9]), []
    monkeypatch.setattr(publishing, "hold", lambda rows: [rows, 0])
    monkeypatch.setattr(publishing, "total", lambda rows: rows)
    monkeypatch.setattr(publishing, "consume_changes", lambda changes: {INSERT: changes})
    publisher: Any = Publisher(lambda: None, lambda: 5, lambda: next(heads), lambda start, end: (start, end))  # type: ignore[arg-type, return-value]
    serve_rounds({"kept": publisher}, lambda part, turn: landed.append((part, turn)), io.StringIO("0\n1\n"))
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [next(iter(report)) for report in told] == ["held", "round", "round", "held"]
    assert [report["round"]["kept"]["changes"] for report in told[1:3]] == [{INSERT: [7, 8]}, {INSERT: [8, 9]}]
    assert landed == [(0.01, 1), (0.01, 2)]


def test_a_round_times_the_write_and_both_readings_and_not_the_look_for_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(publishing, "consume_changes", lambda changes: {INSERT: changes})
    monkeypatch.setattr(publishing, "total", lambda rows: rows)
    monkeypatch.setattr(publishing, "seconds", lambda action: (action(), float(len(calls)))[1])

    def call(name: str) -> Any:
        return lambda *_: calls.append(name) or (1, 2)

    done = run_round(Publisher(call("write"), call("rows"), call("head"), call("read")))
    assert calls == ["head", "write", "head", "read", "rows"]
    assert done == Round({"write": 2.0, "read": 4.0, "table": 5.0}, {INSERT: (1, 2)})


def test_a_tenth_of_the_keys_is_new_to_the_table() -> None:
    assert add_arrivals(200_000) == 220_000


def test_every_engine_of_the_comparison_has_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "find_older_python", lambda: Path("older-python"))
    commands = {name: command(500) for name, command in published.ENGINES.items()}
    assert set(commands) == {OURS, iceberg.NAME, delta.NAME, hudi.NAME, paimon.NAME}
    assert all("500" in command and "--rounds" not in command for command in commands.values())
    assert commands[iceberg.NAME][-1].split(":")[0] == "jars/iceberg-spark-runtime-4.1_2.13"
    assert {commands[name][-1] for name in comparison.PEERS} == {"jars/hadoop-bare-naked-local-fs"}
