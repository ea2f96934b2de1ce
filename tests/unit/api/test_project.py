"""A dbt project of the library: a stranger's mistakes are answered, and refreshes go to the module that knows dbt."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

import arctic_runtime as arctic
from arctic_runtime.api.project import PROJECTS
from arctic_runtime.api.table import Connection
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.plan.config.configure import read_configuration


class Source:
    """A project with one model, which tells what it is asked."""

    def __init__(self, profile: arctic.Profile) -> None:
        self.profile = profile
        self.asked: list[object] = []
        table = TableName("lake", "dwd", "flights")
        self.model = Model(table, "select 1 as id", read_configuration({"primary_key": "id"}, "flights"))

    def list_models(self, reader: CatalogReader) -> Sequence[Model]:
        return [self.model]

    def refresh_model(self, model: Model) -> Refreshed:
        self.asked.append(model.table)
        return Refreshed(arctic.Outcome("unchanged", "NOTHING_NEW"), {"expiry": "no disk"})

    def find_counterparts(self, state: str | None, target: str | None) -> Mapping[TableName, Counterpart]:
        self.asked.append((state, target))
        return {}

    def list_descendants(self, tables: Collection[TableName]) -> Collection[TableName]:
        self.asked.append(set(tables))
        return ()

    def run_ingestion(self, sources: Sequence[str], once: bool) -> None:
        self.asked.append((sources, once))

    def run_service(self, host: str | None, port: int | None, without: Sequence[str]) -> None:
        self.asked.append((host, port, without))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(arctic.Profile.for_embedded(tmp_path / "warehouse"))


@pytest.fixture
def project(source: Source) -> arctic.Project:
    return arctic.Project(source, Connection(source.profile))


@pytest.mark.parametrize("name", ["flights", "dwd.flights", "lake.dwd.flights"])
def test_a_table_is_refreshed_by_dbt_and_upkeep_that_failed_is_a_warning(
    project: arctic.Project, source: Source, name: str
) -> None:
    with pytest.warns(RuntimeWarning, match="expiry after it failed"):
        assert project.table(name).refresh().mode == "unchanged"
    assert source.asked == [TableName("lake", "dwd", "flights")]


def test_a_table_that_the_project_lacks_is_answered_with_the_one_that_was_meant(project: arctic.Project) -> None:
    with pytest.raises(arctic.ConfigError, match=r"'dwd\.flight' \(did you mean 'dwd\.flights'"):
        project.table("dwd.flight")


def test_a_full_refresh_is_left_to_dbt(project: arctic.Project, source: Source) -> None:
    with pytest.raises(arctic.ConfigError, match="dbt run --full-refresh --select flights"):
        project.table("flights").refresh(full_refresh=True)
    assert source.asked == []


def test_a_diff_asks_the_project_for_the_other_environment_and_for_what_is_below(
    project: arctic.Project, source: Source
) -> None:
    table = project.table("flights")
    with pytest.raises(arctic.ConfigError, match="nothing to compare"):
        table.diff(state="state/prod")
    with pytest.raises(arctic.ConfigError, match="nothing to compare"):
        table.diff(other_target="prod", only=True)
    assert source.asked == [{source.model.table}, ("state/prod", None), (None, "prod")]


def test_ingestion_and_the_service_are_those_of_the_commands(project: arctic.Project, source: Source) -> None:
    project.ingest("shop", once=True)
    project.serve(port=0, without=["ingest"])
    assert source.asked == [(("shop",), True), (None, 0, ["ingest"])]


def test_a_project_that_is_closed_says_so(project: arctic.Project) -> None:
    with project:
        pass
    for ask in (project.serve, lambda: project.tables):
        with pytest.raises(arctic.ConfigError, match="closed"):
            ask()


def test_a_project_without_dbt_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*(module for module in sys.modules if module.split(".")[0] == "dbt")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dbt", None)
    with pytest.raises(arctic.ConfigError, match="pip install dbt-arctic"):
        arctic.open_project(tmp_path)
    assert PROJECTS.startswith("dbt.")


def test_a_folder_without_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(arctic.ConfigError, match=r"folder with dbt_project\.yml"):
        arctic.open_project(tmp_path)


def test_a_name_without_a_schema_and_one_of_another_catalog_are_refused(tmp_path: Path) -> None:
    with arctic.open_warehouse(tmp_path / "warehouse") as warehouse:
        for name in ("flights", "pond.dwd.flights"):
            with pytest.raises(arctic.ConfigError, match=r"expected: schema\.name"):
                warehouse.define_table(name, "select 1 as id", primary_key="id")


def test_a_warehouse_is_planned_and_looked_at_without_spark(tmp_path: Path) -> None:
    with arctic.open_warehouse(tmp_path / "warehouse") as warehouse:
        one = warehouse.define_table("dwd.one", "select 1 as id;", primary_key="id")
        assert "next run: create" in str(one.explain())
        assert str(one.history()) == "no versions yet"
        assert (one.name, one.query) == ("lake.dwd.one", "select 1 as id")
        assert "dwd.one" in repr(warehouse)
