"""A warehouse over HTTP, by the service that `arctic serve` runs: everything that needs no Spark is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.catalog.service_table import SERVICE_TABLE, ServiceTable
from arctic_runtime.catalog.table_samples import TableSample, TableSamples
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.service import user_requests
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.project import LastDataTest, TableDocs
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.spark.engine.session_pool import SessionPool
from tests.unit.service.http.client import Client


def model(name: str, source: str, **config: Any) -> Model:
    sql = f"select id, note from lake.dwd.{source}"
    return Model(TableName("lake", "dwd", name), sql, read_configuration({"primary_key": "id", **config}, name))


MODELS = (model("ods", "plain"), model("dwd", "ods", merge="on_read"))


TOKEN = "a-token-that-nobody-guesses"


class Project:
    name = "shop"

    def list_descendants(self, tables: Any) -> tuple[TableName, ...]:
        return ()

    def list_models(self) -> tuple[Model, ...]:
        return MODELS

    def describe_table(self, table: TableName) -> TableDocs:
        tests = (LastDataTest("unique_dwd_id"), LastDataTest("not_null_dwd_id", "pass"))
        return TableDocs("Orders <of> all shops", "", {"note": "What was said"}, tests, {"note": True})


@pytest.fixture(scope="module")
def warehouse(shop: Any) -> Iterator[Client]:
    reader = shop[0].reader
    reached = ServiceWarehouse(reader, SessionPool(reader.profile), ServiceTable("dwd", reader))
    service = Service(Project(), reached, version="1")
    service.activity.shared.set_tables([FollowedModel(of, of.table.name) for of in MODELS], ())
    live = service.live
    live.observe_tables()
    with HttpServer(live, HttpSettings(port=0, token=TOKEN)) as server:
        yield Client(server.url, TOKEN)


def test_tables_of_a_warehouse_are_shown_with_their_readers(warehouse: Client) -> None:
    tables = {of["table"]: of for of in warehouse.get("/api/tables").json["tables"]}
    assert [of["layer"] for of in tables.values()] == [0, 1, 2]
    ods = tables["lake.dwd.ods"]
    assert (ods["kind"], ods["reads"]) == ("model", ["lake.dwd.plain"])
    assert [(of["model"], of["commits"], of["rows"]) for of in ods["readers"]] == [("lake.dwd.dwd", 1, 2)]


def test_questions_and_plans_need_no_spark(warehouse: Client) -> None:
    questions = {operation.name for operation in OPERATIONS if not operation.needs_spark}
    for name in questions - {"lookup"}:
        found = warehouse.get(f"/api/operations/{name}?table=dwd")
        assert found.status == 200, found.body
        assert found.json["lines"]
    for name in ("compact", "expire", "split", "reset"):
        found = warehouse.get(f"/api/operations/{name}/plan?table=dwd")
        assert found.status == 200, found.body
    assert warehouse.get("/api/operations/lookup?table=dwd&key=3").json["data"]["row"]["note"] == "c"


def test_the_plan_that_has_to_find_rows_uses_the_spark_of_the_service(
    warehouse: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_session() -> Any:
        raise CatalogError("here Spark would look for the rows.")

    monkeypatch.setattr(user_requests, "lend_session", lambda _: nullcontext(take_session))
    assert [operation.name for operation in OPERATIONS if operation.plan_needs_spark] == ["restate", "forget"]
    planned = warehouse.get("/api/operations/forget/plan?table=dwd&key=3")
    assert (planned.status, planned.json["detail"]) == (503, "here Spark would look for the rows.")


def test_a_client_that_polls_gets_each_change_row_once(warehouse: Client, shop: Any) -> None:
    versions = [str(version.snapshot) for version in shop[1]["dwd"]]
    rows: list[tuple[int, str]] = []
    asked = ""
    for newest in versions:
        answer = warehouse.get(f"/api/tables/dwd/changes?to={newest}{asked}")
        table = pa.ipc.open_stream(answer.body).read_all()
        rows += zip(table["id"].to_pylist(), table["_action"].to_pylist(), strict=True)
        assert answer.headers["arctic-next-version"] == newest
        asked = f"&from={newest}"
    changed = [(1, "update"), (2, "delete"), (4, "insert"), (4, "update")]
    assert rows == [(1, "insert"), (2, "insert"), (3, "insert"), *changed]
    nothing = warehouse.get(f"/api/tables/dwd/changes?from={versions[-1]}")
    assert (pa.ipc.open_stream(nothing.body).read_all().num_rows, nothing.headers["arctic-next-version"]) == (
        0,
        versions[-1],
    )
    assert warehouse.get("/api/tables/dwd/changes?from=7").status == 422


def test_a_service_that_stands_by_says_so(warehouse: Client) -> None:
    refused = warehouse.post("/api/refresh", {"tables": ["dwd"]})
    assert refused.status == 422
    assert "stands by" in refused.json["detail"]


def test_a_table_has_its_query_its_columns_with_their_origins_and_its_tests(warehouse: Client) -> None:
    details = warehouse.get("/api/tables/dwd/details").json
    assert details["sql"] == MODELS[1].sql
    assert details["description"] == "Orders <of> all shops"
    columns = {column["name"]: column for column in details["columns"]}
    assert (columns["id"]["is_key"], columns["note"]["is_key"]) == (True, False)
    assert (columns["note"]["is_masked"], columns["note"]["description"]) == (True, "What was said")
    assert columns["note"]["origins"] == [{"table": "lake.dwd.ods", "column": "note", "uses": ["identity"]}]
    assert [(test["name"], test["status"]) for test in details["tests"]] == [
        ("unique_dwd_id", "unknown"),
        ("not_null_dwd_id", "pass"),
    ]
    plain = warehouse.get("/api/tables/lake.dwd.plain/details").json
    assert (plain["sql"], plain["has_lineage"]) == ("", False)
    assert "id" in [column["name"] for column in plain["columns"]]
    assert warehouse.get("/api/tables/nothing/details").status == 404


def test_a_table_has_its_samples_of_the_last_days(warehouse: Client, shop: Any) -> None:
    reader = shop[0].reader
    ServiceTable("dwd", reader).ensure()
    assert warehouse.get("/api/tables/dwd/trend").json["at"] == []
    at = datetime.now(timezone.utc)
    taken = [TableSample(at, f"lake.dwd.{name}", 7, 2.5, "fresh") for name in ("dwd", "ods")]
    TableSamples(TableName("lake", "dwd", SERVICE_TABLE), reader).replace_days(taken, at)
    trend = warehouse.get("/api/tables/dwd/trend").json
    assert (trend["table"], trend["rows"], trend["stale_seconds"], trend["states"]) == (
        "lake.dwd.dwd",
        [7],
        [2.5],
        ["fresh"],
    )
    assert warehouse.get("/api/tables/nothing/trend").status == 404


def test_a_table_shows_a_few_rows_with_masked_values_and_says_what_is_not_merged(warehouse: Client) -> None:
    shown = warehouse.get("/api/tables/dwd/rows").json
    assert shown["columns"][:2] == ["id", "note"]
    assert [row[0] for row in shown["rows"]] == sorted(row[0] for row in shown["rows"])
    assert all(row[1].startswith("masked:") for row in shown["rows"])
    assert shown["masked"] == ["note"]
    assert shown["unmerged_rows"] > 0
    assert len(warehouse.get("/api/tables/lake.dwd.plain/rows?limit=1").json["rows"]) == 1
    assert warehouse.get("/api/tables/nothing/rows").status == 404
    assert Client(warehouse.url).get("/api/tables/dwd/rows").status == 401
