"""The command `arctic adopt`: makes incremental models and their tables arctic ones, without a copy of their rows."""

from __future__ import annotations

import argparse
import functools
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.operations.adoption import (
    list_candidates,
    perform_adoptions,
    plan_adoptions,
    undo_adoptions,
)
from arctic_runtime.operations.operation import Answer, OperationContext

if TYPE_CHECKING:
    from dbt.adapters.arctic.project.project_tables import CompiledProject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="MODEL", help="the models (default: all)")
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--yes", action="store_true", help="do it; without it, only show what would be done")
    doing.add_argument("--patch", action="store_true", help="only print the patch of model files, for `git apply`")
    doing.add_argument("--undo", action="store_true", help="give the tables of the named models back, as they were")


def perform_command(options: argparse.Namespace) -> Answer:
    """Adopts tables, gives them back, or says what would be done.

    Raises ConfigError if a named model has nothing to adopt or to undo.
    """
    from dbt.adapters.arctic.project.compiled_project import load_project, parse_manifest
    from dbt.adapters.arctic.project.incremental_models import write_adoption_patch

    if options.undo and not options.models:
        raise ConfigError("--undo needs the names of models.", fix="name the models whose tables are to be given back")
    manifest = parse_manifest(options.project_dir, options.profiles_dir, options.target)
    patch = write_adoption_patch(options.project_dir, manifest, options.models)
    if options.patch:
        return Answer({"patch": patch.diff}, (patch.diff.rstrip("\n"),) if patch.diff else ())
    project = load_project(options.project_dir, options.profiles_dir, options.target, manifest)
    incremental = {*patch.models, *patch.configured, *patch.keyless}
    models = project.select_models([name for name in options.models if name not in incremental])
    models = () if options.models and incremental.issuperset(options.models) else models
    context = _build_context(project, options)
    if options.undo:
        return undo_adoptions(context, models)
    candidates = list_candidates(context, models)
    missing = {*options.models} - incremental - {candidate.model.table.name for candidate in candidates}
    if missing:
        raise ConfigError(
            f"{', '.join(sorted(missing))}: there is nothing to adopt.",
            expected="a table of that name, which no arctic model has made",
            fix="run the model, which creates its table or follows its changes",
        )
    if options.yes:
        return perform_adoptions(context, candidates)
    planned = plan_adoptions(candidates)
    lines = (*patch.describe(), *planned.lines) or ("no incremental model, and no arctic model with another's table",)
    data = {"patch": patch.diff, "configured": patch.configured, "keyless": patch.keyless, "tables": planned.data}
    return Answer(data, lines, planned.differs)


def _build_context(project: CompiledProject, options: argparse.Namespace) -> OperationContext:
    from arctic_runtime.spark.engine.session import SparkEnvironment

    session = functools.cache(SparkEnvironment(project.profile).new_session)
    progress = (lambda _: None) if options.json else functools.partial(print, flush=True)
    return OperationContext(CatalogReader(project.profile), session, project.models, progress)
