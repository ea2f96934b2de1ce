"""Registry of all kinds of catalogs, by the value of the catalog property `type`."""

from __future__ import annotations

from arctic_runtime.catalog_kinds.catalog_kind import CatalogKind, Properties
from arctic_runtime.catalog_kinds.jdbc import JDBC
from arctic_runtime.catalog_kinds.plain_kinds import CUSTOM, GLUE, HADOOP, HIVE, NESSIE, REST
from arctic_runtime.errors import ConfigError, suggest_nearest

CATALOG_KINDS = {kind.name: kind for kind in (REST, JDBC, HIVE, GLUE, HADOOP, NESSIE)}
"""Kinds of catalogs by the value of the property `type`; `CUSTOM`, which has no type, is not included."""


def get_catalog_kind(name: str | None) -> CatalogKind:
    """Returns the kind of catalog with the type `name`; raises ConfigError if there is none."""
    kind = CATALOG_KINDS.get(name or "")
    if kind is None:
        raise ConfigError(
            "The catalog's type is unknown.",
            where="catalog_config.type",
            expected=", ".join(CATALOG_KINDS),
            actual=repr(name),
            fix=f"choose one{suggest_nearest(name or '', CATALOG_KINDS)}, or write warehouse: for an embedded one",
        )
    return kind


def select_catalog_kind(properties: Properties) -> CatalogKind:
    """Returns the kind of catalog that the property `type` names, or `CUSTOM` without this property.

    Raises ConfigError if the type is unknown.
    """
    return get_catalog_kind(properties["type"]) if "type" in properties else CUSTOM
