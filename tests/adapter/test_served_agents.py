"""Agents over `/mcp` of `arctic serve` with Spark: a client of the SDK asks about a row that looks like an order."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from arctic_runtime.service.agents.answers import NOTICE
from dbt.adapters.arctic import cli
from tests.adapter.served import Served
from tests.adapter.test_serve import SOURCES, feed
from tests.unit.service.agents.hostile import INSTRUCTION, NAMES

EMAIL = "@example.org"
TOKENS = {role: f"{role}-0123456789abcdef" for role in ("reader", "operator")}
CLEAN = f"""
{{{{ config(materialized='arctic', primary_key='id') }}}}
select id, city as note, concat('ana-', id, '{EMAIL}') as email from {{{{ source('shop', 'orders') }}}}
"""
MASKED = """
models:
  - name: clean
    columns: [{name: email, config: {meta: {mask: true}}}]
"""
WITH_SPARK = ("why", "changes")
KEYS: tuple[Any, ...] = (
    [],
    ["x"],
    ["1", "2"],
    [None],
    "1",
    {"id": 1},
    ["1'; drop table clean; --"],
    [INSTRUCTION],
    ["\0"],
)
QUERIES = (
    "drop table clean",
    "select 1; drop table clean",
    "select * from clean where note = 'x",
    "select * from read_csv('/etc/passwd')",
    "select * from parquet.`/etc/passwd`",
    "select java_method('java.lang.System', 'getenv') from clean",
    "select * from dwd.salaries",
    INSTRUCTION,
)


@pytest.mark.in_turn
class TestServedAgents:
    @pytest.fixture(scope="class")
    def landing(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("landing") / "orders"
        folder.mkdir()
        return folder

    @pytest.fixture(scope="class")
    def models(self, landing: Path) -> dict[str, str]:
        sources = SOURCES.replace("PATH", str(landing.parent))
        return {"sources.yml": sources, "clean.sql": CLEAN, "clean.yml": MASKED}

    @pytest.fixture(scope="class")
    def dbt_profile_target(self, profile_target: dict[str, Any], landing: Path) -> dict[str, Any]:
        users = [{"name": role, "role": role, "token": token} for role, token in TOKENS.items()]
        return {**profile_target, "serve": {"http": {"users": users, "audit_file": str(landing / ".audit")}}}

    @pytest.fixture
    def service(self, project: Any, landing: Path) -> Iterator[Served]:
        """A service whose table `clean` has two versions, and a row that pretends to be an instruction."""
        feed(landing, 1, {1: "a", 2: "b"})
        served = Served(Path(project.project_root), Path(project.profiles_dir), token=TOKENS["operator"])
        try:
            served.until(lambda: served.states() == dict.fromkeys(("orders", "clean"), "fresh"))
            feed(landing, 2, {1: INSTRUCTION, 3: "c"})
            served.until(lambda: served.rows("clean") == 3)
            yield served
            served.stop()
        finally:
            served.kill()

    def test_tools_answer_hostile_calls_by_errors_and_rows_as_data_that_is_masked(
        self, service: Served, landing: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ask(service, "reader", ask_without_spark)
        ask(service, "operator", ask_with_spark)
        assert cli.main(["sql", "select note from clean where id = 1", "--json", *service.where]) == 0
        assert json.loads(capsys.readouterr().out) == [{"note": INSTRUCTION}]
        assert "Traceback" not in service.said()
        audit = (landing / ".audit").read_text()
        entries = [json.loads(line) for line in audit.splitlines()]
        answered = {(entry["user"], entry["tool"]) for entry in entries if entry.get("outcome") == "answered"}
        assert {("operator", tool) for tool in WITH_SPARK} <= answered
        assert {("reader", tool) for tool in ("status", "lineage", "explain", "lookup", "sql")} <= answered
        assert any(entry.get("operation") == "sql" and entry["tables"][0].endswith(".clean") for entry in entries)
        assert INSTRUCTION not in audit
        assert EMAIL not in audit


def ask(service: Served, role: str, talk: Callable[[Client], Awaitable[None]]) -> None:
    """Lets `talk` use a client of the SDK with the token of a role."""

    async def connect() -> None:
        headers = {"authorization": f"Bearer {TOKENS[role]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{service.url}/mcp", http_client=http)) as client,
        ):
            await talk(client)

    anyio.run(connect)


async def ask_without_spark(client: Client) -> None:
    before = (await client.list_tools()).tools
    assert INSTRUCTION not in str(before)
    assert not {*WITH_SPARK} & {tool.name for tool in before}
    assert (await answer(client, "status"))["data"][0]["rows"] == 3
    lineage = (await answer(client, "lineage", table="clean"))["data"]
    assert lineage["columns"]["note"][0]["column"] == "city"
    assert (await answer(client, "explain", table="clean"))["data"]["decision"]["mode"] == "unchanged"
    row = (await answer(client, "lookup", table="clean", key=["1"]))["data"]["row"]
    assert row["note"] == INSTRUCTION
    assert row["email"].startswith("masked:")
    assert (await answer(client, "sql", query="select * from clean where id = 1"))["data"] == [row]
    for name in filter(is_text, NAMES):
        for tool, more in (("lineage", {}), ("explain", {}), ("lookup", {"key": ["1"]})):
            await refuse(client, tool, table=name, **more)
        await refuse(client, "status", tables=[name])
        await refuse(client, "sql", query=name)
    for key in KEYS:
        await refuse(client, "lookup", table="clean", key=key)
    for query in QUERIES:
        await refuse(client, "sql", query=query)
    for tool in (*WITH_SPARK, "reset"):
        await refuse(client, tool, table="clean")
    assert (await client.list_tools()).tools == before


async def ask_with_spark(client: Client) -> None:
    history = (await answer(client, "history", table="clean"))["data"]
    newest, oldest = (history[place]["version"] for place in (0, -1))
    why = await answer(client, "why", table="clean", key=["1"])
    assert INSTRUCTION in str(why["data"])
    changes = await answer(client, "changes", table="clean", start=oldest, end=newest, limit=10**30)
    assert {row["id"]: row["note"] for row in changes["data"]} == {1: INSTRUCTION, 3: "c"}
    assert all(row["email"].startswith("masked:") for row in changes["data"])
    for name in filter(is_text, NAMES):
        await refuse(client, "why", table=name, key=["1"])
        await refuse(client, "changes", table=name, start=oldest, end=newest)
    for key in KEYS:
        await refuse(client, "why", table="clean", key=key)
    windows: tuple[dict[str, Any], ...] = ({"start": "x"}, {"start": "1", "end": "2"}, {"start": newest, "end": oldest})
    for window in (*windows, {"start": oldest, "limit": -3}, {"start": [1]}, {"start": oldest, "output": "/tmp/x"}):
        await refuse(client, "changes", table="clean", **{"end": newest, **window})
    assert (await answer(client, "status"))["data"][0]["rows"] == 3


def is_text(name: Any) -> bool:
    """Whether a client can send a name: not half a character, which is no text."""
    return bool(name != "\ud800")


async def answer(client: Client, tool: str, **arguments: Any) -> Mapping[str, Any]:
    """Returns the answer to a call; it says that it is data, and has no masked value."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    content: Mapping[str, Any] = result.structured_content
    assert content["notice"] == NOTICE
    assert f"ana-1{EMAIL}" not in str(result)
    assert INSTRUCTION not in str({name: part for name, part in content.items() if name not in ("data", "lines")})
    return content


async def refuse(client: Client, tool: str, **arguments: Any) -> None:
    """Makes a call that is an error which says what is wrong, in a few words."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, arguments)
    message = result.structured_content["error"]["message"]
    assert message
    assert "unexpected" not in message, (tool, arguments)
    assert len(str(result.structured_content)) < 20_000
