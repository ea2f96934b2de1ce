"""Answers the calls of agents, over whichever transport: checks them, performs them, and writes the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from arctic_runtime.errors import ArcticError
from arctic_runtime.operations.operation import Answer, Audit, Operation
from arctic_runtime.operations.registry import OPERATIONS
from arctic_runtime.service.agents.answers import build_answer, build_error
from arctic_runtime.service.agents.proposals import ProposalStore, get_time
from arctic_runtime.service.agents.questions import build_questions, describe_details
from arctic_runtime.service.agents.settings import AgentSettings
from arctic_runtime.service.agents.tools import AgentTool, build_tools, get_tool
from arctic_runtime.service.http_settings import Role
from arctic_runtime.service.view.table_details import TableDetails


class AgentWarehouse(Protocol):
    """What answers the questions of agents: a project that this process has loaded, or a service.

    Values of masked columns are hashes in all answers. All methods may block, and may be called by any thread.
    """

    @property
    def questions(self) -> Sequence[Operation]:
        """Questions that only this kind of warehouse can answer."""

    @property
    def takes_files(self) -> bool:
        """Whether arguments may be paths below the project's folder."""

    def answer_operation(
        self, operation: Operation, names: Sequence[str], arguments: Mapping[str, Any], plan: bool, audit: Audit
    ) -> tuple[tuple[str, ...], Answer]:
        """Performs an operation, or plans it; returns the full names of the tables of `names`, and the answer.

        Raises ConfigError for an unknown name, and the same errors as `Operation.run_operation`.
        """

    def describe_table(self, table: str) -> TableDetails:
        """Returns the query, the columns and the tests of a table; raises ConfigError for an unknown one."""


@dataclass(frozen=True)
class Caller:
    """Who calls: a name, the roles that the caller may act as, and the audit log of the calls."""

    name: str
    may_act_as: Callable[[Role], bool]
    audit: Audit


class AgentDesk:
    """The tools of a warehouse. `proposals` keeps the plans that agents propose."""

    def __init__(self, warehouse: AgentWarehouse, settings: AgentSettings, proposals: ProposalStore) -> None:
        self.warehouse = warehouse
        self._settings = settings
        self._proposals = proposals
        operations = (*OPERATIONS, *build_questions(warehouse.describe_table), *warehouse.questions)
        self._tools = build_tools(operations, settings.allow, warehouse.takes_files)

    def list_tools(self, caller: Caller) -> list[AgentTool]:
        """Lists the tools that the caller may call."""
        return [tool for tool in self._tools.values() if caller.may_act_as(tool.needed_role)]

    def call_tool(self, name: str, given: Mapping[str, Any], caller: Caller) -> tuple[dict[str, Any], bool]:
        """Performs a call; returns the answer, and whether it is an error. Each call is in the audit log."""
        arguments = sorted(key[:100] for key in given)[:100]
        entry = {"tool": name[:100], "tables": _list_names(given), "arguments": arguments}
        try:
            answer = self._perform_call(get_tool(self._tools, name, OPERATIONS), given, caller)
        except Exception as error:
            refused = build_error(error)
            caller.audit({**entry, "outcome": type(error).__name__})
            return refused, True
        caller.audit({**entry, "outcome": "answered", **({"plan": answer["plan"]["id"]} if "plan" in answer else {})})
        return answer, False

    def describe_table(self, table: str, caller: Caller) -> dict[str, Any]:
        """Returns the details of a table, as an answer; the reading is in the audit log. Raises ArcticError."""
        caller.audit({"resource": "table", "tables": [table[:300]]})
        return build_answer(describe_details(self.warehouse.describe_table(table)), self._settings)

    def _perform_call(self, tool: AgentTool, given: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        if not caller.may_act_as(tool.needed_role):
            raise ArcticError(
                f"{caller.name} may not {tool.name}.",
                expected=f"the role {tool.needed_role}",
                fix="ask somebody with that role, or for it",
            )
        names, arguments = tool.read_call(given, self._settings.rows)
        tables, answer = self.warehouse.answer_operation(tool.operation, names, arguments, tool.is_plan, caller.audit)
        if not tool.is_plan:
            return build_answer(answer, self._settings)
        plan = self._proposals.add_proposal(tool.name, tables, arguments, answer, caller.name, get_time())
        how = {"id": plan.id, "expires_at": plan.expires_at, "apply": f"a person runs `arctic apply {plan.id}`"}
        return build_answer(answer, self._settings, {"plan": how})


def _list_names(given: Mapping[str, Any]) -> list[str]:
    """Lists the names of tables in a call, whatever else was sent in their place."""
    named = given.get("tables", [given.get("table")])
    return [name[:300] for name in named if isinstance(name, str)][:100] if isinstance(named, list) else []
