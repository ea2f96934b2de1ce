"""A dbt project in a notebook: its models refreshed as dbt does, its tables asked, by the Spark that is there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import arctic_runtime as arctic

if TYPE_CHECKING:
    from tests.spark.warehouse import Warehouse


@pytest.fixture
def project(folder: Path) -> Iterator[arctic.Project]:
    with arctic.open_project(folder, profiles_dir=folder) as opened:
        yield opened


@pytest.mark.in_turn
def test_models_are_refreshed_in_turn_and_asked(project: arctic.Project, lake: Warehouse) -> None:
    legs, tails = project.table("legs"), project.table(f"{lake.namespace}.tails")
    first = legs.refresh()
    assert (first.mode, first.rows["insert"]) == ("create", 2)
    assert tails.refresh().mode == "create", "a model with a hook is run by dbt"
    lake.load("landing", [(1, "N1"), (2, "N2")], "id bigint, tail string")
    assert legs.refresh().rows["update"] == 1
    assert tails.refresh().rows == {"insert": 1, "update": 1, "delete": 0, "upsert": 0}
    assert sorted(tuple(row) for row in tails.read().collect()) == [("N1", 1), ("N2", 1)]
    assert legs.changes(since=first.version).count() == 1
    assert not tails.verify().differs
    assert [table.name.rpartition(".")[2] for table in project.tables] == ["legs", "tails"]
    assert project.profile == replace(lake.environment.profile)


def test_a_hook_that_fails_is_an_error_of_arctic(folder: Path) -> None:
    model = folder / "models" / "tails.sql"
    model.write_text(model.read_text().replace("select 1", "select nowhere"))
    with arctic.open_project(folder, profiles_dir=folder) as project, warnings.catch_warnings():
        project.table("legs").refresh()
        with pytest.raises(arctic.ArcticError, match="nowhere"):
            project.table("tails").refresh()


@pytest.mark.in_turn
def test_models_are_compared_with_those_of_another_target(folder: Path, lake: Warehouse) -> None:
    profiles = folder / "profiles.yml"
    shop = yaml.safe_load(profiles.read_text())
    outputs = shop["shop"]["outputs"]
    outputs["prod"] = {**outputs["dev"], "schema": f"{lake.namespace}_prod"}
    profiles.write_text(yaml.safe_dump(shop))
    with arctic.open_project(folder, "prod", profiles_dir=folder) as prod:
        for table in prod.tables:
            table.refresh()
    lake.load("landing", [(1, "N1"), (2, "N2")], "id bigint, tail string")
    with arctic.open_project(folder, profiles_dir=folder) as project:
        for table in project.tables:
            table.refresh()
        legs = project.table("legs")
        answer = legs.diff(other_target="prod")
        assert [(diff["table"], diff["counts"]) for diff in answer.data] == [
            (f"lake.{lake.namespace}.legs", {"added": 0, "removed": 0, "changed": 1}),
            (f"lake.{lake.namespace}.tails", {"added": 1, "removed": 0, "changed": 1}),
        ]
        assert len(legs.diff(other_schema=f"{lake.namespace}_prod", only=True).data) == 1
        assert legs.refresh().mode == "unchanged", "dbt's state is the project's again"


def test_ingestion_of_a_project_without_sources_says_so(project: arctic.Project) -> None:
    with pytest.raises(arctic.ConfigError, match="no source of the project is ingested"):
        project.ingest(once=True)
    with pytest.raises(arctic.ConfigError, match=r"'htp' is no part of the service \(did you mean 'http'"):
        project.serve(without=["htp"])
    assert project.table("legs").refresh().mode == "create", "dbt's state is the project's again"


def test_ingestion_is_refused_in_a_session_of_others(folder: Path, lake: Warehouse) -> None:
    theirs = lake.environment.new_session()
    with arctic.open_project(folder, profiles_dir=folder, spark=theirs) as project:
        assert project.table("legs").refresh().mode == "create"
        with pytest.raises(arctic.ConfigError, match="run `arctic ingest` as a process of its own"):
            project.ingest(once=True)
