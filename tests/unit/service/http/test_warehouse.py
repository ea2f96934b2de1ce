"""A warehouse over HTTP, by the service that `arctic serve` runs: everything that needs no Spark is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service
from arctic_runtime.service.warehouse import Warehouse
from arctic_runtime.spark.engine.session_pool import SessionPool
from tests.unit.service.http.client import Client


def model(name: str, source: str, **config: Any) -> Model:
    sql = f"select id, note from lake.dwd.{source}"
    return Model(TableName("lake", "dwd", name), sql, read_configuration({"primary_key": "id", **config}, name))


MODELS = (model("ods", "plain"), model("dwd", "ods", merge="on_read"))


class Project:
    name = "shop"

    def list_descendants(self, tables: Any) -> tuple[TableName, ...]:
        return ()

    def list_models(self) -> tuple[Model, ...]:
        return MODELS


@pytest.fixture(scope="module")
def warehouse(shop: Any) -> Iterator[Client]:
    reader = shop[0].reader
    reached = Warehouse(reader, SessionPool(reader.profile), ServiceTable("dwd", reader))
    service = Service(Project(), reached, version="1")
    service.activity.shared.set_tables([FollowedModel(of, of.table.name) for of in MODELS], ())
    live = service.live
    live.observe_tables()
    with HttpServer(live, HttpSettings(port=0)) as server:
        yield Client(server.url)


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
