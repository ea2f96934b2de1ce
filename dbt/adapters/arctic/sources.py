"""The sources of a dbt project that are ingested, and their tables as models that operations take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.source import DeclaredTable, IngestSource, read_source
from arctic_runtime.model.ingestion import ChangeSource
from arctic_runtime.model.key import key_names
from arctic_runtime.model.properties import PRIMARY_KEY
from arctic_runtime.model.table import Model


def ingest_sources(manifest: Any) -> tuple[IngestSource, ...]:
    """The sources with `meta.arctic.ingest`, by name; raises ConfigError where one can't be used."""
    declared: dict[str, list[DeclaredTable]] = {}
    settings: dict[str, Mapping[str, Any]] = {}
    for node in sorted(manifest.sources.values(), key=lambda node: str(node.unique_id)):
        of_source = _arctic(node.source_meta)
        if "ingest" not in of_source:
            continue
        settings[node.source_name] = of_source["ingest"]
        declared.setdefault(node.source_name, []).append(_declared(node))
    return tuple(read_source(name, settings[name], tables) for name, tables in sorted(declared.items()))


def _declared(node: Any) -> DeclaredTable:
    """A table of a source. dbt gives tables without a `meta.arctic` of their own that of the source."""
    own = {key: value for key, value in _arctic(node.meta).items() if key != "ingest"}
    columns = tuple((column.name, str(column.data_type)) for column in node.columns.values() if column.data_type)
    return DeclaredTable(node.name, node.identifier, node.schema, node.database, own, columns)


def _arctic(meta: Any) -> Mapping[str, Any]:
    found = (meta or {}).get("arctic")
    return found if isinstance(found, Mapping) else {}


def ingested_models(sources: Iterable[IngestSource], reader: CatalogReader) -> tuple[Model, ...]:
    """The tables of sources that are in the catalog, each with the primary key that its change table has."""
    tables = [(source, table) for source in sources for table in source.tables]
    there = {schema: set(reader.list_relations(schema)) for schema in {table.table.schema for _, table in tables}}
    found = []
    for source, table in tables:
        changes = table.table.changes
        if changes.name in there[changes.schema]:
            properties = reader.load_table(changes.schema, changes.name).properties
            model = table.model(key_names(properties.get(PRIMARY_KEY, "")))
            found.append(replace(model, source=ChangeSource(source.name, source.ledger)))
    return tuple(found)
