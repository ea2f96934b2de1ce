"""Whatever is read: each part answers or refuses with a typed error. `python -m tests.fuzz` does so for minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.fuzz.__main__ import main
from tests.fuzz.inputs import CORPUS, read_corpus
from tests.fuzz.run import run_by_chance, run_examples
from tests.fuzz.target import Target
from tests.fuzz.targets.decoders import check_column_type, check_event_schema, check_position, check_schema_history
from tests.fuzz.targets.http import check_request
from tests.fuzz.targets.queries import QUERIES_KEPT
from tests.fuzz.targets.registry import TARGETS

EXAMPLES = 100
SLOW = {QUERIES_KEPT.name: 20}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_makes_a_part_fail(target: Target) -> None:
    report = run_examples(target, SLOW.get(target.name, EXAMPLES), number=1)
    assert [ascii(f"{place}: {text}") for place, text in report.faults.items()] == []
    assert report.executions > 10
    assert len(report.outcomes) > 1 or target.name == "schema histories", "all inputs ended alike"


CORPORA = (
    ("events", check_event_schema),
    ("requests", check_request),
    ("column_types", check_column_type),
    ("positions", lambda entry: check_position([entry])),
    ("schema_histories", lambda entry: check_schema_history([entry])),
)


@pytest.mark.parametrize(("name", "check"), CORPORA, ids=lambda part: part if isinstance(part, str) else "")
def test_each_input_of_the_corpus_is_answered_or_refused(name: str, check: Any) -> None:
    assert len(read_corpus(name)) >= 3
    for entry in read_corpus(name):
        assert check(entry)


def test_every_file_of_the_corpus_is_read() -> None:
    used = "".join(file.read_text() for file in (CORPUS.parent / "targets").glob("*.py"))
    assert [file.name for file in CORPUS.iterdir() if f'read_corpus("{file.stem}")' not in used] == []


def _fail_on_seven(value: int) -> str:
    if value == 7:
        raise KeyError(value)
    return "accepted"


BROKEN = Target("broken", st.integers(0, 9), _fail_on_seven)


def test_a_fault_is_reported_once_with_its_place_and_its_input() -> None:
    report = run_examples(BROKEN, 50)
    ((place, text),) = report.faults.items()
    assert place.startswith("KeyError at test_fuzz.py:")
    assert text.endswith("input: 7")
    assert sum(report.outcomes.values()) == report.executions


def test_a_run_by_chance_goes_on_until_its_time_is_over() -> None:
    assert run_by_chance(BROKEN, 0.0).executions == 0
    assert run_by_chance(BROKEN, 0.01).executions >= 10


def test_the_command_writes_a_report_of_each_target(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fuzz.json"
    assert main(["column types", "--minutes", "0.002", "--json", str(file), "--unguided"]) == 0
    (report,) = json.loads(file.read_text())
    assert (report["target"], report["faults"], report["is_guided"]) == ("column types", {}, False)
    assert report["executions"] >= 100
    assert "column types: " in capfd.readouterr().out
