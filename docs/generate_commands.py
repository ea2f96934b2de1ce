"""The table of commands in docs/commands.md, as the command line declares them, and their examples."""

from __future__ import annotations

from arctic_runtime.operations.operation import Operation
from arctic_runtime.operations.registry import OPERATIONS
from dbt.adapters.arctic.cli import OTHERS
from dbt.adapters.arctic.command_examples import EXAMPLES
from dbt.adapters.arctic.command_line import COMMANDS

_PAGES = {
    "sql": "commands.md#questions-in-sql",
    "audit": "audit.md",
    "adopt": "adopting.md#adopt-tables-in-place",
    "ingest": "ingestion.md",
    "run": "live.md",
    "serve": "service.md",
    "mcp": "agents.md",
    "apply": "agents.md#proposals",
    "schema": "configuration.md#in-an-editor",
    "spark": "cluster.md",
    "completion": "commands.md#completion-in-a-shell",
}
"""Pages about the commands that are no operation on a table."""


def describe_commands() -> str:
    """The table, in Markdown."""
    lines = [_describe_operation(operation) for operation in sorted(OPERATIONS, key=_get_name)]
    lines += [f"| `arctic {name}` | {COMMANDS[name]} | see [its page]({_PAGES[name]}) | |" for name in OTHERS]
    return "\n".join(["| command | what it does | arguments | macro |", "|---|---|---|---|", *lines])


def describe_examples() -> str:
    """The lines that the help of each command shows, as a block of Markdown."""
    return "\n".join(["```sh", *(line for name in COMMANDS for line in EXAMPLES[name]), "```"])


def _get_name(operation: Operation) -> str:
    return operation.name


def _describe_operation(operation: Operation) -> str:
    flags = ["MODEL" if operation.tables == "one" else "MODEL …"]
    flags += [argument.flag for argument in operation.arguments]
    flags += ["--format", "--output"] * (operation.export is not None)
    flags += ["--yes"] * operation.needs_confirmation + ["--plan"] * (operation.plan is not None)
    cells = [f"`arctic {operation.name}`", operation.description, ", ".join(f"`{flag}`" for flag in flags)]
    return f"| {' | '.join([*cells, _describe_macro(operation)])} |".replace("|  |", "| |")


def _describe_macro(operation: Operation) -> str:
    if operation.macro_arguments is None:
        return ""
    return f"`arctic_{operation.name}({', '.join(['model', *operation.macro_arguments])})`"
