"""The demo's own decisions: what it may remove, what it prints, how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sample_project import demo
from sample_project.dbt_runs import Build, StepError, make_fresh, table_of


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(demo, "WAREHOUSE", tmp_path / "warehouse")
    return tmp_path / "warehouse"


def test_a_warehouse_that_the_demo_made_is_recreated(warehouse: Path) -> None:
    make_fresh(warehouse, demo.MARK)
    (warehouse / "old").touch()
    make_fresh(warehouse, demo.MARK)
    assert [file.name for file in warehouse.iterdir()] == [demo.MARK]


def test_a_warehouse_of_somebody_else_stays(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warehouse.mkdir()
    (warehouse / "precious").touch()
    assert demo.main([]) == 2
    assert (warehouse / "precious").exists()
    assert "holds data that this program did not make" in capsys.readouterr().err


def test_a_failure_ends_the_demo_with_its_message(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "Dbt", _raising(StepError("dbt run failed.\n  dwd_flights: no such column")))
    assert demo.main([]) == 1
    assert "The demo ends here: dbt run failed.\n  dwd_flights: no such column" in capsys.readouterr().err


def _raising(error: Exception) -> Callable[[], Any]:
    def call(*_: object) -> Any:
        raise error

    return call


def test_each_run_is_a_block_of_the_table() -> None:
    builds = [
        Build("30 days", "ods_flights", "create", "", 26_000, 0, 0, 3.21),
        Build("30 days", "dwd_flights", "create", "", 26_000, 0, 0, 12.5),
        Build("2013-01-31", "ods_flights", "incremental", "", 928, 12, 85, 0.9),
        Build("2013-01-31", "dwd_flights", "full", "COST", 928, 12, 85, 1.9),
    ]
    assert table_of(builds).splitlines() == [
        "run         model        what it did  inserted  updated  deleted  seconds",
        "----------  -----------  -----------  --------  -------  -------  -------",
        "30 days     ods_flights  created       +26,000       ~0       -0     3.21",
        "            dwd_flights  created       +26,000       ~0       -0    12.50",
        "",
        "2013-01-31  ods_flights  incremental      +928      ~12      -85     0.90",
        "            dwd_flights  full (COST)      +928      ~12      -85     1.90",
    ]


def test_more_days_than_the_year_has_are_wrong_use(warehouse: Path) -> None:
    with pytest.raises(SystemExit) as exit_:
        demo.main(["--days", "360", "--more", "60"])
    assert exit_.value.code == 2
    assert not warehouse.exists()
