"""Kinds of catalogs that pyiceberg opens with the same properties as Java, or can't open at all."""

from __future__ import annotations

from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.catalog_kind import (
    CatalogKind,
    Properties,
    build_shared_properties,
    locate_server,
)


def _locate_metastore(properties: Properties) -> str:
    return f"hive://{urlsplit(properties.get('uri', '')).netloc.rpartition('@')[2]}"


REST = CatalogKind(
    name="rest",
    required_keys=("uri",),
    build_pyiceberg_properties=build_shared_properties,
    lists_views=True,
    locate_catalog=locate_server,
)
HIVE = CatalogKind(
    name="hive",
    required_keys=("uri",),
    build_pyiceberg_properties=build_shared_properties,
    locate_catalog=_locate_metastore,
)
GLUE = CatalogKind(name="glue", build_pyiceberg_properties=build_shared_properties)
HADOOP = CatalogKind(name="hadoop", required_keys=("warehouse",))
NESSIE = CatalogKind(name="nessie", required_keys=("uri", "warehouse"), locate_catalog=locate_server)
CUSTOM = CatalogKind(name="")
"""A catalog without a `type`: its class is in `catalog-impl`, or a Spark Connect server has it configured."""
