"""A short soak, so that the long one can be relied upon: see `python -m tests.soak`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.soak.__main__ import compute_growth, main


def test_growth_is_that_of_the_last_process_after_it_was_warm() -> None:
    before = [{"seconds": 15.0 * number, "start": 1, "java_bytes": 9_000} for number in range(50)]
    last = [{"seconds": 750.0 + 15 * number, "start": 2, "java_bytes": 100 + number} for number in range(60)]
    assert compute_growth([*before, *last]) == {"java_bytes": round(157.5 / 141.5, 3)}
    assert compute_growth(last[:40]) == {}


@pytest.mark.slow
def test_everything_at_once_shows_whole_transactions_and_ends_equal(tmp_path: Path) -> None:
    report = tmp_path / "soak.json"
    size = ("--minutes", "2", "--rows", "200", "--fault-seconds", "10", "--programs", "1")
    code = main([*size, "--json", str(report)])
    found = json.loads(report.read_text())
    assert found["wrong"] == []
    assert code == 0
    assert sum(found["faults"].values()) >= 3
    assert found["changed_rows"] >= 5_000
