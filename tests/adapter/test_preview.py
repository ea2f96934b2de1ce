"""`arctic preview` on the sample project: an edit is priced without Spark, here and in another environment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dbt.adapters.factory import reset_adapters
from dbt.cli.main import dbtRunner

from dbt.adapters.arctic import cli
from sample_project.loader import FIRST_DAY, load_days
from tests.workflows import copy_sample

NAME = "a.name as carrier_name"
EDITED, BELOW = "dwd_flights", "dws_delay_by_carrier_day"


@pytest.fixture
def project(
    tmp_path: Path,
    warehouse: Path,
    spark_settings: dict[str, str],
    method: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Path]:
    """A copy of the sample, built once, as the current folder; `branch` is a target with schemas of its own."""
    folder = copy_sample(tmp_path, method, spark_settings)
    monkeypatch.chdir(folder)
    load_days(tmp_path / "warehouse", [FIRST_DAY])
    for command in ("seed", "run"):
        outcome = dbtRunner().invoke(["--quiet", command])
        assert outcome.success, outcome.exception or [r.message for r in outcome.result if r.status == "error"]
    shutil.copytree("target", "state/prod")
    yield folder
    reset_adapters()


def show(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert cli.main(["preview", *arguments]) == code
    return capsys.readouterr().out


@pytest.mark.slow
def test_an_edit_is_priced_with_all_below_it_and_run_as_it_was_said(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show(capsys).startswith("not touched: ")
    model = project / "models" / "dwd" / f"{EDITED}.sql"
    text = model.read_text(encoding="utf-8")
    assert NAME in text
    model.write_text(text.replace(NAME, "if(f.carrier = 'UA', 'United', a.name) as carrier_name"), encoding="utf-8")
    preview = json.loads(show(capsys, "--json"))
    models = {one["table"].rpartition(".")[2]: one for one in preview["models"]}
    assert (models[EDITED]["way"], models[EDITED]["is_edited"]) in (("full", True), ("own result", True))
    assert {EDITED, BELOW} <= set(models)
    assert not models[BELOW]["is_edited"]
    for one in models.values():
        for part in ("bytes_read", "bytes_written", "rows_read", "rows_written", "seconds"):
            assert 0 <= one[part]["low"] <= one[part]["expected"] <= one[part]["high"]
    assert models[EDITED]["bytes_read"]["expected"] > 0
    assert f"lake.dwd_dwd.{EDITED}: edited, " in show(capsys) or f".{EDITED}: edited, " in show(capsys)
    markdown = show(capsys, "--markdown").splitlines()
    assert markdown[0].startswith("| model |")
    assert any(line.startswith("| **dwd\\_flights** |") for line in markdown)
    assert "more than allowed: models>0" in show(capsys, "--fail-on", "models>0", code=1)
    there = json.loads(show(capsys, "--target", "branch", "--state", "state/prod", "--json"))
    assert [one["table"] for one in there["models"]] == [one["table"] for one in preview["models"]]
    assert [one["bytes_read"] for one in there["models"]] == [one["bytes_read"] for one in preview["models"]]
    outcome = dbtRunner().invoke(["--quiet", "run"])
    assert outcome.success
    results = json.loads(Path("target/run_results.json").read_text(encoding="utf-8"))["results"]
    said = {result["unique_id"].rpartition(".")[2]: result["adapter_response"] for result in results}
    written = sum(said[EDITED][action] for action in ("inserted", "updated", "deleted"))
    assert models[EDITED]["rows_written"]["low"] <= written <= models[EDITED]["rows_written"]["high"]
    assert show(capsys).startswith("not touched: ")
