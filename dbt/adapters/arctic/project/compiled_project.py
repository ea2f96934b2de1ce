"""Lets dbt parse and compile a project, and converts its nodes to models of the runtime."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.project_graph import ProjectGraph
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.plan.row_conditions import list_parts
from arctic_runtime.profile import Profile
from arctic_runtime.service.settings import ServeSettings, read_settings
from arctic_runtime.service.telemetry.configured import read_telemetry
from dbt.adapters.arctic.materialize import maintain, python_models
from dbt.adapters.arctic.materialize.readers import Readers
from dbt.adapters.arctic.materialize.row_conditions import RowConditions
from dbt.adapters.arctic.project.environments import list_manifest_nodes
from dbt.adapters.arctic.project.keys.missing_keys import check_keys, find_key_origins
from dbt.adapters.arctic.project.project_tables import CompiledProject
from dbt.adapters.arctic.project.sources import ingest_sources, list_landing_tables, map_source_tables
from dbt.adapters.arctic.project.target_folder import get_target_folder
from dbt.adapters.arctic.relations.relation import ArcticRelation


def load_project(
    project_dir: Path, profiles_dir: Path | None, target: str | None, manifest: Any = None
) -> CompiledProject:
    """Compiles a project as dbt does, without overwriting dbt's files about its last run.

    `manifest` is the result of `parse_manifest` for the project, which is parsed here if it is None. Raises ConfigError
    if dbt can't compile it, and for models without a primary key.
    """
    from dbt.cli.main import dbtRunner

    manifest = manifest or parse_manifest(project_dir, profiles_dir, target)
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-") as scratch:
        # Compilation gains nothing from threads, and they would need the modules of Spark from the start.
        command = ["compile", "--threads", "1", "--select", "config.materialized:arctic"]
        command += ["--no-write-json", "--target-path", scratch]
        outcome: Any = dbtRunner(manifest=manifest).invoke(
            [*_QUIET, *command, *_list_dbt_options(project_dir, profiles_dir, target)]
        )
    if not outcome.success:
        raise _build_failure(f"dbt could not compile the project in {project_dir.absolute()}.", outcome)
    nodes = [result.node for result in outcome.result if maintain.is_arctic(result.node)]
    check_keys(nodes, manifest.nodes.values())
    tables = map_source_tables(manifest.sources.values())
    origins = find_key_origins(nodes, manifest.nodes.values())
    tests = RowConditions(manifest)
    models = (
        replace(build_compiled_model(node, tests, tables), key_origin=origins.get(node.unique_id, "")) for node in nodes
    )
    in_order = tuple(sorted(list_parts(models), key=lambda model: model.table))
    return CompiledProject(
        _load_credentials_profile(project_dir, target),
        in_order,
        ingest_sources(manifest),
        list_landing_tables(manifest),
        graph=ProjectGraph(list_manifest_nodes(manifest)),
    )


def load_sources(project_dir: Path, profiles_dir: Path | None, target: str | None) -> CompiledProject:
    """Loads a project with its ingested sources only; its models are not compiled and left out.

    Raises ConfigError if dbt can't parse the project.
    """
    manifest = parse_manifest(project_dir, profiles_dir, target)
    readers = Readers(manifest.nodes.values(), manifest.sources.values())
    loaded = _load_target(project_dir, target)
    return CompiledProject(
        loaded.credentials.to_profile(project_dir),
        (),
        ingest_sources(manifest),
        readers=readers.list_readers,
        name=str(manifest.metadata.project_name),
        target=str(loaded.target_name),
        telemetry=read_telemetry(loaded.credentials.telemetry, project_dir, os.environ),
    )


# With usage statistics, dbt would write a file with a user's id next to the profile.
_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-send-anonymous-usage-stats")


def _list_dbt_options(project_dir: Path, profiles_dir: Path | None, target: str | None) -> list[str]:
    return [
        "--project-dir",
        str(project_dir),
        *_list_option("--profiles-dir", profiles_dir),
        *_list_option("--target", target),
        *_list_option("--partial-parse-file-path", _find_partial_parse(project_dir)),
    ]


def parse_manifest(project_dir: Path, profiles_dir: Path | None, target: str | None) -> Any:
    """Lets dbt parse a project, and returns its manifest; writes no file, since sources may contain secrets."""
    from dbt.cli.main import dbtRunner

    with tempfile.TemporaryDirectory(prefix="dbt-arctic-") as scratch:
        command = ["parse", "--no-write-json", "--target-path", scratch]
        outcome: Any = dbtRunner().invoke([*_QUIET, *command, *_list_dbt_options(project_dir, profiles_dir, target)])
    if not outcome.success:
        raise _build_failure(f"dbt could not parse the project in {project_dir.absolute()}.", outcome)
    return outcome.result


def build_relation(node: Any) -> ArcticRelation:
    """Returns the relation of a node of the manifest."""
    return ArcticRelation.create(database=node.database, schema=node.schema, identifier=node.alias)


def load_profile(project_dir: Path, profiles_dir: Path | None, target: str | None) -> Profile:
    """Loads the profile that dbt would use for a project, without parsing its models.

    Raises ConfigError if dbt can't load it.
    """
    profile: Profile = _load_credentials(project_dir, profiles_dir, target).to_profile(project_dir)
    return profile


def load_serve_settings(project_dir: Path, profiles_dir: Path | None, target: str | None) -> ServeSettings:
    """Loads the settings of a target for services and agents, without parsing models.

    Raises ConfigError if dbt can't load the target, and for invalid settings.
    """
    return read_settings(_load_credentials(project_dir, profiles_dir, target).serve)


def _load_credentials(project_dir: Path, profiles_dir: Path | None, target: str | None) -> Any:
    from dbt.cli.flags import Flags
    from dbt.cli.types import Command
    from dbt.flags import set_flags
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    flags = {"project_dir": str(project_dir), **({"profiles_dir": str(profiles_dir)} if profiles_dir else {})}
    set_flags(Flags.from_dict(Command.PARSE, flags))
    set_invocation_context(os.environ)
    try:
        return _load_target(project_dir, target).credentials
    except DbtBaseException as error:
        raise ConfigError(str(error), fix=_find_advice(str(error))) from error


def _find_partial_parse(project_dir: Path) -> Path | None:
    """Returns the file in which dbt caches the parsed project; None if it does not exist."""
    file = get_target_folder(project_dir) / "partial_parse.msgpack"
    return file if file.is_file() else None


def _list_option(option: str, value: object | None) -> list[str]:
    return [] if value is None else [option, str(value)]


_UNSET = re.compile(r"Env var required but not provided: '([^']+)'")


def _find_advice(message: str) -> str | None:
    """Returns advice if a message of dbt is about an environment variable that is not set; else None."""
    unset = _UNSET.search(message)
    if unset is None:
        return None
    return f"set the environment variable {unset[1]} for this process, or give it a default: env_var('{unset[1]}', '…')"


def _build_failure(what: str, outcome: Any) -> ConfigError:
    """Builds the error for a dbt command that failed; `what` is its first line, `outcome` dbt's result.

    Raises KeyboardInterrupt if dbt was interrupted, which it returns like an error.
    """
    if isinstance(outcome.exception, KeyboardInterrupt):
        raise outcome.exception
    if outcome.exception is not None:
        message = str(outcome.exception)
        return ConfigError(what, actual=message, fix=_find_advice(message))
    failed = [result for result in outcome.result or () if str(result.status) == "error"]
    return ConfigError(what, actual="; ".join(f"{result.node.name}: {result.message}" for result in failed))


def build_compiled_model(node: Any, tests: RowConditions, sources: Mapping[TableName, bool] | None = None) -> Model:
    """Converts a node that dbt has compiled to a model of the runtime; `tests` and `sources` are as in `to_model`."""
    is_python = node.language == "python"
    sql = python_models.write_view_query(python_models.name_view(node.alias)) if is_python else node.compiled_code
    return maintain.to_model(build_relation(node), node.to_dict(omit_none=True), sql, sources, tests)


def _load_credentials_profile(project_dir: Path, target: str | None) -> Profile:
    profile: Profile = _load_target(project_dir, target).credentials.to_profile(project_dir)
    return profile


def _load_target(project_dir: Path, target: str | None) -> Any:
    """Returns dbt's profile, which has the credentials and the name of its target."""
    from dbt.config.runtime import load_profile

    return load_profile(str(project_dir), {}, None, target)
