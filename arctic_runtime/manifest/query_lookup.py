"""The relations that queries over a project may name, with the masks of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.manifest.project_graph import ProjectNode
from arctic_runtime.model.masking import ALL_COLUMNS
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.masks import build_mask
from arctic_runtime.query.relations import RelationLookup


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
