"""A short soak, so that the long one can be relied upon: see `python -m tests.soak`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.soak.__main__ import main


@pytest.mark.slow
def test_everything_at_once_shows_whole_transactions_and_ends_equal(tmp_path: Path) -> None:
    report = tmp_path / "soak.json"
    code = main(["--minutes", "2", "--rows", "200", "--fault-seconds", "25", "--json", str(report)])
    found = json.loads(report.read_text())
    assert found["wrong"] == []
    assert code == 0
    assert sum(found["faults"].values()) >= 3
    assert found["changed_rows"] >= 5_000
