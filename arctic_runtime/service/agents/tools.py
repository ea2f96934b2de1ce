"""Tools for agents: one for each operation that reads, and, if they may propose changes, for each that has a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.operations.operation import Argument, JsonType, Operation
from arctic_runtime.service.agents.settings import Allowed
from arctic_runtime.service.http_settings import Role

_TABLE_HELP: Final = "catalog and schema can be left out where it is the only one of its name"
_JSON_TYPES: Final[Mapping[JsonType, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "minimum": 0},
    "boolean": {"type": "boolean"},
    "array": {"type": "array", "items": {"type": "string"}},
    "object": {"type": "object", "additionalProperties": {"type": "string"}},
}
_PROPOSES: Final = (
    "Proposes a change and carries out nothing: answers with its plan, and with an id by which a person may apply it. "
    "The change: "
)


@dataclass(frozen=True)
class AgentTool:
    """An operation as a tool; with `is_plan` it only plans and proposes. `takes_files` allows arguments that are paths.

    Its texts are those of the operation, so that no text of a table or of a project is among them.
    """

    operation: Operation
    is_plan: bool = False
    takes_files: bool = False

    @property
    def name(self) -> str:
        return self.operation.name

    @property
    def description(self) -> str:
        return f"{_PROPOSES if self.is_plan else ''}{self.operation.description}"

    @property
    def needed_role(self) -> Role:
        """Role that a user of a service needs, as for the operation's route: what takes Spark is an operator's."""
        return "operator" if self.operation.needs_spark and not self.is_plan else "reader"

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The operation's arguments that agents may give."""
        return tuple(known for known in self.operation.arguments if self.takes_files or not known.is_local)

    def build_input_schema(self) -> dict[str, Any]:
        """Builds the JSON schema of a call."""
        properties: dict[str, Any] = {}
        required = [argument.name for argument in self.arguments if argument.is_required]
        if self.operation.tables == "one":
            properties["table"] = {"type": "string", "description": f"the table; {_TABLE_HELP}"}
            required.insert(0, "table")
        else:
            which = "none where `all` is set" if self.operation.tables == "named_or_all" else "all where none is given"
            text = f"the tables, {self.operation.tables_help or which}; {_TABLE_HELP}"
            properties["tables"] = {"type": "array", "items": {"type": "string"}, "description": text}
        properties |= {argument.name: _describe_argument(argument) for argument in self.arguments}
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def read_call(self, given: Mapping[str, Any], most_rows: int) -> tuple[list[str], dict[str, Any]]:
        """Returns the names of tables and the arguments of a call; `limit` is at most `most_rows`.

        Raises ConfigError for an argument that the tool does not have, or an invalid value.
        """
        own = "table" if self.operation.tables == "one" else "tables"
        arguments = {name: value for name, value in given.items() if name != own and value is not None}
        tables = self._read_tables(own, given.get(own))
        names = [argument.name for argument in self.arguments]
        limit = arguments.get("limit", most_rows)
        if "limit" in names and isinstance(limit, int) and not isinstance(limit, bool):
            arguments["limit"] = min(limit, most_rows)
        self.operation.read_values(arguments, names)
        return tables, arguments

    def _read_tables(self, own: str, value: Any) -> list[str]:
        if own == "table":
            if isinstance(value, str) and value.strip():
                return [value]
            raise ConfigError(f"{self.name} takes one table.", where="`table`", expected="a name", actual=repr(value))
        if value is None:
            value = []
        if not isinstance(value, list) or not all(isinstance(name, str) and name.strip() for name in value):
            expected = "a list of names"
            raise ConfigError(f"{self.name} takes tables.", where="`tables`", expected=expected, actual=repr(value))
        return value


def _describe_argument(argument: Argument) -> dict[str, Any]:
    described = {**_JSON_TYPES[argument.json_type], "description": argument.help}
    if argument.choices:
        described["enum"] = list(argument.choices)
    if argument.default is not None:
        described["default"] = argument.default
    return described


def build_tools(operations: Iterable[Operation], allow: Allowed, takes_files: bool) -> dict[str, AgentTool]:
    """Builds the tools of those operations that read, and with `allow: plan` of those that change and have a plan."""
    tools: list[AgentTool] = []
    for operation in operations:
        if not operation.changes:
            tools.append(AgentTool(operation, takes_files=takes_files))
        elif allow == "plan" and operation.plan is not None:
            tools.append(AgentTool(operation, is_plan=True, takes_files=takes_files))
    return {tool.name: tool for tool in tools}


def get_tool(tools: Mapping[str, AgentTool], name: str, operations: Sequence[Operation]) -> AgentTool:
    """Returns the tool `name`; raises ConfigError if there is none, and says so of changes that agents may not ask."""
    if name in tools:
        return tools[name]
    if any(operation.name == name for operation in operations):
        raise ConfigError(
            f"Agents may not {name}.",
            expected=f"one of {', '.join(tools)}",
            actual=f"{name}, which changes tables",
            fix=f"ask a person to run `arctic {name}`, or to allow proposals by `allow: plan`",
        )
    raise ConfigError(
        f"There is no tool {name!r}{suggest_nearest(name, tools)}.", expected=f"one of {', '.join(tools)}"
    )
