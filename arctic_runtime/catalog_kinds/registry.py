"""Registry of all kinds of catalogs, by the value of the catalog property `type`.

Kinds that pyiceberg opens with the same properties as Java, or can't open at all, are defined here.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.catalog_kinds.catalog_kind import (
    CatalogKind,
    Properties,
    build_shared_properties,
    get_public_server_url,
)
from arctic_runtime.catalog_kinds.jdbc import JDBC
from arctic_runtime.errors import ConfigError, suggest_nearest


def _locate_metastore(properties: Properties) -> str:
    return f"hive://{urlsplit(properties.get('uri', '')).netloc.rpartition('@')[2]}"


_VIEW_ENDPOINT = "/namespaces/{namespace}/views/{view}"
_TRANSACTION_ENDPOINT = "/transactions/commit"


def _read_endpoints(catalog: Any) -> Capabilities:
    """Reads from a REST server's list of endpoints whether it has views and transactions over several tables."""
    endpoints = getattr(catalog, "_supported_endpoints", None)
    if endpoints is None:
        return Capabilities()
    paths = {str(endpoint) for endpoint in endpoints}
    return Capabilities(
        views=any(path.endswith(_VIEW_ENDPOINT) for path in paths),
        table_transactions=any(path.endswith(_TRANSACTION_ENDPOINT) for path in paths),
    )


_WITHOUT_VIEWS = Capabilities(
    branches=True,
    views=False,
    staged_creation=True,
    format_version_3=True,
    table_transactions=False,
    conditional_writes=True,
)

REST = CatalogKind(
    name="rest",
    required_keys=("uri",),
    build_pyiceberg_properties=build_shared_properties,
    lists_views=True,
    pointers="rest_api",
    is_server=True,
    locate_catalog=get_public_server_url,
    read_stated_capabilities=_read_endpoints,
    may_give_credentials=True,
    chooses_file_io=True,
)
HIVE = CatalogKind(
    name="hive",
    required_keys=("uri",),
    build_pyiceberg_properties=build_shared_properties,
    pointers="hive_metastore",
    locate_catalog=_locate_metastore,
    is_thread_safe=False,
    client_errors=("thrift.transport.TTransport:TTransportException",),
    find_library=lambda _: ("thrift", "hive"),
    capabilities=_WITHOUT_VIEWS,
)
GLUE = CatalogKind(
    name="glue",
    build_pyiceberg_properties=build_shared_properties,
    pointers="glue_api",
    chooses_file_io=True,
    is_on_s3=True,
    client_errors=("botocore.exceptions:BotoCoreError", "botocore.exceptions:ClientError"),
    find_library=lambda _: ("boto3", "glue"),
    capabilities=_WITHOUT_VIEWS,
)
HADOOP = CatalogKind(
    name="hadoop",
    required_keys=("warehouse",),
    chooses_file_io=True,
    capabilities=Capabilities(
        branches=True, views=False, staged_creation=True, format_version_3=True, table_transactions=False
    ),
)
NESSIE = CatalogKind(
    name="nessie",
    required_keys=("uri", "warehouse"),
    locate_catalog=get_public_server_url,
    capabilities=Capabilities(branches=False, views=True, staged_creation=True, conditional_writes=True),
)
CUSTOM = CatalogKind(name="", chooses_file_io=True)
"""A catalog without a `type`: the property `catalog-impl` names its class, or a Spark Connect server defines it."""


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
