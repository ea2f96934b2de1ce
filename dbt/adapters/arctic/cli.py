"""The command `arctic`, which shows, checks and maintains the tables that dbt builds.

Exit codes: 0 done, 1 a difference or failure in the data, 2 wrong use.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import ArcticError, CatalogError, ConfigError
from arctic_runtime.manifest.profile_file import DEFAULT_FILE
from arctic_runtime.operations.operation import Answer, Argument, FindCounterparts, Operation
from arctic_runtime.spark.engine.messages import get_message
from arctic_runtime.spark.engine.spark_loss import is_of_spark, to_spark_ended
from dbt.adapters.arctic.command_line import COMMANDS, create_parser
from dbt.adapters.arctic.commands import exported_rows

if TYPE_CHECKING:
    from dbt.adapters.arctic.project.project_tables import CompiledProject

WITH_MANIFEST = ("run",)
"""Commands of `OTHERS` that also work on a manifest without dbt, as all operations do."""

OTHERS = ("sql", "audit", "adopt", "ingest", "run", "serve", "mcp", "apply", "schema", "spark")
"""Commands that are not operations on tables: each is a module of `commands`, imported when it is called."""

DONE, DIFFERENT, WRONG_USE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command, by default from the arguments of this process; returns its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = build_parser([name for name in given[:1] if name in COMMANDS] or None).parse_args(given)
    try:
        answer = _perform_command(options)
    except (ConfigError, CatalogError) as error:
        print(f"arctic {options.command}: {error}", file=sys.stderr)
        return WRONG_USE
    except ArcticError as error:
        print(f"arctic {options.command}: {error}", file=sys.stderr)
        return DIFFERENT
    except Exception as error:
        ended = to_spark_ended(error)
        if ended is None and not is_of_spark(error):
            raise
        print(f"arctic {options.command}: {ended or get_message(error)}", file=sys.stderr)
        return DIFFERENT
    if answer.data is not None:
        print(json.dumps(answer.data, indent=2, default=str) if options.json else "\n".join(answer.lines))
    return DIFFERENT if answer.differs else DONE


def _perform_command(options: argparse.Namespace) -> Answer:
    if getattr(options, "manifest", None) is not None and options.target is not None:
        raise ConfigError("--target means nothing with --manifest, which dbt has compiled for one.", fix="leave it out")
    if options.command in OTHERS:
        answer: Answer = _import_command(options.command).perform_command(options)
        return answer
    return _perform_operation(_get_operation(options.command), options)


def _import_command(name: str) -> Any:
    return importlib.import_module(f"dbt.adapters.arctic.commands.{name}")


def _get_operation(name: str) -> Operation:
    # Imported here, since it loads the code of all operations, which the other commands need not.
    from arctic_runtime.operations.registry import get_operation

    return get_operation(name)


def _perform_operation(operation: Operation, options: argparse.Namespace) -> Answer:
    from dbt.adapters.arctic.project.operation_project import open_operation, open_session

    row_format = exported_rows.choose_format(options)
    values = operation.read_values(
        {argument.name: getattr(options, argument.name) for argument in operation.arguments}, flags=True
    )
    is_quiet = options.json or row_format is not None
    loaded = _load_project(operation, options)
    session = functools.cache(functools.partial(open_session, loaded.profile))
    project, context = open_operation(operation, loaded, session, _build_counterparts(loaded, options))
    context = replace(context, progress=_ignore_progress if is_quiet else _print_line)
    models = [project.get_model(options.model)] if operation.tables == "one" else project.select_models(options.models)
    if row_format is not None and operation.export is not None:
        operation.check_keys(models)
        exported_rows.write_rows(operation.export(context, models[0], values), row_format, options.output)
        return Answer(None, ())
    return operation.run_operation(context, models, values, plan=_is_planned(operation, options))


def _load_project(operation: Operation, options: argparse.Namespace) -> CompiledProject:
    if options.manifest is not None:
        from dbt.adapters.arctic.project.manifest_tables import load_manifest_tables

        return load_manifest_tables(options.manifest, options.profile)
    location = options.project_dir, options.profiles_dir, options.target
    if operation.is_read_without_queries:
        from dbt.adapters.arctic.project.cache.known_project import load_known_project

        return load_known_project(*location)
    from dbt.adapters.arctic.project.compiled_project import load_project

    return load_project(*location)


def _build_counterparts(project: CompiledProject, options: argparse.Namespace) -> FindCounterparts:
    """Builds the function that finds the tables of the same models in another environment."""
    if options.manifest is not None:
        from dbt.adapters.arctic.project.manifest_tables import find_manifest_counterparts

        return functools.partial(find_manifest_counterparts, project, options.profile)
    from dbt.adapters.arctic.project.operation_project import find_counterparts

    return functools.partial(find_counterparts, project, options.project_dir, options.profiles_dir)


def _is_planned(operation: Operation, options: argparse.Namespace) -> bool:
    """Whether to show only a plan: if the user asked for one, or if a required confirmation is missing."""
    if operation.plan is None:
        return False
    return bool(options.plan) or (operation.needs_confirmation and not options.yes)


def _print_line(line: str) -> None:
    print(line, flush=True)


def _ignore_progress(_: str) -> None:
    """Ignores progress, so that the output contains only the answer."""


def build_parser(names: Collection[str] | None = None) -> argparse.ArgumentParser:
    """Builds the parser of the commands `names`, by default of all: one per operation, and one for each of `OTHERS`."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--project-dir", type=Path, default=Path(), help="where dbt_project.yml is (default: here)")
    shared.add_argument("--profiles-dir", type=Path, default=None, help="where profiles.yml is, as for dbt")
    shared.add_argument("--target", default=None, help="the profile's target, as for dbt")
    shared.add_argument("--json", action="store_true", help="answer in JSON")
    parser, commands = create_parser()
    for name, text in COMMANDS.items():
        if names is None or name in names:
            command = commands.add_parser(name, help=text, description=text, parents=[shared])
            if name in WITH_MANIFEST or name not in OTHERS:
                _add_manifest_arguments(command)
            if name in OTHERS:
                _import_command(name).add_arguments(command)
            else:
                _add_arguments(command, _get_operation(name))
    return parser


def _add_manifest_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--manifest", type=Path, metavar="FILE", help="work on this manifest.json of any adapter, without dbt"
    )
    command.add_argument(
        "--profile",
        type=Path,
        default=DEFAULT_FILE,
        metavar="FILE",
        help=f"with --manifest: the file with the keys of a target (default: {DEFAULT_FILE})",
    )


def list_command_names() -> tuple[str, ...]:
    """Returns the names of all commands, in the order of the help."""
    return tuple(COMMANDS)


def _add_arguments(command: argparse.ArgumentParser, operation: Operation) -> None:
    groups: dict[str, Any] = {}
    if operation.tables == "one":
        command.add_argument("model", metavar="MODEL")
    elif operation.tables == "any":
        command.add_argument(
            "models", nargs="*", metavar="MODEL", help=operation.tables_help or "all where none is named"
        )
    else:
        groups["models"] = command.add_mutually_exclusive_group(required=True)
        groups["models"].add_argument("models", nargs="*", default=[], metavar="MODEL", help=operation.tables_help)
    for argument in operation.arguments:
        group = argument.exclusive_group
        if group and group not in groups:
            groups[group] = command.add_mutually_exclusive_group()
        _add_argument(groups.get(group, command), argument)
    if operation.export is not None:
        exported_rows.add_arguments(command)
    if operation.needs_confirmation:
        command.add_argument("--yes", action="store_true", help="do it; without, say what would go")
    if operation.plan is not None:
        command.add_argument("--plan", action="store_true", help="only show what would be done, and why")


def _add_argument(place: Any, argument: Argument) -> None:
    """Adds an operation's argument to a parser or an argument group."""
    options: dict[str, Any] = {"help": argument.help}
    if argument.json_type == "boolean":
        options |= {"action": "store_true"}
    else:
        options |= {"metavar": argument.metavar or None, "choices": argument.choices or None}
        options |= {"default": argument.default, **_TYPES.get(argument.json_type, {})}
    if argument.is_positional:
        place.add_argument(argument.name, **options)
    else:
        required = {"required": True} if argument.is_required else {}
        place.add_argument(argument.flag, dest=argument.name, **required, **options)


_TYPES: dict[str, dict[str, Any]] = {"integer": {"type": int}, "array": {"nargs": "+"}, "object": {"action": "append"}}
"""Options of argparse for an argument, by the argument's JSON type; arguments of other types are text."""
