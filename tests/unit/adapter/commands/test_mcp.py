"""`arctic mcp` as a client starts it: a process that speaks over its standard streams, without Java."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from arctic_runtime.service.agents.answers import NOTICE
from dbt.adapters.arctic import cli
from tests.unit.service.agents.hostile import INSTRUCTION, NAMES

ROOT = Path(__file__).parents[4]
SECRET = "open-sesame-1"
FILES = {
    "dbt_project.yml": "{name: shop, version: '1.0', profile: shop}",
    "models/ods.sql": "{{ config(materialized='arctic', primary_key='id') }}"
    " select id, note from {{ source('dwd', 'plain') }}",
    "models/dwd.sql": "{{ config(materialized='arctic', primary_key='id', merge='on_read') }}"
    f" select id, note, '{SECRET}' as by from {{{{ ref('ods') }}}}",
    "models/models.yml": f"""
sources: [{{name: dwd, schema: dwd, tables: [{{name: plain}}]}}]
models:
  - name: dwd
    description: "{INSTRUCTION}"
    columns: [{{name: note, description: What was said, config: {{meta: {{mask: true}}}}}}]
""",
    "outside.txt": "nothing",
}


@dataclass(frozen=True)
class Project:
    """A project over the tables of a warehouse, in a folder of its own."""

    folder: Path

    def ask(self, talk: Callable[[Client], Awaitable[Any]], *options: str) -> Any:
        """Starts the command, and lets `talk` use a client of the SDK."""
        environment = {name: value for name, value in os.environ.items() if "JAVA" not in name}
        # A start of Java would fail: there is none at this place.
        environment |= {"PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "DBT_ENV_SECRET_NOTE": SECRET}
        arguments = ["-m", "dbt.adapters.arctic.command_line", "mcp", "--profiles-dir", ".", *options]
        started = StdioServerParameters(command=sys.executable, args=arguments, cwd=str(self.folder), env=environment)

        async def connect() -> Any:
            async with Client(started, read_timeout_seconds=120) as client:
                return await talk(client)

        return anyio.run(connect)

    @property
    def proposals(self) -> Path:
        return self.folder / "target" / "arctic_proposals"


@pytest.fixture(scope="module")
def project(shop: Any, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("project")
    target = {"type": "arctic", "schema": "dwd", "warehouse": str(shop[0].directory)}
    profiles = {"shop": {"target": "dev", "outputs": {"dev": target}}}
    for name, text in {**FILES, "profiles.yml": json.dumps(profiles)}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return Project(folder)


@pytest.mark.in_turn
def test_a_session_survives_hostile_calls_and_answers_what_can_be_answered_without_java(project: Project) -> None:
    async def talk(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) >= 15
        assert INSTRUCTION not in str(tools)
        for name in NAMES:
            if name == "\ud800":
                continue
            refused = await client.call_tool("history", {"table": name})
            assert refused.is_error, name
            assert refused.structured_content["error"]["message"]
        for state in ("..", "/etc", "../../..", str(Path.home()), "models/../..", "a\0b"):
            refused = await client.call_tool("preview", {"state": state})
            assert refused.is_error
            assert "outside of the project's folder" in refused.structured_content["error"]["message"], state
        assert (await client.call_tool("changes", {"table": "dwd", "start": "x", "end": "1", "limit": -3})).is_error
        assert (await client.call_tool("reset", {"table": "dwd"})).is_error

        questions: dict[str, Any] = {"status": {}, "tables": {}, "freshness": {}, "runs": {}, "preview": {}}
        questions |= {name: {"table": "dwd"} for name in ("history", "explain", "describe", "lineage")}
        for tool, arguments in questions.items():
            answer = await client.call_tool(tool, arguments)
            assert not answer.is_error, answer
            assert answer.structured_content["notice"] == NOTICE
            assert SECRET not in str(answer)
        described = (await client.call_tool("describe", {"table": "dwd"})).structured_content["data"]
        assert described["description"] == INSTRUCTION
        assert {column["name"]: column["is_masked"] for column in described["columns"]}["note"]
        row = (await client.call_tool("lookup", {"table": "dwd", "key": ["3"]})).structured_content["data"]["row"]
        assert row["note"].startswith("masked:")
        asked = await client.call_tool("sql", {"query": "select id, note from dwd__changes where id = 3"})
        assert asked.structured_content["data"] == [{"id": 3, "note": row["note"]}]
        for query in ("drop table dwd", "select * from read_csv('/etc/passwd')", "select 1; select 2", ""):
            assert (await client.call_tool("sql", {"query": query})).is_error, query
        page = await client.read_resource("arctic://docs/glossary")
        assert page.contents[0].text.startswith("# ")  # type: ignore[union-attr]
        no_spark = await client.call_tool("verify", {"tables": ["dwd"]})
        assert no_spark.is_error
        assert not (await client.call_tool("tables", {})).is_error

    audit = project.folder / "audit.jsonl"
    project.ask(talk, "--audit-file", str(audit))
    entries = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {entry["client"] for entry in entries} == {"stdio"}
    assert {"history", "preview", "describe", "verify", "reset"} <= {entry.get("tool") for entry in entries}
    assert ("verify", "answered") not in {(entry.get("tool"), entry.get("outcome")) for entry in entries}
    (read,) = [entry for entry in entries if "operation" in entry]
    assert (read["operation"], read["tables"]) == ("sql", ["lake.dwd.dwd__changes"])


@pytest.mark.in_turn
def test_a_proposed_plan_changes_nothing_and_is_carried_out_by_a_person_while_it_is_still_the_plan(
    project: Project, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk(client: Client) -> Any:
        return (await client.call_tool("compact", {"tables": ["ods"]})).structured_content["plan"]["id"]

    monkeypatch.setenv("DBT_ENV_SECRET_NOTE", SECRET)
    monkeypatch.chdir(project.folder)
    plan = project.ask(talk, "--allow", "plan")
    (file,) = project.proposals.glob("*.json")
    assert file.stem == plan
    assert cli.main(["apply", "--profiles-dir", "."]) == cli.DONE
    shown = capsys.readouterr().out
    assert f"{plan}: compact lake.dwd.ods" in shown
    file.write_text(json.dumps({**json.loads(file.read_text()), "digest": "that of other tables"}))
    assert cli.main(["apply", plan, "--profiles-dir", "."]) == cli.DIFFERENT
    assert "nothing was changed" in capsys.readouterr().err
    assert cli.main(["apply", "../outside", "--profiles-dir", "."]) == cli.WRONG_USE
    assert file.exists()
