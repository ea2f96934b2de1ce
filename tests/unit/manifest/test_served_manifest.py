"""A service over a manifest, without Spark: its tables, tests after refreshes, and manifests that are written anew."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest import manifest_project
from arctic_runtime.manifest.data_tests import TestResult
from arctic_runtime.manifest.manifest_project import ManifestProject
from arctic_runtime.manifest.model_files import ManifestFile
from arctic_runtime.manifest.profile_file import ManifestTarget
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.query.statement import TableReference
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.service.refreshing.refresh_task import RefreshListeners, RefreshResult, Task
from arctic_runtime.service.service import Service
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.spark.engine.session_pool import SessionPool
from dbt.adapters.arctic import cli
from tests.manifest_project import write_manifest
from tests.thresholds import changed

ORDERS, CUSTOMERS = TableName("lake", "dwd", "dwd_orders"), TableName("lake", "dwd", "dws_customers")
NOT_NULL = "test.shop.not_null_dws_customers_customer_id.5d8b0fea29"
OFTEN = {"poll_seconds": 0.05, "project_poll_seconds": 0.05, "look_share": 1.0}
Edit = Callable[[dict[str, Any]], object]


@dataclass
class UnrefreshedProject(ManifestProject):
    """A project that notes which models a service has it refresh."""

    refreshed: list[str] = field(default_factory=list)

    def refresh_model(self, task: Task) -> RefreshResult:
        self.refreshed.append(task.followed.model.sql)
        return RefreshResult(Refreshed(Outcome("unchanged", "CHANGES")))


@pytest.fixture
def warehouse(writing: Any, tmp_path: Path) -> Any:
    write_manifest(tmp_path, "duckdb")
    made = writing.warehouse(tmp_path / "warehouse")
    for name in ("orders", "customers"):
        made.create(name)
        made.append(name, [(1, "x")])
    return made


def open_project(warehouse: Any, tmp_path: Path, *select: str, warn: Callable[[str], None] = print) -> Any:
    profile = replace(warehouse.profile, thresholds=changed(warehouse.profile.thresholds, service=OFTEN))
    target = ManifestTarget(profile, schemas={"ods": "dwd"})
    return UnrefreshedProject(
        ManifestFile(tmp_path / "target" / "manifest.json"), target, select, warn=warn, is_served=True
    )


def edit_manifest(tmp_path: Path, edit: Edit) -> None:
    """Writes the manifest anew, as a compilation after an edit does."""
    file = tmp_path / "target" / "manifest.json"
    document = json.loads(file.read_text())
    edit(document)
    file.write_text(json.dumps(document, indent=1))


@contextmanager
def serve(project: ManifestProject) -> Iterator[Service]:
    sessions = SessionPool(project.reader.profile)
    warehouse = ServiceWarehouse(project.reader, sessions, ServiceTable("dwd", project.reader))
    service = Service(project, warehouse, listeners=RefreshListeners(project.warn))
    thread = threading.Thread(target=service.run_service)
    thread.start()
    try:
        yield service
    finally:
        service.stop_service()
        thread.join(60)
        assert not thread.is_alive()


def wait(service: Service, holds: Callable[[], object]) -> None:
    """Waits until something holds, which is looked at after each event, and a few times a second."""
    for _ in range(600):
        if holds():
            return
        service.live.events.wait_after(service.live.events.last, 0.1)
    raise AssertionError("it did not come to hold")


def test_a_manifest_that_is_written_anew_is_served_and_a_broken_one_leaves_the_models(
    warehouse: Any, tmp_path: Path
) -> None:
    def leave_out(document: dict[str, Any]) -> None:
        node = document["nodes"]["model.shop.dws_customers"]
        node["meta"] = node["config"]["meta"] = {}

    def edit_query(document: dict[str, Any]) -> None:
        document["nodes"]["model.shop.dwd_orders"]["compiled_code"] += " where o.amount > 7"

    file, said = tmp_path / "target" / "manifest.json", list[str]()
    whole = file.read_text()
    edit_manifest(tmp_path, leave_out)
    project = open_project(warehouse, tmp_path, warn=said.append)
    with serve(project) as service:
        wait(service, lambda: project.refreshed)
        assert service.live.find_table(str(CUSTOMERS)) is None
        file.write_text(whole[:1000])
        wait(service, lambda: any("can't be used as it is" in text for text in said))
        assert service.live.find_table(str(ORDERS)) is not None
        file.write_text(whole)
        edit_manifest(tmp_path, edit_query)
        wait(service, lambda: service.live.find_table(str(CUSTOMERS)))
        wait(service, lambda: any(sql.endswith("o.amount > 7") for sql in project.refreshed))


def test_a_table_has_the_description_and_the_operations_of_its_node(warehouse: Any, tmp_path: Path) -> None:
    project = open_project(warehouse, tmp_path)
    assert [str(model.table) for model in project.list_models()] == [
        "lake.dwd.dwd_orders", "lake.dwd.dws_customers", "lake.dwd.ods_events"
    ]  # fmt: skip
    assert project.describe_table(CUSTOMERS).description == "orders of each customer"
    assert project.describe_table(TableName("lake", "dwd", "unknown")).description == ""
    assert CUSTOMERS in project.list_descendants([ORDERS])
    (orders, *_) = project.list_maintained()
    assert (orders.table, CUSTOMERS in orders.readers, ORDERS in orders.readers) == (ORDERS, True, False)


def test_queries_name_models_and_sources_by_their_own_names(warehouse: Any, tmp_path: Path) -> None:
    lookup = open_project(warehouse, tmp_path).build_lookup()
    for table in (CUSTOMERS, CUSTOMERS.changes):
        assert lookup.complete_name(TableReference((table.name,))) == table


def test_tests_after_a_refresh_are_shown_until_their_next_run(
    warehouse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(document: dict[str, Any]) -> None:
        document["nodes"]["model.shop.dws_customers"]["config"]["meta"]["arctic"]["test_after_refresh"] = True

    def perform_test(models: Any, name: str, pool: Any) -> TestResult:
        began = datetime.now(timezone.utc)
        if name == NOT_NULL:
            return TestResult(name, "fail", began, failures=2, message="Got 2 results")
        return TestResult(name, "skipped", began, message="it is not compiled")

    monkeypatch.setattr(manifest_project, "perform_test", perform_test)
    edit_manifest(tmp_path, ask)
    project = open_project(warehouse, tmp_path)
    assert list(project.list_tested_tables()) == [CUSTOMERS]
    assert [str(outcome) for outcome in project.test_table(CUSTOMERS)] == [
        "FAIL not_null_dws_customers_customer_id: Got 2 results",
        "WARN unique_dws_customers_customer_id: it is not compiled",
    ]
    assert project.test_table(ORDERS) == ()
    assert [test.status for test in project.describe_table(CUSTOMERS).tests] == ["fail", "warn"]


def test_a_service_says_which_parts_need_one_with_dbt(warehouse: Any, tmp_path: Path) -> None:
    def ask(document: dict[str, Any]) -> None:
        document["nodes"]["model.shop.orders_view"]["config"]["meta"] = {"arctic": {"schedule": "0 6 * * *"}}
        ingest = {"arctic": {"ingest": {"connector": "files"}}}
        document["sources"]["source.shop.ods.orders"] |= {"source_name": "ods", "source_meta": ingest}

    warned: list[str] = []
    edit_manifest(tmp_path, ask)
    open_project(warehouse, tmp_path, "dwd_orders", warn=warned.append)
    assert warned == [
        "lake.dwd.orders_view is not run at its `schedule`: only a service with dbt does this",
        "source ods is not ingested: `arctic ingest` in a project of the adapter does this",
    ]


@pytest.mark.parametrize("value", ["yes", 1])
def test_a_flag_of_the_service_that_is_none_is_an_error_with_the_model(
    value: object, warehouse: Any, tmp_path: Path
) -> None:
    keys = {"primary_key": "order_id", "test_after_refresh": value}
    edit_manifest(
        tmp_path, lambda document: document["nodes"]["model.shop.dwd_orders"]["config"].update(meta={"arctic": keys})
    )
    with pytest.raises(ConfigError, match=r"model\.shop\.dwd_orders: test_after_refresh` must be true or false"):
        open_project(warehouse, tmp_path)


@pytest.mark.parametrize(
    ("serve", "message"),
    [("{http: {port: 0}}", "expected: serve: {schema: …}"), ("{scheme: dwd}", "did you mean 'schema'")],
)
def test_a_service_without_a_schema_for_its_table_says_which_key_to_write(
    serve: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, profile = write_manifest(tmp_path, "duckdb"), tmp_path / "profile.yml"
    profile.write_text(f"warehouse: ./warehouse\nserve: {serve}\n")
    assert cli.main(["serve", "--manifest", str(manifest), "--profile", str(profile)]) == 2
    assert message in capsys.readouterr().err
