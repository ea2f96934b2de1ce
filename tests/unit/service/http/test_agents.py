"""Agents over HTTP: the client of the SDK asks a service about a warehouse, by its roles and within its limits."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client

from arctic_runtime.catalog.service_table import ServiceTable
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.agents.answers import NOTICE
from arctic_runtime.service.agents.proposals import ProposalStore
from arctic_runtime.service.agents.settings import AgentSettings
from arctic_runtime.service.http.agent_routes import HttpAgents
from arctic_runtime.service.http.server import HttpServer
from arctic_runtime.service.http_settings import HttpSettings
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from arctic_runtime.service.service import Service
from arctic_runtime.service.shared_state import ServiceWarehouse
from arctic_runtime.spark.engine.session_pool import SessionPool
from arctic_runtime.thresholds import AgentThresholds
from tests.service.fake import FakeService, overviews
from tests.unit.service.agents.hostile import INSTRUCTION, NAMES
from tests.unit.service.http.client import Client as HttpClient
from tests.unit.service.http.test_users import TOKENS, USERS
from tests.unit.service.http.test_warehouse import MODELS, Project

MASKED: tuple[Model, ...] = tuple(replace(model, masks={"note": True}) for model in MODELS)


class MaskedProject(Project):
    def list_models(self) -> tuple[Model, ...]:
        return MASKED


@dataclass
class Served:
    """A service with its URL, and a connection of an agent with the token of a role."""

    url: str
    audit_file: Path
    fake: FakeService | None = None

    def ask(self, talk: Callable[[Client], Awaitable[Any]], role: str = "reader", mode: str = "auto") -> Any:
        """Lets `talk` use a client of the SDK, and returns its result."""

        async def connect() -> Any:
            headers = {"authorization": f"Bearer {TOKENS[role]}"}  # type: ignore[index]
            async with (
                httpx2.AsyncClient(headers=headers, timeout=30) as http,
                Client(streamable_http_client(f"{self.url}/mcp", http_client=http), mode=mode) as client,
            ):
                return await talk(client)

        return anyio.run(connect)

    def call(self, tool: str, role: str = "reader", **arguments: Any) -> types.CallToolResult:
        return self.ask(lambda client: client.call_tool(tool, arguments), role)

    def list_tools(self, role: str = "reader", mode: str = "auto") -> dict[str, types.Tool]:
        async def talk(client: Client) -> Any:
            return await client.list_tools()

        return {tool.name: tool for tool in self.ask(talk, role, mode).tools}

    def read_audit(self) -> list[dict[str, Any]]:
        entries = map(json.loads, self.audit_file.read_text().splitlines())
        return [entry for entry in entries if {"tool", "resource", "operation"} & {*entry}]


@contextmanager
def serve(live: Any, folder: Path, allow: Any = "read", **limits: Any) -> Iterator[Served]:
    settings = HttpSettings(port=0, users=USERS, audit_file=str(folder / "audit.jsonl"))
    thresholds = AgentThresholds(wait_seconds=0.3, poll_seconds=0.01)
    agents = HttpAgents(AgentSettings(allow, **limits), ProposalStore(folder / "proposals", 60), thresholds)
    with HttpServer(live, settings, agents=agents) as server:
        yield Served(server.url, folder / "audit.jsonl", live if isinstance(live, FakeService) else None)


@pytest.fixture(scope="module")
def warehouse(shop: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    reader = shop[0].reader
    reached = ServiceWarehouse(reader, SessionPool(reader.profile), ServiceTable("dwd", reader))
    service = Service(MaskedProject(reader), reached, version="1")
    service.activity.shared.set_tables([FollowedModel(of, of.table.name) for of in MASKED], ())
    service.live.observe_tables()
    with serve(service.live, tmp_path_factory.mktemp("agents"), "plan") as served:
        yield served


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Served]:
    with ExitStack() as stack:
        yield stack.enter_context(serve(FakeService(overviews(12, hostile=True)), tmp_path, "plan"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_reader_gets_the_tools_that_need_no_spark_and_their_texts_are_of_the_registry(
    warehouse: Served, mode: str
) -> None:
    tools = warehouse.list_tools(mode=mode)
    assert {"status", "explain", "history", "lookup", "clones", "preview"} <= {*tools}
    assert {"tables", "freshness", "runs", "describe", "lineage", "jobs"} <= {*tools}
    assert {"verify", "changes", "why", "diff", "restore", "savepoint"}.isdisjoint(tools)
    known = {operation.name: operation.description for operation in OPERATIONS}
    assert all((tool.description or "").endswith(known.get(name, "")) for name, tool in tools.items())
    assert len(warehouse.list_tools("operator")) >= 15


def test_every_question_without_spark_is_answered_as_data(warehouse: Served) -> None:
    one = {"table": "dwd"}
    questions: dict[str, dict[str, Any]] = {
        "status": {},
        "tables": {},
        "freshness": {},
        "runs": {"limit": 2},
        "jobs": {},
    }
    questions |= {"clones": {}, "preview": {}, "history": one, "explain": one, "describe": one, "lineage": one}
    for tool, arguments in questions.items():
        answer = warehouse.call(tool, **arguments)
        assert not answer.is_error, answer
        assert answer.structured_content["notice"] == NOTICE
        assert json.loads(answer.content[0].text) == answer.structured_content  # type: ignore[union-attr]
    assert len(warehouse.call("runs", limit=2).structured_content["data"]) == 2
    lineage = warehouse.call("lineage", table="dwd").structured_content["data"]
    assert lineage["reads"] == ["lake.dwd.ods"]
    assert lineage["columns"]["note"] == [{"table": "lake.dwd.ods", "column": "note", "uses": ["identity"]}]
    described = warehouse.call("describe", table="dwd").structured_content["data"]
    assert (described["sql"], described["key"]) == (MODELS[1].sql, ["id"])


def test_masked_values_of_a_row_are_hashes(warehouse: Served) -> None:
    row = warehouse.call("lookup", table="dwd", key=["3"]).structured_content["data"]["row"]
    assert row["id"] == 3
    assert row["note"].startswith("masked:")


def test_a_query_has_the_masks_of_other_tools_says_if_it_is_cut_and_is_in_the_audit_log(warehouse: Served) -> None:
    note = warehouse.call("lookup", table="dwd", key=["3"]).structured_content["data"]["row"]["note"]
    query = "select id, note from dwd__changes where id = 3"
    answer = warehouse.call("sql", query=query).structured_content
    assert (answer["data"], answer["lines"]) == ([{"id": 3, "note": note}], [])
    cut = warehouse.call("sql", query="select id from dwd__changes order by id", limit=2).structured_content
    assert (len(cut["data"]), cut["lines"]) == (2, ["the first 2 rows; there are more"])
    for hostile in ("drop table dwd", "select * from read_csv('/etc/passwd')", "select * from dwd.arctic_service", ""):
        assert warehouse.call("sql", query=hostile).is_error, hostile
    asked = [entry for entry in warehouse.read_audit() if entry.get("operation") == "sql" or entry["tool"] == "sql"]
    assert [(entry["user"], entry["tables"]) for entry in asked[:2]] == [
        ("reader-ana", ["lake.dwd.dwd__changes"]),
        ("reader-ana", []),
    ]
    assert [entry["outcome"] for entry in asked if "tool" in entry][:3] == ["answered", "answered", "ConfigError"]
    assert query not in warehouse.audit_file.read_text()


def test_a_service_without_tokens_has_no_tool_that_reads_rows_by_queries(tmp_path: Path) -> None:
    def ask(**access: Any) -> set[str]:
        agents = HttpAgents(AgentSettings(), ProposalStore(tmp_path / "proposals", 60))
        with HttpServer(FakeService(), HttpSettings(port=0, **access), agents=agents) as server:
            return {*Served(server.url, tmp_path).list_tools()}

    assert ask(users=USERS) - ask() == {"sql"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "\ud800"])
def test_a_hostile_name_is_an_error_with_what_to_do_and_the_session_goes_on(warehouse: Served, name: Any) -> None:
    async def talk(client: Client) -> Any:
        first = await client.call_tool("history", {"table": name})
        second = await client.call_tool("status", {"tables": [name]})
        return first, second, await client.call_tool("tables", {})

    first, second, after = warehouse.ask(talk)
    assert first.is_error
    assert len(str(first.structured_content)) < 20_000
    assert "table" in first.structured_content["error"]["message"]
    assert second.is_error
    assert not after.is_error


def test_arguments_that_are_files_are_refused_over_http(warehouse: Served) -> None:
    for state in ("../../..", "/etc", "state"):
        refused = warehouse.call("preview", state=state)
        assert refused.is_error
        assert "no argument 'state'" in refused.structured_content["error"]["message"]


def test_a_tool_for_another_role_is_refused_and_a_request_without_a_token_too(warehouse: Served) -> None:
    refused = warehouse.call("verify")
    assert refused.is_error
    assert refused.structured_content["error"]["expected"] == "the role operator"
    client = HttpClient(warehouse.url)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert client.post("/mcp", body).status == 401
    assert replace(client, token=TOKENS["reader"]).post("/mcp", body, Origin="http://elsewhere").status == 403
    assert replace(client, token=TOKENS["reader"]).get("/mcp").status == 405


def test_every_call_is_in_the_audit_log_without_values(fake: Served) -> None:
    table = str(fake.fake.made[-1].table)  # type: ignore[union-attr]
    fake.call("lookup", table=table, key=["4711-of-a-person"])
    fake.call("lookup", table="nothing", key=["4711-of-a-person"])
    fake.call("reset_all", "admin")
    found = [(entry["user"], entry["tool"], entry["tables"], entry["outcome"]) for entry in fake.read_audit()]
    assert found == [
        ("reader-ana", "lookup", [table], "answered"),
        ("reader-ana", "lookup", ["nothing"], "ConfigError"),
        ("admin-ana", "reset_all", [], "ConfigError"),
    ]
    assert fake.read_audit()[0]["arguments"] == ["key", "table"]
    assert "4711" not in fake.audit_file.read_text()


def test_an_instruction_in_the_data_stays_in_the_answer(fake: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Answer({"row": {"note": INSTRUCTION}}, (INSTRUCTION,))
    monkeypatch.setattr(fake.fake, "answer_operation", lambda *_, **__: told)
    before = fake.list_tools()
    answer = fake.call("lookup", table=str(fake.fake.made[0].table), key=["1"])  # type: ignore[union-attr]
    assert answer.structured_content["data"]["row"]["note"] == INSTRUCTION
    assert json.loads(answer.content[0].text)["notice"] == NOTICE  # type: ignore[union-attr]
    assert fake.list_tools() == before
    assert INSTRUCTION not in str(before)


def test_an_unexpected_error_is_an_error_of_the_tool_and_tells_nothing(fake: Served) -> None:
    fake.fake.failure = RuntimeError("password=hunter22")  # type: ignore[union-attr]
    refused = fake.call("status")
    assert refused.is_error
    assert "hunter22" not in str(refused)
    fake.fake.failure = None  # type: ignore[union-attr]
    assert not fake.call("status").is_error


def test_a_question_that_needs_spark_is_a_job_whose_answer_comes_at_once_or_by_its_number(fake: Served) -> None:
    table = str(fake.fake.made[-1].table)  # type: ignore[union-attr]
    rows = fake.call("changes", "operator", table=table, start="1", end="2", limit=10**30)
    assert len(rows.structured_content["data"]) == 4
    late = fake.call("verify", "operator", tables=[table]).structured_content["data"]
    assert late["state"] == "running"
    (job,) = fake.call("jobs", "operator", number=late["job"]).structured_content["data"]
    assert (job["name"], job["answer"]) == ("verify", None)
    others = fake.call("jobs", limit=3).structured_content["data"]
    assert len(others) == 3
    assert all("answer" not in other for other in others)


def test_a_proposed_plan_is_carried_out_by_an_operator_once_and_only_if_it_is_still_the_plan(fake: Served) -> None:
    tools = fake.list_tools()
    assert {"compact", "expire", "split", "reset", "forget", "restate"} <= {*tools}
    assert tools["reset"].annotations.read_only_hint is False  # type: ignore[union-attr]
    table = str(fake.fake.made[-1].table)  # type: ignore[union-attr]
    plan = fake.call("compact", tables=[table]).structured_content["plan"]["id"]
    reset = fake.call("reset", table=table).structured_content["plan"]["id"]
    asked = fake.fake.asked  # type: ignore[union-attr]
    assert not [entry for entry in asked if entry[0] == "submit"]
    client = HttpClient(fake.url, TOKENS["operator"])
    assert {known["id"] for known in client.get("/api/plans").json} == {plan, reset}
    assert replace(client, token=TOKENS["reader"]).post(f"/api/plans/{plan}", {}).status == 403
    assert client.post(f"/api/plans/{reset}", {}).status == 403
    assert client.post("/api/plans/..%2f..%2fetc", {}).status in (404, 422)
    done = client.post(f"/api/plans/{plan}", {})
    assert (done.status, done.json["name"]) == (202, "compact")
    assert client.post(f"/api/plans/{plan}", {}).status == 422
    fake.fake.planned = Answer({"other": 1}, ("another plan",))  # type: ignore[union-attr]
    moved = replace(client, token=TOKENS["admin"]).post(f"/api/plans/{reset}", {})
    assert moved.status == 409
    assert "another plan" in moved.json["detail"]
    assert [entry[1] for entry in asked if entry[0] == "submit"] == ["compact"]


def test_a_real_plan_is_proposed_without_spark(warehouse: Served) -> None:
    answer = warehouse.call("compact", tables=["dwd"])
    assert not answer.is_error, answer
    assert answer.structured_content["plan"]["id"] in answer.structured_content["plan"]["apply"]
    again = warehouse.call("compact", tables=["dwd"])
    assert again.structured_content["data"] == answer.structured_content["data"]


def test_documents_and_tables_are_resources(warehouse: Served) -> None:
    async def talk(client: Client) -> Any:
        known = await client.list_resources()
        texts = [(await client.read_resource(page.uri)).contents[0].text for page in known.resources]  # type: ignore[union-attr]
        table = await client.read_resource("arctic://tables/lake.dwd.dwd")
        for uri in ("arctic://docs/../../pyproject", "arctic://tables/../x", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="There is no"):
                await client.read_resource(uri)
        return known.resources, texts, json.loads(table.contents[0].text)  # type: ignore[union-attr]

    pages, texts, table = warehouse.ask(talk)
    assert "glossary" in [page.name for page in pages]
    assert all(text.startswith("# ") for text in texts)
    assert (table["notice"], table["data"]["sql"]) == (NOTICE, MODELS[1].sql)
    assert {"resource", "tables"} <= {*warehouse.read_audit()[-1]}


def test_without_agents_there_is_no_endpoint(tmp_path: Path) -> None:
    with HttpServer(FakeService(), HttpSettings(port=0)) as server:
        assert HttpClient(server.url).post("/mcp", {}).status == 404
