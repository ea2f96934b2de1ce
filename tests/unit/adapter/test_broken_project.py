"""Projects that dbt can't use: what is said of them, and what a service does that has a good one already."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbt.adapters.arctic import cli
from dbt.adapters.arctic.project.live_project import LiveProject
from dbt.adapters.arctic.project.loaded_project import Location

PROFILE = """
shop: {target: dev, outputs: {dev: {type: arctic, schema: dws, warehouse: "{{ env_var('SHOP_WAREHOUSE') }}"}}}
"""
MODEL = "{{ config(materialized='arctic', primary_key='id') }} select id from {{ source('raw', 'a') }}"
SOURCES = "sources: [{name: raw, schema: ods, tables: [{name: a}]}]"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    (tmp_path / "dbt_project.yml").write_text("{name: shop, version: '1.0', profile: shop}")
    (tmp_path / "profiles.yml").write_text(PROFILE)
    (tmp_path / "models" / "sources.yml").write_text(SOURCES)
    (tmp_path / "models" / "clean.sql").write_text(MODEL)
    return tmp_path


@pytest.mark.parametrize("command", ["serve", "ingest", "status", "spark start"])
def test_an_environment_variable_that_is_not_set_is_named_with_what_to_do(
    project: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SHOP_WAREHOUSE", raising=False)
    where = ["--project-dir", str(project), "--profiles-dir", str(project)]
    assert cli.main([*command.split(), *where]) == cli.WRONG_USE
    output = capsys.readouterr().err
    assert "not provided: 'SHOP_WAREHOUSE'" in output
    assert "what to do: set the environment variable SHOP_WAREHOUSE" in output


def test_a_profile_with_a_variable_that_is_set_is_read_without_its_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOP_WAREHOUSE", str(project / "warehouse"))
    where = ["--project-dir", str(project), "--profiles-dir", str(project)]
    assert cli.main(["spark", "status", *where]) == cli.DIFFERENT
    assert capsys.readouterr().out == "not running\n"


def test_a_project_that_breaks_while_it_is_served_keeps_its_last_good_models(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_WAREHOUSE", str(project / "warehouse"))
    said: list[str] = []
    served = LiveProject(Location(project, project, is_served=True), said.append)
    before, model = list(served.list_followed()), project / "models" / "clean.sql"
    for broken, reason in (
        (MODEL.replace("source('raw', 'a')", "ref('clean')"), "cycle"),
        (MODEL + " where id <> {{ env_var('SHOP_NOTHING') }}", "set the environment variable SHOP_NOTHING"),
    ):
        model.write_text(broken)
        assert served.load_models() is None
        assert reason in said[-1]
        assert served.list_followed() == before
    model.write_text(MODEL)
    assert served.load_models() == before
