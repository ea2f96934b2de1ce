"""Answers queries over the tables of a project, by the names that dbt gives them, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.manifest.project_graph import ProjectNode
from arctic_runtime.model.masking import ALL_COLUMNS
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.masks import build_mask
from arctic_runtime.query.answer import QueryRows, answer_query
from arctic_runtime.query.engine import Limits
from arctic_runtime.query.relations import RelationLookup
from dbt.adapters.arctic.project.project_tables import CompiledProject


@contextmanager
def answer_project_query(
    project: CompiledProject, query: str, memory: str | None, limit: int | None
) -> Iterator[QueryRows]:
    """Runs a query in Spark's SQL by DuckDB; the rows can be read until the context ends.

    `memory` limits DuckDB, as it writes sizes, and `limit` the number of rows. Raises NotAnswered if Spark might answer
    otherwise, and ConfigError if the text is no query or names no table.
    """
    lookup, now = build_project_lookup(project), datetime.now(timezone.utc)
    with answer_query(query, lookup, Limits(memory, limit), now, lookup.is_utc) as rows:
        yield rows


def build_project_lookup(project: CompiledProject) -> RelationLookup:
    """Builds the lookup of a project's relations, as `build_lookup` does."""
    return build_lookup(CatalogReader(project.profile), project.graph.nodes, project.models)


def build_lookup(reader: CatalogReader, nodes: Iterable[ProjectNode], models: Iterable[Model]) -> RelationLookup:
    """Builds the lookup of the relations of nodes and of their arctic models, by the names that dbt gives them."""
    names: dict[str, TableName] = {}
    masks: dict[TableName, Mapping[str, bool]] = {}
    for node in nodes:
        kind, _, name = node.unique_id.split(".")[:3]
        if kind != "source":
            names |= {name: node.table, node.table.name: node.table}
        masks |= _mask_tables(node.table, node.masks)
    for model in models:
        names |= {relation.name: relation for relation in model.relations}
        masks |= dict.fromkeys(model.relations, model.masks)
        for part in model.parts:
            masks |= _mask_tables(part.table, part.masks)
    return RelationLookup(reader, reader.profile.catalog, names, masks, build_mask)


def _mask_tables(table: TableName, masks: Mapping[str, bool]) -> dict[TableName, Mapping[str, bool]]:
    """Maps a table, and the tables beside it, to masks of their columns.

    The state of its aggregates, and keys to forget, have its values under other names, so they are masked whole.
    """
    same = (table, table.base, table.changes, table.staging_name)
    hidden = {name: {ALL_COLUMNS: True} for name in (table.totals, table.forget_keys_name)}
    return {**dict.fromkeys(same, masks), **hidden}
