"""The JSON schema of sources: what dbt-arctic reads of their `meta.arctic`, and of that of their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from arctic_runtime.ingest.connectors import CONNECTORS
from arctic_runtime.ingest.source import CONNECTOR, INGEST_SETTINGS, TABLE_KEYS, TABLE_SETTINGS
from arctic_runtime.ingest.transports.connector import Connector
from arctic_runtime.plan.config.configuration import CONFIGURATION
from arctic_runtime.plan.config.value_reader import Schema
from dbt.adapters.arctic.schemas.parts import build_document, close_keys, describe_key, describe_keys

_NAMES: Final = [connector.name for connector in CONNECTORS]


def build_schema() -> dict[str, Any]:
    """Builds the schema; a source with `ingest` has other keys for its tables than one without."""
    is_ingested = {"anyOf": list(_at_arctic({"required": ["ingest"]}, required=True))}
    definitions = {
        "source": {
            "type": "object",
            "if": is_ingested,
            "then": _build_source("ingested_source", "ingested_table"),
            "else": _build_source("landing", "landing"),
        },
        "ingest": _build_ingest(),
        "ingested_table": close_keys(_describe_table()),
        "ingested_source": close_keys({**_describe_table(), "ingest": {"$ref": "#/$defs/ingest"}}),
        "landing": close_keys(_describe_keys_of_models(("retention",))),
        **{f"ingest_{connector.name}": _build_connector(connector) for connector in CONNECTORS},
    }
    sources = {"type": "array", "items": {"$ref": "#/$defs/source"}}
    return build_document("Sources of dbt-arctic", {"properties": {"sources": sources}}, definitions)


def _at_arctic(schema: Schema, required: bool = False) -> tuple[Schema, Schema]:
    """Returns the schemas of a source or table whose `meta.arctic`, or `config.meta.arctic`, has the given schema."""

    def wrap(name: str, inner: Schema) -> Schema:
        return {"properties": {name: inner}, **({"required": [name], "type": "object"} if required else {})}

    meta = wrap("meta", wrap("arctic", schema))
    return meta, wrap("config", meta)


def _build_source(own: str, table: str) -> dict[str, Any]:
    tables = {"type": "array", "items": _place_arctic(table)}
    placed = _place_arctic(own)
    return {**placed, "properties": {**placed["properties"], "tables": tables}}


def _place_arctic(name: str) -> dict[str, Any]:
    meta, config = _at_arctic({"$ref": f"#/$defs/{name}"})
    return {"properties": {**meta["properties"], **config["properties"]}}


def _build_ingest() -> dict[str, Any]:
    chosen = [
        {
            "if": {"properties": {"connector": {"const": name}}, "required": ["connector"]},
            "then": {"$ref": f"#/$defs/ingest_{name}"},
        }
        for name in _NAMES
    ]
    return {"type": "object", "required": ["connector"], "properties": _describe_connector(), "allOf": chosen}


def _describe_connector() -> Mapping[str, Schema]:
    return {CONNECTOR.name: describe_key({"enum": _NAMES}, CONNECTOR.meaning)}


def _build_connector(connector: Connector) -> dict[str, Any]:
    own = describe_keys(connector.settings, allows_null=True)
    keys = {**_describe_connector(), **describe_keys(INGEST_SETTINGS), **own}
    return close_keys(keys, required=list(connector.required))


def _describe_table() -> dict[str, Schema]:
    return {**_describe_keys_of_models(TABLE_KEYS), **describe_keys(TABLE_SETTINGS, allows_null=True)}


def _describe_keys_of_models(names: tuple[str, ...]) -> dict[str, Schema]:
    return {
        key.name: describe_key(key.read.schema, key.meaning, key.default, allows_null=True)
        for key in CONFIGURATION
        if key.name in names
    }
