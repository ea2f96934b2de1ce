"""The command `arctic completion`: prints the script by which a shell completes commands, options and names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from arctic_runtime.operations.operation import Answer
from dbt.adapters.arctic.project.cache.known_names import MODELS, SOURCES

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def perform_command(options: argparse.Namespace) -> Answer:
    """Returns the script for `options.shell`, made from the parsers of all commands."""
    import shtab

    from dbt.adapters.arctic.cli import build_parser

    parser = build_parser()
    completed = {
        "MODEL": _complete_names(MODELS),
        "SOURCE": _complete_names(SOURCES),
        "FILE": shtab.FILE,
        "DIR": shtab.DIRECTORY,
    }
    for action in _list_actions(parser):
        if action.metavar in completed:
            # The attribute by which shtab knows how a value is completed.
            action.complete = completed[action.metavar]  # type: ignore[attr-defined, index]
    script = shtab.complete(parser, options.shell)
    return Answer(script, (script,))


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of a parser and of all its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _list_actions(command)


def _complete_names(kind: str) -> Mapping[str, Any]:
    """Returns how each shell completes names: by `arctic completion KIND`, which `command_line` answers at once."""
    function, line = f"_arctic_{kind}", f"arctic completion {kind}"
    return {
        "bash": function,
        "zsh": function,
        "tcsh": f"`{line}`",
        "preamble": {
            "bash": f'{function}() {{\n  compgen -W "$({line} 2>/dev/null)" -- "$1"\n}}',
            "zsh": f'{function}() {{\n  compadd -- ${{(f)"$({line} 2>/dev/null)"}}\n}}',
        },
    }
