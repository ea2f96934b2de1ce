"""Tools of agents: made from the registry, and what a call of one may say."""

from __future__ import annotations

from typing import Any, cast

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.registry import OPERATIONS, get_operation
from arctic_runtime.service.agents.questions import build_questions
from arctic_runtime.service.agents.tools import AgentTool, build_tools, get_tool
from arctic_runtime.service.http.access import get_needed_role
from tests.unit.service.agents.hostile import NAMES

QUESTIONS = build_questions(cast(Any, None))


def test_every_operation_that_reads_is_a_tool_and_no_other_unless_plans_are_allowed() -> None:
    reading = [operation.name for operation in OPERATIONS if not operation.changes]
    planned = [operation.name for operation in OPERATIONS if operation.changes and operation.plan is not None]
    assert list(build_tools(OPERATIONS, "read", False)) == reading
    tools = build_tools(OPERATIONS, "plan", False)
    assert {*tools} == {*reading, *planned}
    assert {name for name, tool in tools.items() if tool.is_plan} == {*planned}
    assert len(build_tools((*OPERATIONS, *QUESTIONS), "read", False)) >= 15


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_schema_of_a_tool_is_that_of_the_operation(operation: Any) -> None:
    schema = AgentTool(operation, takes_files=True).build_input_schema()
    own = {"table"} if operation.tables == "one" else {"tables"}
    assert {*schema["properties"]} == own | {argument.name for argument in operation.arguments}
    for argument in operation.arguments:
        described = schema["properties"][argument.name]
        assert (described["description"], described["type"]) == (argument.help, argument.json_type)
        assert (argument.name in schema["required"]) is argument.is_required
    assert schema["additionalProperties"] is False


def test_a_service_takes_no_arguments_that_are_files() -> None:
    properties = AgentTool(get_operation("diff")).build_input_schema()["properties"]
    assert {"state", "other_target"}.isdisjoint(properties)
    with pytest.raises(ConfigError, match="no argument 'state'"):
        AgentTool(get_operation("diff")).read_call({"state": "../prod"}, 10)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_tool_needs_the_role_of_its_route(operation: Any) -> None:
    is_question = not operation.needs_spark and not operation.changes
    route = get_needed_role("GET" if is_question else "POST", f"/api/operations/{operation.name}")
    assert operation.changes or AgentTool(operation).needed_role == route
    assert AgentTool(operation, is_plan=True).needed_role == "reader"


@pytest.mark.parametrize("name", [name for name in NAMES if not isinstance(name, str) or not name])
def test_a_name_that_is_no_text_is_refused_with_what_is_expected(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"takes one table[^$]*expected: a name"):
        AgentTool(get_operation("history")).read_call({"table": name}, 10)
    if name is not None and name != ["dwd"]:
        with pytest.raises(ConfigError, match=r"takes tables[^$]*expected: a list of names"):
            AgentTool(get_operation("status")).read_call({"tables": name}, 10)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"limit": -1}, "`limit` must be a whole number, 0 or more; found -1"),
        ({"limit": "all"}, "`limit` must be a whole number"),
        ({"limit": True}, "`limit` must be a whole number"),
        ({"limits": 3}, "did you mean 'limit'"),
    ],
)
def test_an_argument_that_cant_be_used_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AgentTool(get_operation("changes")).read_call({"table": "m", "start": "1", "end": "2", **given}, 10)


def test_an_argument_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="`key` has no value"):
        AgentTool(get_operation("lookup")).read_call({"table": "m"}, 10)


@pytest.mark.parametrize(("given", "expected"), [(10**40, 10), (3, 3), (None, 10)])
def test_a_limit_is_at_most_that_of_an_answer(given: Any, expected: int) -> None:
    call = {"table": "m", "start": "1", "end": "2", "limit": given}
    assert AgentTool(get_operation("changes")).read_call(call, 10)[1]["limit"] == expected


def test_a_tool_that_is_not_there_is_named_with_a_near_one_and_a_change_says_who_may_do_it() -> None:
    tools = build_tools(OPERATIONS, "read", False)
    with pytest.raises(ConfigError, match="did you mean 'status'"):
        get_tool(tools, "statsu", OPERATIONS)
    with pytest.raises(ConfigError, match=r"Agents may not reset[^$]*ask a person to run `arctic reset`"):
        get_tool(tools, "reset", OPERATIONS)
