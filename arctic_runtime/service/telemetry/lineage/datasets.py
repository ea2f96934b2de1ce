"""Names of tables in OpenLineage: by the location of their files, and by the catalog that lists them.

The names equal those that OpenLineage's Spark integration gives to Iceberg tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from arctic_runtime.catalog_kinds.registry import select_catalog_kind
from arctic_runtime.model.names import TableName

_SCHEMES: Mapping[str, str] = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""URL schemes of Hadoop clients, with the scheme that OpenLineage uses for the same object store."""


_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(.*)", re.DOTALL)
"""Scheme, authority and path of a location; the path is plain text, in which `?` and `#` are parts of names."""


@dataclass(frozen=True)
class DatasetName:
    """A dataset's name in OpenLineage; the namespace identifies its store or catalog."""

    namespace: str
    name: str


def name_by_location(location: str) -> DatasetName:
    """Returns the dataset name for a storage location such as `s3://bucket/warehouse/ods/orders`."""
    scheme, authority, path = _LOCATION.fullmatch(location).groups("")  # type: ignore[union-attr]
    if scheme.lower() in ("", "file"):
        return DatasetName("file", "/" + path.strip("/"))
    return DatasetName(f"{_SCHEMES.get(scheme.lower(), scheme.lower())}://{authority}", path.strip("/") or "/")


def name_by_catalog(table: TableName, properties: Mapping[str, str]) -> DatasetName:
    """Returns the dataset name of a table in the catalog with these `properties`; the name contains no secrets."""
    return DatasetName(_build_catalog_namespace(properties) or table.catalog, f"{table.schema}.{table.name}")


def _build_catalog_namespace(properties: Mapping[str, str]) -> str:
    location = select_catalog_kind(properties).locate_catalog(properties)
    if not location:
        return ""
    name = name_by_location(location)
    return f"{name.namespace}:{name.name}" if name.namespace == "file" else _join_name(name)


def _join_name(name: DatasetName) -> str:
    return name.namespace if name.name == "/" else f"{name.namespace}/{name.name}"
