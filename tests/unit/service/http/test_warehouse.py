"""A warehouse over HTTP, by the service that `arctic serve` runs: everything that needs no Spark is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.service_table import SERVICE_TABLE, ServiceTable
from arctic_runtime.catalog.table_samples import TableSample, TableSamples
from arctic_runtime.errors import CatalogError, ConfigError
from arctic_runtime.manifest.project_graph import ProjectNode
from arctic_runtime.manifest.query_lookup import build_lookup
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.query.relations import RelationLookup
from arctic_runtime.service import user_requests
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.project import LastDataTest, TableDocs
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.spark.engine.session_pool import SessionPool
from tests.unit.service.http.client import Answered, Client


def model(name: str, source: str, **config: Any) -> Model:
    sql = f"select id, note from lake.dwd.{source}"
    return Model(TableName("lake", "dwd", name), sql, read_configuration({"primary_key": "id", **config}, name))


MODELS = (model("ods", "plain"), model("dwd", "ods", merge="on_read"))


TOKEN = "a-token-that-nobody-guesses"


class Project:
    """A project with two models, of which the masks hide notes, and a source; `reader` is that of its catalog."""

    name = "shop"

    def __init__(self, reader: CatalogReader) -> None:
        self.reader = reader

    def build_lookup(self) -> RelationLookup:
        nodes = [ProjectNode(f"model.shop.{model.table.name}", model.table, masks={"note": True}) for model in MODELS]
        source = ProjectNode("source.shop.dwd.plain", TableName("lake", "dwd", "plain"))
        return build_lookup(self.reader, [*nodes, source], [replace(model, masks={"note": True}) for model in MODELS])

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
    service = Service(Project(reader), reached, version="1")
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


def ask_sql(client: Client, query: Any, limit: Any = None, **headers: str) -> Answered:
    return client.post("/api/operations/sql", {"arguments": {"query": query, "limit": limit}}, **headers)


def test_a_query_is_answered_with_the_masks_of_the_project_and_nothing_outside_of_it(warehouse: Client) -> None:
    answer = ask_sql(warehouse, "select id, note, count(*) over () n from dwd__changes order by id", 2).json
    assert [(column["name"], column["type"]) for column in answer["columns"]] == [
        ("id", "bigint"),
        ("note", "string"),
        ("n", "bigint"),
    ]
    assert [row[1].partition(":")[0] for row in answer["rows"]] == ["masked", "masked"]
    assert answer["is_cut"]
    assert ask_sql(warehouse, "select note from dwd.plain").json["rows"] == [["p"]]
    assert ask_sql(warehouse, "select count(*) n from ods where note = 'c'").json["rows"] == [[0]]
    hidden = ask_sql(warehouse, "select * from dwd.arctic_service")
    assert (hidden.status, hidden.json["expected"]) == (422, "a model, seed, snapshot or source")


@pytest.mark.parametrize(
    "query",
    [
        "drop table ods",
        "select * from ods; drop table ods",
        "insert into ods values (1, 'x')",
        "select * from read_csv('/etc/passwd')",
        "select * from parquet.`/etc/passwd`",
        "select java_method('java.lang.System', 'getenv') from ods",
        "select getenv('HOME') from ods",
        "select id from ods limit (select count(*) from read_text('/etc/passwd'))",
        "(" * 5_000,
        "select '\\u0000' from ods where",
        "no query at all",
        " ",
    ],
)
def test_a_hostile_query_is_a_problem_with_what_to_do(warehouse: Client, query: str) -> None:
    refused = ask_sql(warehouse, query)
    assert refused.status == 422, refused.body
    assert "unexpected" not in refused.json["detail"]
    assert ask_sql(warehouse, "select max(id) m from ods").json["rows"] == [[13]]


def test_only_so_many_queries_are_answered_at_the_same_time(warehouse: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_again(*_: Any) -> Any:
        refused.append(ask_sql(warehouse, "select max(id) m from ods"))
        raise ConfigError("this one was the second")

    refused: list[Answered] = []
    monkeypatch.setattr(user_requests, "answer_limited_query", ask_again)
    assert ask_sql(warehouse, "select 1 one").status == 422
    assert [(answer.status, answer.json.get("fix")) for answer in refused] == [
        (503, "ask again when one has ended"),
        (422, None),
    ]
