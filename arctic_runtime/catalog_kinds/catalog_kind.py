"""The entry of a kind of catalog, and the functions that most kinds share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.capabilities import UNKNOWN, Capabilities

Properties = Mapping[str, str]
"""Iceberg's properties of a catalog, as a profile has them: `type`, `uri`, `warehouse` and others."""

# By default pyiceberg uses Arrow's class for local files too. That loads pandas, which takes most of the time of a run
# that finds nothing new.
_LOCAL_FILE_IO = "pyiceberg.io.fsspec.FsspecFileIO"


def build_iceberg_settings(catalog: str, properties: Properties) -> dict[str, str]:
    """Builds the settings by which Spark opens a catalog named `catalog` with Iceberg's class and these properties."""
    prefix = f"spark.sql.catalog.{catalog}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.cache-enabled": "false",
        f"{prefix}.table-default.format-version": "3",
        f"{prefix}.table-default.commit.retry.num-retries": "20",
        **{f"{prefix}.{key}": value for key, value in properties.items()},
    }


def build_shared_properties(properties: Properties, _lock_wait_seconds: float) -> dict[str, str]:
    """Selects the properties that mean the same to pyiceberg as to Java; adds its class for local files if needed."""
    shared = {key: value for key, value in properties.items() if not _is_for_java(key)}
    if shared.get("warehouse", "").startswith(("/", "file:")):
        shared.setdefault("py-io-impl", _LOCAL_FILE_IO)
    return shared


def _is_for_java(key: str) -> bool:
    """Whether a property means nothing to pyiceberg, or something else than to Java."""
    return key.startswith(("jdbc.", "table-default.", "table-override.", "cache")) or key in (
        "io-impl",
        "clients",
    )


def locate_warehouse(properties: Properties) -> str:
    """Location of the warehouse; empty if there is no such property."""
    return properties.get("warehouse", "")


def locate_server(properties: Properties) -> str:
    """URL of the catalog's server, without user and password."""
    url = urlsplit(properties.get("uri", ""))
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


def list_no_groups(_properties: Properties) -> tuple[str, ...]:
    """Returns no groups: Spark opens the catalog with the JARs that it always has."""
    return ()


def find_no_library(_properties: Properties) -> tuple[str, str] | None:
    """Returns None: pyiceberg reads the catalog by libraries that are always installed."""
    return None


@dataclass(frozen=True)
class CatalogKind:
    """A kind of catalog: the properties that it needs, how it is opened, and what can be read of it without Spark."""

    name: str
    """Value of the property `type`, by which Spark knows the kind as well."""

    required_keys: tuple[str, ...] = ()
    """Properties that must have a value."""

    build_pyiceberg_properties: Callable[[Properties, float], dict[str, str] | None] | None = None
    """Properties for pyiceberg's `load_catalog`, from the profile's and the seconds to wait for a lock.

    None, or a result of None, if pyiceberg can't open the catalog, so that only Spark can read it.
    """

    build_spark_settings: Callable[[str, Properties], dict[str, str]] = build_iceberg_settings
    """Settings by which Spark opens the catalog, from its name and its properties."""

    lists_views: bool = False
    """Whether pyiceberg lists and loads the views of the catalog."""

    is_database: bool = False
    """Whether pyiceberg reads the catalog from a database, so that one query returns the heads of all relations."""

    locate_catalog: Callable[[Properties], str] = locate_warehouse
    """Returns the location that names the catalog in OpenLineage: server or warehouse; empty if neither is known."""

    capabilities: Capabilities = UNKNOWN
    """Capabilities that every catalog of this kind has or lacks; those that depend on the server are unknown."""

    read_stated_capabilities: Callable[[Any], Capabilities] | None = None
    """Reads the capabilities that a server states, from pyiceberg's opened catalog; None if no server states any."""

    is_thread_safe: bool = True
    """Whether threads may share pyiceberg's connection to the catalog."""

    connection_error: str = ""
    """Module and name of the exception by which pyiceberg's client says that it does not reach the server.

    Empty if those of the standard library and of `requests` are all."""

    may_give_credentials: bool = False
    """Whether the catalog's server may give its users credentials for the store that has the files."""

    find_library: Callable[[Properties], tuple[str, str] | None] = find_no_library
    """Returns the module by which pyiceberg reads the catalog, and the extra of this package that installs it.

    None if that is installed anyway."""

    list_jar_groups: Callable[[Properties], tuple[str, ...]] = list_no_groups
    """Returns the groups of further JARs with which Spark opens the catalog."""
