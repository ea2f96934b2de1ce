"""The ingested sources of a dbt project, and their tables as models for operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from arctic_runtime.catalog.observation.tables import observe_key
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.ingest.database_kinds import DATABASE_KINDS
from arctic_runtime.ingest.source import (
    DeclaredTable,
    IngestedTable,
    IngestSource,
    SourceOrigin,
    name_dead_letter_table,
    read_source,
    read_table_schema,
)
from arctic_runtime.manifest.masks import read_masks
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import ChangeSource, Progress
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.plan.config.maintenance_settings import read_retention


def ingest_sources(manifest: Any) -> tuple[IngestSource, ...]:
    """Reads the sources with `meta.arctic.ingest`, sorted by name; raises ConfigError for unusable settings."""
    nodes = tuple(manifest.sources.values())
    settings = {node.source_name: _read_arctic_settings(node.source_meta).get("ingest") for node in nodes}
    return tuple(
        read_source(name, settings[name] or {}, tables) for name, tables in group_tables_by_source(nodes).items()
    )


def list_origins(nodes: Iterable[Any]) -> dict[TableName, SourceOrigin]:
    """Maps each declared table of an ingested source to its origin: name in the source, and dead letter table."""
    nodes = tuple(nodes)
    schemas = {node.source_name: read_table_schema(_read_ingest_settings(node)) for node in nodes}
    return {
        TableName(table.catalog, table.schema, table.identifier): SourceOrigin(
            name_dead_letter_table(name, tables), table.name_in_source(schemas[name])
        )
        for name, tables in group_tables_by_source(nodes).items()
        for table in tables
    }


def _read_ingest_settings(node: Any) -> Mapping[str, Any]:
    settings = _read_arctic_settings(node.source_meta).get("ingest")
    return settings if isinstance(settings, Mapping) else {}


def map_source_tables(nodes: Iterable[Any]) -> dict[TableName, bool]:
    """Maps the tables of all sources of a project to whether the project ingests them."""
    return {
        TableName(str(node.database), str(node.schema), str(node.identifier)): bool(_read_ingest_settings(node))
        for node in nodes
    }


def group_tables_by_source(nodes: Iterable[Any]) -> dict[str, list[DeclaredTable]]:
    """Maps the name of each ingested source to its declared tables, in an order that does not depend on dbt."""
    tables: dict[str, list[DeclaredTable]] = {}
    for node in sorted(nodes, key=lambda node: (node.source_name, str(node.unique_id))):
        if "ingest" in _read_arctic_settings(node.source_meta):
            tables.setdefault(node.source_name, []).append(_build_declared(node))
    return tables


def list_landing_tables(manifest: Any) -> tuple[Model, ...]:
    """Returns the tables with `meta.arctic.retention` in sources that are not ingested, as models.

    Raises ConfigError for invalid keys.
    """
    landing_models = []
    for node in sorted(manifest.sources.values(), key=lambda node: str(node.unique_id)):
        meta = _read_arctic_settings(node.meta)
        if "ingest" in _read_arctic_settings(node.source_meta) or not meta:
            continue
        for key in meta:
            if key != "retention":
                raise ConfigError(
                    f"source table {node.source_name}.{node.name}: unknown key `{key}` in `meta.arctic`"
                    f"{suggest_nearest(key, ('retention', 'ingest'))}; a table that is not ingested takes `retention`"
                )
        config = ModelConfig((), retention=read_retention("retention", meta["retention"]))
        landing_models.append(
            Model(TableName(node.database, node.schema, node.identifier), "", config, is_landing=True)
        )
    return tuple(landing_models)


def _read_progress(source: IngestSource, reader: CatalogReader) -> Progress:
    """Reads the stored progress of a source; an empty one if the source was never ingested."""
    dead_letter_table = source.dead_letter_table
    if dead_letter_table.name not in reader.list_relations(dead_letter_table.schema):
        return Progress()
    return Progress.decode(reader.load_table(dead_letter_table.schema, dead_letter_table.name).properties)


def _list_tables_with_keys(
    source: IngestSource, reader: CatalogReader
) -> Iterator[tuple[IngestedTable, tuple[str, ...]]]:
    """Yields the tables of a source that exist, or whose first load waits or is under way, with their keys.

    Besides the declared tables these are those that are ingested by `include`, also while they wait.
    """
    progress = _read_progress(source, reader)
    included = source.list_included_tables({*(progress.tables or ()), *progress.left, *progress.waits})
    for table in (*source.tables, *included):
        key = observe_key(reader, table.table)
        if key is not None or table.source_name in {*progress.waits, *progress.loading}:
            yield table, table.key if key is None else key


def _build_declared(node: Any) -> DeclaredTable:
    """Converts a source table's node; the key `ingest`, which dbt copies from the source, is left out of its `meta`."""
    own = {key: value for key, value in _read_arctic_settings(node.meta).items() if key != "ingest"}
    columns = tuple((column.name, str(column.data_type)) for column in node.columns.values() if column.data_type)
    return DeclaredTable(node.name, node.identifier, node.schema, node.database, own, columns, read_masks(node))


def _read_arctic_settings(meta: Any) -> Mapping[str, Any]:
    settings = (meta or {}).get("arctic")
    return settings if isinstance(settings, Mapping) else {}


def list_ingested_models(sources: Iterable[IngestSource], reader: CatalogReader) -> tuple[Model, ...]:
    """Returns the tables of sources as models, with the primary keys that the catalog stores.

    These are the tables that exist, and those whose first load waits or is under way.
    """
    keyed = [(source, table, key) for source in sources for table, key in _list_tables_with_keys(source, reader)]
    if not keyed:
        return ()
    # Imported here, since it is much code that a project without ingested sources does not need.
    from arctic_runtime.ingest.connectors import get_position_parser

    origins = {
        source.name: ChangeSource(
            source.name,
            source.dead_letter_table,
            source.trigger_seconds,
            source.connector in DATABASE_KINDS,
            get_position_parser(source.connector),
        )
        for source, _, _ in keyed
    }
    return tuple(replace(table.to_model(key), source=origins[source.name]) for source, table, key in keyed)
