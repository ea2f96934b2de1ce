"""Names of tables in OpenLineage: by where their files are, and by the catalog that knows them.

As OpenLineage's integration of Spark names Iceberg tables, so that the same table has the same name from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.registry import select_catalog_kind
from arctic_runtime.model.names import TableName

_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Schemes of Hadoop's clients, and the one that names the store."""


@dataclass(frozen=True)
class DatasetName:
    """A name in OpenLineage; the namespace tells which store or catalog it belongs to."""

    namespace: str
    name: str


def name_by_location(location: str) -> DatasetName:
    """The name of what is stored at a location, such as `s3://bucket/warehouse/ods/orders`."""
    url = urlsplit(location)
    if url.scheme in ("", "file"):
        return DatasetName("file", "/" + url.path.strip("/"))
    scheme = _SCHEMES.get(url.scheme, url.scheme)
    return DatasetName(f"{scheme}://{url.netloc}", url.path.strip("/") or "/")


def name_by_catalog(table: TableName, properties: Mapping[str, str]) -> DatasetName:
    """The name of a table in a catalog with these properties, without what may be secret in them."""
    return DatasetName(_build_catalog_namespace(properties) or table.catalog, f"{table.schema}.{table.name}")


def _build_catalog_namespace(properties: Mapping[str, str]) -> str:
    location = select_catalog_kind(properties).locate_catalog(properties)
    if not location:
        return ""
    name = name_by_location(location)
    return f"{name.namespace}:{name.name}" if name.namespace == "file" else _join_name(name)


def _join_name(name: DatasetName) -> str:
    return name.namespace if name.name == "/" else f"{name.namespace}/{name.name}"
