"""The project of `arctic mcp`: how often it is loaded for a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arctic_runtime.operations.operation import Operation, audit_nothing
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.service.agents.questions import SQL
from dbt.adapters.arctic.project import agent_project
from dbt.adapters.arctic.project.agent_project import AgentProject
from dbt.adapters.arctic.project.cache.inputs import ProjectRequest
from dbt.adapters.arctic.project.project_tables import CompiledProject
from tests.unit.service.http.test_warehouse import MODELS


@pytest.mark.parametrize(
    ("operation", "names", "arguments"),
    [
        (SQL, (), {"query": "select max(id) as id from dwd.plain"}),
        (get_operation("lookup"), ("dwd",), {"key": ["3"]}),
        (get_operation("history"), ("lake.dwd.dwd",), {}),
    ],
)
def test_a_question_loads_the_known_project_once(
    shop: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: Operation,
    names: tuple[str, ...],
    arguments: dict[str, Any],
) -> None:
    loads: list[Any] = []

    def load_project(*given: Any) -> CompiledProject:
        loads.append(given)
        return CompiledProject(shop[0].profile, MODELS)

    (tmp_path / "target").mkdir()
    monkeypatch.setattr(agent_project, "load_known_project", load_project)
    project = AgentProject(ProjectRequest(tmp_path, None, None))
    tables, answer = project.answer_operation(operation, names, arguments, plan=False, audit=audit_nothing)
    assert tables == tuple("lake.dwd.dwd" for _ in names)
    assert answer.data
    assert len(loads) == 1
