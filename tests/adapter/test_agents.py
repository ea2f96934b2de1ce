"""Agents over a project with Spark: masked rows, and proposed plans, of which one that still holds is carried out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dbt.tests.util import run_dbt

from arctic_runtime.service.agents.desk import AgentDesk, Caller
from arctic_runtime.service.agents.proposals import FOLDER, ProposalStore
from arctic_runtime.service.agents.settings import AgentSettings
from dbt.adapters.arctic.cli import DIFFERENT, DONE, WRONG_USE, main
from dbt.adapters.arctic.project.agent_project import AgentProject
from dbt.adapters.arctic.project.cache.inputs import ProjectRequest

PEOPLE = """
{{ config(materialized='arctic', primary_key='id', compaction='off') }}
select id, concat('secret-', id) as email, {{ var('city') }} as city from (select explode(sequence(0, 9)) as id)
"""
MASKED = """
models:
  - name: people
    columns: [{name: email, config: {meta: {mask: true}}}]
"""


@pytest.mark.slow
class TestAgents:
    @pytest.fixture(scope="class")
    def models(self) -> dict[str, str]:
        return {"people.sql": PEOPLE, "people.yml": MASKED}

    @pytest.fixture(scope="class")
    def project_config_update(self) -> dict[str, Any]:
        return {"vars": {"city": "'Rome'"}}

    def open_desk(self, project: Any) -> AgentDesk:
        folder = Path(project.project_root)
        store = ProposalStore(folder / "target" / FOLDER, 600)
        request = ProjectRequest(folder, Path(project.profiles_dir), None)
        return AgentDesk(AgentProject(request), AgentSettings("plan"), store)

    def call(self, desk: AgentDesk, tool: str, **arguments: Any) -> Any:
        answer, is_error = desk.call_tool(tool, arguments, Caller("ana", lambda _: True, lambda _: None))
        assert not is_error, answer
        return answer

    def test_rows_are_masked_and_a_proposed_plan_is_carried_out_once_if_it_is_still_the_plan(
        self, project: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for city in ("'Oslo'", "concat('Bern', id)", "'Rome'"):
            run_dbt(["run", "--vars", json.dumps({"city": city})])
        desk = self.open_desk(project)
        history = self.call(desk, "history", table="people")["data"]
        versions = {"start": history[-1]["version"], "end": history[0]["version"]}
        changes = self.call(desk, "changes", table="people", limit=7, **versions)["data"]
        assert len(changes) == 7
        assert changes[0]["email"].startswith("masked:")
        assert "secret-" not in json.dumps(changes)
        assert changes[0]["_before"]["city"] == "Oslo"
        project.run_sql("update {database}.{schema}.people set email = 'secret-x' where id = 1")
        checked = self.call(desk, "verify", tables=["people"])
        assert checked["differs"]
        assert "secret-" not in json.dumps(checked)

        options = ["--project-dir", str(project.project_root), "--profiles-dir", str(project.profiles_dir)]
        old = self.call(desk, "restate", table="people", where="id < 4")["plan"]["id"]
        project.run_sql("update {database}.{schema}.people set email = 'secret-y' where id = 2")
        capsys.readouterr()
        assert main(["apply", old, *options]) == DIFFERENT
        assert "nothing was changed" in capsys.readouterr().err
        new = self.call(desk, "restate", table="people", where="id < 4")["plan"]["id"]
        assert main(["apply", new, *options]) == DONE
        assert main(["apply", new, *options]) == WRONG_USE
        rows = project.run_sql("select id from {database}.{schema}.people where email <> concat('secret-', id)", "all")
        assert rows == []
