"""Models of a manifest that dbt-duckdb has compiled, refreshed without dbt, and by the adapter before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from dbt.adapters.arctic import cli
from tests.manifest_project import write_manifest, write_project

pytestmark = pytest.mark.in_turn

if TYPE_CHECKING:
    from tests.spark.warehouse import Warehouse


ORDERS = "order_id bigint, customer_id bigint, amount bigint"
EVENTS = "order_id bigint, amount bigint, lsn bigint"


@pytest.fixture
def project(tmp_path: Path, lake: Warehouse) -> Path:
    """The project with its sources and its view, for the adapter and as a manifest."""
    profile = lake.environment.profile
    settings: dict[str, Any] = {"method": profile.method, "warehouse": profile.catalog_properties["warehouse"]}
    settings |= {"server_side_parameters": dict(profile.settings)} | ({"url": profile.url} if profile.url else {})
    write_project(tmp_path, {**settings, "schema": lake.namespace}, lake.namespace)
    write_manifest(tmp_path, "duckdb")
    schemas = {"dwd": lake.namespace, "ods": lake.namespace}
    (tmp_path / "profile.yml").write_text(yaml.safe_dump({**settings, "schemas": schemas}))
    lake.load("orders", [(1, 1, 10), (2, 2, 20)], ORDERS)
    lake.load("customers", [(1, "ann"), (2, "bob")], "customer_id bigint, name string")
    lake.load("events", [(1, 5, 1)], EVENTS)
    return tmp_path


def perform_command(project: Path, *line: str) -> int:
    files = ["--manifest", str(project / "target" / "manifest.json"), "--profile", str(project / "profile.yml")]
    return cli.main([*line, *files])


def run_manifest(project: Path, *options: str) -> int:
    return perform_command(project, "run", "--once", *options)


def run_adapter(project: Path, *options: str) -> int:
    return cli.main(["run", "--once", "--project-dir", str(project), "--profiles-dir", str(project), *options])


def read_results(project: Path) -> dict[str, Any]:
    """The results in run_results.json, by the names of models and tests."""
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    return {result["unique_id"].split(".")[2]: result for result in results}


def read_response(project: Path, name: str, key: str) -> str:
    return str(read_results(project)[name]["adapter_response"][key])


FOLLOWED = ("CHANGES", "COST")
"""Reasons of a run that follows changes, for which a slow machine may choose to compute so small a table in full."""


def test_models_move_between_the_adapter_and_a_manifest_without_a_full_refresh(project: Path, lake: Warehouse) -> None:
    select = ("--select", "dwd_orders", "ods_events")
    assert run_manifest(project, *select) == 0
    assert {read_response(project, name, "mode") for name in ("dwd_orders", "ods_events")} == {"create"}
    assert read_results(project)["amounts"]["status"] == "pass"

    lake.append("orders", [(3, 1, 30)], ORDERS)
    lake.append("events", [(1, 7, 2)], EVENTS)
    assert run_adapter(project, *select) == 0
    assert read_response(project, "dwd_orders", "reason") in FOLLOWED
    assert read_response(project, "ods_events", "mode") == "incremental"

    lake.append("orders", [(4, 2, -1)], ORDERS)
    assert run_manifest(project, *select) == 1
    assert read_response(project, "dwd_orders", "reason") in FOLLOWED
    assert read_response(project, "ods_events", "mode") == "unchanged"
    failed = read_results(project)["amounts"]
    assert (failed["status"], failed["failures"]) == ("fail", 1)
    assert sorted(map(tuple, lake.spark.table(lake.sql_name("dwd_orders")).collect())) == [
        (1, 1, "ann", 10), (2, 2, "bob", 20), (3, 1, "ann", 30), (4, 2, "bob", -1)
    ]  # fmt: skip
    assert list(map(tuple, lake.spark.table(lake.sql_name("ods_events")).collect())) == [(1, 7, 2)]
    assert perform_command(project, "verify", "dwd_orders") == 0
