"""Kinds of catalogs that pyiceberg either opens with the same properties as Java, or can't open at all."""

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
    is_server=True,
    locate_catalog=get_public_server_url,
    read_stated_capabilities=_read_endpoints,
    may_give_credentials=True,
)
HIVE = CatalogKind(
    name="hive",
    required_keys=("uri",),
    build_pyiceberg_properties=build_shared_properties,
    locate_catalog=_locate_metastore,
    is_thread_safe=False,
    client_errors=("thrift.transport.TTransport:TTransportException",),
    find_library=lambda _: ("thrift", "hive"),
    capabilities=_WITHOUT_VIEWS,
)
GLUE = CatalogKind(
    name="glue",
    build_pyiceberg_properties=build_shared_properties,
    client_errors=("botocore.exceptions:BotoCoreError", "botocore.exceptions:ClientError"),
    find_library=lambda _: ("boto3", "glue"),
    capabilities=_WITHOUT_VIEWS,
)
HADOOP = CatalogKind(
    name="hadoop",
    required_keys=("warehouse",),
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
CUSTOM = CatalogKind(name="")
"""A catalog without a `type`: the property `catalog-impl` names its class, or a Spark Connect server defines it."""
