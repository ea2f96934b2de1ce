"""Defines the dataclass that describes a kind of catalog, such as `rest`, and functions that most kinds share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.capabilities import UNKNOWN, Capabilities

Properties = Mapping[str, str]
"""Iceberg's properties of a catalog from a profile, by name: `type`, `uri`, `warehouse` and others."""

PointerProtocol = Literal["database", "glue_api", "hive_metastore", "rest_api"]
"""How the pointers to the current metadata files of a catalog are read and changed."""

# By default pyiceberg uses Arrow's class for local files too. That loads pandas, which takes most of the time of a run
# that finds nothing new.
LOCAL_FILE_IO = "arctic_runtime.catalog.storage.checked_files.CheckedFileIO"
"""Pyiceberg's class for files of a warehouse on a local disk."""


def build_iceberg_settings(catalog: str, properties: Properties) -> dict[str, str]:
    """Builds the Spark settings that define a catalog named `catalog`, with Iceberg's class and these properties."""
    prefix = f"spark.sql.catalog.{catalog}"
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.cache-enabled": "false",
        f"{prefix}.table-default.format-version": "3",
        f"{prefix}.table-default.commit.retry.num-retries": "20",
        **{f"{prefix}.{key}": value for key, value in properties.items()},
    }


def build_shared_properties(properties: Properties, _lock_wait_seconds: float) -> dict[str, str]:
    """Selects the properties that have the same meaning in pyiceberg and in Java, for pyiceberg.

    For a warehouse on the local disk, adds the class by which pyiceberg reads its files.
    """
    shared = {key: value for key, value in properties.items() if not _is_for_java(key)}
    if shared.get("warehouse", "").startswith(("/", "file:")):
        shared.setdefault("py-io-impl", LOCAL_FILE_IO)
    return shared


def _is_for_java(key: str) -> bool:
    """Whether a property has no meaning in pyiceberg, or another meaning than in Java."""
    return key.startswith(("jdbc.", "table-default.", "table-override.", "cache")) or key in (
        "io-impl",
        "clients",
    )


def locate_warehouse(properties: Properties) -> str:
    """Returns the location of the warehouse; empty if there is no such property."""
    return properties.get("warehouse", "")


def get_public_server_url(properties: Properties) -> str:
    """Returns the URL of the catalog's server, without user and password."""
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
    """A kind of catalog, such as `rest`: its required properties, how Spark and pyiceberg open it, its capabilities."""

    name: str
    """Value of the catalog property `type`, which Spark uses as well; empty for `CUSTOM`."""

    required_keys: tuple[str, ...] = ()
    """Names of the catalog properties that must be set."""

    build_pyiceberg_properties: Callable[[Properties, float], dict[str, str] | None] | None = None
    """Builds the properties for pyiceberg's `load_catalog`.

    Its arguments are the profile's properties and the seconds to wait for a lock. If it is None, or returns None,
    pyiceberg can't open the catalog, so that only Spark can read it.
    """

    build_spark_settings: Callable[[str, Properties], dict[str, str]] = build_iceberg_settings
    """Builds the Spark settings that define the catalog, from its name and its properties."""

    lists_views: bool = False
    """Whether pyiceberg lists and loads the views of the catalog."""

    is_database: bool = False
    """Whether pyiceberg reads the catalog from a database, so that one SQL query returns all current metadata files."""

    pointers: PointerProtocol | None = None
    """How a branch of the catalog begins and is published (see `CatalogPointers`); None if there can be no branch."""

    is_server: bool = False
    """Whether the catalog's server writes the metadata files of tables, so that clients only ask for changes."""

    locate_catalog: Callable[[Properties], str] = locate_warehouse
    """Returns the location of a server or warehouse that identifies the catalog in OpenLineage; empty if not known."""

    capabilities: Capabilities = UNKNOWN
    """Capabilities that every catalog of this kind has or lacks; those that depend on the server are unknown."""

    read_stated_capabilities: Callable[[Any], Capabilities] | None = None
    """Reads the capabilities that a server states, from pyiceberg's opened catalog; None if no server states any."""

    is_thread_safe: bool = True
    """Whether threads may share pyiceberg's connection to the catalog."""

    client_errors: tuple[str, ...] = ()
    """Exceptions, as `module:name`, of pyiceberg's client library: the server is not reached, or refuses a request.

    Empty if only exceptions of the standard library and of `requests` report this."""

    may_give_credentials: bool = False
    """Whether the catalog's server may provide its users with credentials for the object store of the files."""

    chooses_file_io: bool = False
    """Whether Iceberg, or a class that users configure, chooses the class (FileIO) that reads files of a store."""

    is_on_s3: bool = False
    """Whether the files of the catalog are in S3 if no property names their place."""

    find_library: Callable[[Properties], tuple[str, str] | None] = find_no_library
    """Returns the optional module that pyiceberg needs for the catalog, and the extra of this package that installs it.

    None if pyiceberg needs no optional module."""

    list_jar_groups: Callable[[Properties], tuple[str, ...]] = list_no_groups
    """Returns the names of the groups of additional JARs that Spark needs for the catalog, such as `postgresql`."""
