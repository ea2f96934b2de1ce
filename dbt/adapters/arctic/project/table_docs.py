"""Describes tables as the project documents them: descriptions, masks of columns, and data tests with their results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.manifest.table_docs import RESULTS_FILE, build_last_test, read_test_results
from arctic_runtime.model.names import TableName
from arctic_runtime.service.project import LastDataTest, TableDocs
from dbt.adapters.arctic.materialize.maintain import get_node_table
from dbt.adapters.arctic.project.target_folder import get_target_folder


def describe_table(manifest: Any, project_dir: Path, table: TableName) -> TableDocs:
    """Returns the description of a table; empty for a table that the project does not know.

    Results of tests are those of dbt's last command in the project's target folder.
    """
    node = _find_node(manifest, table)
    if node is None:
        return TableDocs()
    return TableDocs(
        str(node.description or ""),
        str(getattr(node, "raw_code", "")),
        {str(name).lower(): str(column.description or "") for name, column in node.columns.items()},
        tuple(_list_tests(manifest, project_dir, str(node.unique_id))),
        read_masks(node),
    )


def _find_node(manifest: Any, table: TableName) -> Any:
    """Returns the model, seed, snapshot or source of a table; None if there is none."""
    kinds = ("model", "seed", "snapshot")
    for node in manifest.nodes.values():
        if str(node.resource_type) in kinds and _has_relation(node) and get_node_table(node) == table:
            return node
    for source in manifest.sources.values():
        if (str(source.database), str(source.schema), str(source.identifier)) == (
            table.catalog,
            table.schema,
            table.name,
        ):
            return source
    return None


def _has_relation(node: Any) -> bool:
    return bool(node.database and node.schema and not getattr(node, "is_ephemeral_model", False))


def _list_tests(manifest: Any, project_dir: Path, unique_id: str) -> Iterator[LastDataTest]:
    results = read_test_results(get_target_folder(project_dir) / RESULTS_FILE)
    for node in manifest.nodes.values():
        if str(node.resource_type) == "test" and unique_id in node.depends_on_nodes:
            yield build_last_test(str(node.name), results.get(str(node.unique_id)))
