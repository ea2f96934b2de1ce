"""Opens a project for an operation: its tables, and the context in which the operation runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table_diff import Counterpart
from arctic_runtime.operations.operation import Audit, FindCounterparts, Operation, OperationContext
from arctic_runtime.operations.queries import QueryAnswer, answer_limited_query
from dbt.adapters.arctic.project.project_options import find_model_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.profile import Profile
    from dbt.adapters.arctic.project.project_tables import CompiledProject


def load_operation_project(
    operation: Operation, options: argparse.Namespace
) -> tuple[CompiledProject, FindCounterparts]:
    """Loads the project that the options of a command name, without dbt if they name its files.

    Also returns the function that finds the tables of its models in another environment. Raises ConfigError if the
    project can't be used.
    """
    files = find_model_files(options)
    if files is not None:
        from dbt.adapters.arctic.project.manifest_tables import find_manifest_counterparts, load_manifest_tables

        tables = load_manifest_tables(files, options.profile)
        return tables, partial(find_manifest_counterparts, tables, files, options.profile)
    location = options.project_dir, options.profiles_dir, options.target
    if operation.is_read_without_queries:
        from dbt.adapters.arctic.project.cache.known_project import load_known_project

        loaded = load_known_project(*location)
    else:
        from dbt.adapters.arctic.project.compiled_project import load_project

        loaded = load_project(*location)
    return loaded, partial(find_counterparts, loaded, options.project_dir, options.profiles_dir)


def open_operation(
    operation: Operation, loaded: CompiledProject, session: Callable[[], SparkSession], find: FindCounterparts
) -> tuple[CompiledProject, OperationContext]:
    """Returns a loaded project with all tables that an operation takes, and the context for it; reads the catalog."""
    reader = CatalogReader(loaded.profile)
    project = loaded.with_ingested(reader)
    if operation.takes_landing:
        project = project.with_landing()
    context = OperationContext(
        reader,
        session,
        project.models,
        find_counterparts=find,
        list_descendants=project.graph.list_descendants,
        answer_query=partial(_answer_query, loaded),
    )
    return project, context


def _answer_query(project: CompiledProject, query: str, limit: int | None, audit: Audit) -> QueryAnswer:
    from dbt.adapters.arctic.project.queries import build_project_lookup

    return answer_limited_query(query, build_project_lookup(project), limit, audit)


def open_session(profile: Profile) -> SparkSession:
    """Starts the Spark of a profile, or connects to it."""
    from arctic_runtime.spark.engine.session import SparkEnvironment

    return SparkEnvironment(profile).new_session()


def find_counterparts(
    project: CompiledProject, project_dir: Path, profiles_dir: Path | None, state: str | None, target: str | None
) -> Mapping[TableName, Counterpart]:
    """Maps the tables of a project to those of another environment, as `counterparts.find_counterparts` does."""
    from dbt.adapters.arctic.project import counterparts

    return counterparts.find_counterparts(project, project_dir, profiles_dir, state, target)
