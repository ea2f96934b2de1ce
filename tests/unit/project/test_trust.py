"""The table of `make trust` has what each part reported, and shows a part that failed or crashed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trust.__main__ import format_table, main
from tests.trust.parts import (
    SIZES,
    Figures,
    Outcome,
    Part,
    list_parts,
    read_fuzzing,
    read_simulation,
    read_soak,
    read_tests,
    run_part,
)


def test_reports_are_read(tmp_path: Path) -> None:
    seeds = {"seeds": 2, "simulated_days": 0.4, "faults": {"crash": 3, "pause": 4}, "losses": 1}
    text = f"seed 1\n{json.dumps({**seeds, 'false_claims_of_freshness': 1})}\n"
    assert read_simulation(tmp_path, text).counts["faults injected"] == 7
    assert read_simulation(tmp_path, text).faults == 2
    file = tmp_path / "report"
    file.write_text(json.dumps([{"processor_seconds": 90, "executions": 5, "faults": {"a": "b"}}]))
    assert read_fuzzing(file, "") == Figures({"targets": 1, "inputs": 5, "processor minutes": 1.5}, 1)
    counted = {"faults": {"kill": 2}, "reads": {"t": 3}, "commands": {"dbt run: done": 4}, "wrong": ["x"]}
    file.write_text(json.dumps({"minutes": 3, "changed_rows": 9, **counted}))
    assert read_soak(file, "").faults == 1
    file.write_text('<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1"/></testsuites>')
    assert read_tests(file, "") == Figures({"tests": 4}, 2)


def test_a_part_without_a_report_is_no_good(tmp_path: Path) -> None:
    outcome = run_part(Part("none", ("platform",), read_soak, {}), tmp_path)
    assert outcome.figures is None
    assert not outcome.is_good
    assert "| none |  | – |" in format_table([outcome], "abc")


def test_the_table_has_all_parts() -> None:
    good = Outcome("soak", Figures({"changed rows": 1_200_000}, 0), 0, 90)
    bad = Outcome("fuzzing", Figures({"inputs": 3}, 0), 2, 1)
    text = format_table([good, bad], "abc")
    assert "| soak | 1,200,000 changed rows | 0 | 1.5 |" in text
    assert "| fuzzing | 3 inputs (ended with 2) | 0 | 0.0 |" in text
    assert not bad.is_good


@pytest.mark.parametrize("size", SIZES)
def test_what_the_parts_run_exists(size: str) -> None:
    root = Path(__file__).parents[3]
    for part in list_parts(SIZES[size]):
        module, *words = part.words
        assert module == "pytest" or (root / module.replace(".", "/") / "__main__.py").is_file()
        assert all((root / word).exists() for word in words if word.startswith("tests/"))


def test_a_strange_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sok"])
    assert "no such part: sok" in capsys.readouterr().err
