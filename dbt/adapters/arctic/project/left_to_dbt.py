"""Determines the parts of a project that still need `dbt run` while the service refreshes its arctic models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from dbt.adapters.arctic.materialize.maintain import get_node_table, is_arctic
from dbt.adapters.arctic.project.loaded_project import LoadedProject

_TABLES = ("table", "incremental", "snapshot", "materialized_view")
"""Materializations whose tables change only when dbt runs their models."""


def list_parts_run_by_dbt(project: LoadedProject, reader: CatalogReader) -> Iterator[str]:
    """Yields a line for the user about each part: run hooks, tables of other materializations, missing views."""
    if any(set(node.tags) & {"on-run-start", "on-run-end"} for node in project.manifest.nodes.values()):
        yield "on-run-start and on-run-end hooks are left to `dbt run`"
    upstream = list(_walk_upstream(project))
    for node in sorted(_list_tables(project, upstream), key=lambda node: str(node.unique_id)):
        yield (
            f"{get_node_table(node)} is read as it is: {node.config.materialized} models are refreshed by "
            f"`dbt run --select {node.name}`"
        )
    views = {get_node_table(node) for node in upstream if node.config.materialized == "view"}
    for view in sorted(name for name in views if reader.describe_relation(name.schema, name.name) is None):
        yield f"the view {view} does not exist, and `dbt run --select {view.name}` creates it"


def _list_tables(project: LoadedProject, upstream: list[Any]) -> list[Any]:
    """Selects the upstream nodes with tables that neither refreshes nor schedules of the service keep up to date."""
    return [
        node for node in upstream if node.unique_id not in project.scheduled and node.config.materialized in _TABLES
    ]


def _walk_upstream(project: LoadedProject) -> Iterator[Any]:
    """Yields once each node that the project's arctic models read, directly or through views.

    Arctic models and sources are left out.
    """
    waiting, seen = list(project.nodes.values()), set[str]()
    while waiting:
        for parent in project.walk_parents(waiting.pop()):
            is_source = str(parent.resource_type) == "source"
            if is_source or is_arctic(parent) or parent.unique_id in seen:
                continue
            seen.add(parent.unique_id)
            yield parent
            if parent.config.materialized == "view":
                waiting.append(parent)
