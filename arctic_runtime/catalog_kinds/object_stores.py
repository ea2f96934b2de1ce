"""Object stores for the files of a warehouse: their properties, JARs and libraries, and embedded warehouses in them.

The store has the files of such a warehouse; its catalog is an SQLite file on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from arctic_runtime.catalog_kinds.catalog_kind import Properties
from arctic_runtime.catalog_kinds.registry import select_catalog_kind
from arctic_runtime.errors import ConfigError, suggest_nearest

ARROW_FILE_IO = "pyiceberg.io.pyarrow.PyArrowFileIO"
FSSPEC_FILE_IO = "pyiceberg.io.fsspec.FsspecFileIO"
PYTHON_FILE_IO = "py-io-impl"
JAVA_FILE_IO = "io-impl"

_ENDPOINT = "s3.endpoint"
_PATH_STYLE = "s3.path-style-access"
_REGION = "client.region"


@dataclass(frozen=True)
class ObjectStore:
    """A kind of object store, such as S3."""

    name: str
    schemes: tuple[str, ...]
    """URL schemes of the addresses of the store's files."""

    key_prefixes: tuple[str, ...]
    """Prefixes of the names of catalog properties that concern the store."""

    jar_group: str
    """Name of the group of JARs that Spark needs for the store (see `arctic_runtime.spark.jars`)."""

    bundle: str
    """Maven artifact of the JAR in the group `jar_group`."""

    java_file_io: str
    """Iceberg's Java class (FileIO) that reads and writes the store's files."""

    extra: str
    """Extra of this package that installs `fsspec_library`."""

    fsspec_library: str
    """Python module by which fsspec reaches the store."""

    endpoint_key: str
    """Name of the catalog property with the address of the store's server."""


S3 = ObjectStore(
    name="S3",
    schemes=("s3", "s3a", "s3n"),
    key_prefixes=("s3.", "client.", "http-client."),
    jar_group="aws",
    bundle="iceberg-aws-bundle",
    java_file_io="org.apache.iceberg.aws.s3.S3FileIO",
    extra="s3",
    fsspec_library="s3fs",
    endpoint_key=_ENDPOINT,
)
GCS = ObjectStore(
    name="Google Cloud Storage",
    schemes=("gs",),
    key_prefixes=("gcs.",),
    jar_group="gcs",
    bundle="iceberg-gcp-bundle",
    java_file_io="org.apache.iceberg.gcp.gcs.GCSFileIO",
    extra="gcs",
    fsspec_library="gcsfs",
    endpoint_key="gcs.service.host",
)
AZURE = ObjectStore(
    name="Azure Data Lake Storage",
    schemes=("abfss", "abfs", "wasbs", "wasb"),
    key_prefixes=("adls.",),
    jar_group="azure",
    bundle="iceberg-azure-bundle",
    java_file_io="org.apache.iceberg.azure.adlsv2.ADLSFileIO",
    extra="azure",
    fsspec_library="adlfs",
    endpoint_key="adls.blob-storage-authority",
)
OBJECT_STORES = (S3, GCS, AZURE)
"""All kinds of object stores in which a warehouse may be."""

STORE_SCHEMES = {scheme: store for store in OBJECT_STORES for scheme in store.schemes}
"""The kind of object store by URL scheme."""


def find_store(properties: Properties) -> ObjectStore | None:
    """Returns the kind of object store with the files of a catalog's tables; None if the files are in none.

    It is determined by the scheme of the property `warehouse`. Without a location in this property, Glue means S3, and
    for other catalogs a property of the store itself, such as `s3.endpoint`, decides.
    """
    place = urlsplit(properties.get("warehouse", ""))
    if place.scheme or place.path.startswith("/"):
        return STORE_SCHEMES.get(place.scheme.lower())
    if select_catalog_kind(properties).is_on_s3:
        return S3
    return next((store for store in OBJECT_STORES if _is_configured(store, properties)), None)


def _is_configured(store: ObjectStore, properties: Properties) -> bool:
    return properties.get(JAVA_FILE_IO) == store.java_file_io or any(
        key.startswith(store.key_prefixes[0]) for key in properties
    )


def is_store_key(key: str) -> bool:
    """Whether a catalog property concerns an object store and its files, not the catalog itself."""
    prefixes = tuple(prefix for store in OBJECT_STORES for prefix in store.key_prefixes)
    return key.startswith(prefixes) or key in (JAVA_FILE_IO, PYTHON_FILE_IO)


def complete_store_properties(properties: Properties, environment: Mapping[str, str]) -> dict[str, str]:
    """Adds the properties with which Java and Python reach the same object store in the same way; set ones stay.

    `environment` has the environment variables: AWS libraries for Java and Python read different ones, so their values
    are written to properties.
    """
    store = find_store(properties)
    completed = dict(properties)
    if store is None:
        return completed
    if not select_catalog_kind(properties).chooses_file_io:
        completed.setdefault(JAVA_FILE_IO, store.java_file_io)
    if store is S3:
        _complete_s3_properties(completed, environment)
    return completed


def _complete_s3_properties(properties: dict[str, str], environment: Mapping[str, str]) -> None:
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        properties.setdefault(_ENDPOINT, endpoint)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        properties.setdefault(_REGION, properties.get("s3.region", region))
    if _ENDPOINT in properties:
        # Servers other than Amazon's have no host name for each bucket, and most of them ignore the region.
        properties.setdefault(_PATH_STYLE, "true")
        if not Path(environment.get("AWS_CONFIG_FILE") or "~/.aws/config").expanduser().exists():
            properties.setdefault(_REGION, properties.get("s3.region", "us-east-1"))


def build_python_store_properties(
    properties: Properties, connect_seconds: float, request_seconds: float
) -> dict[str, str]:
    """Builds the object store's properties that only pyiceberg has: its FileIO class and the timeouts, in seconds."""
    store = find_store(properties)
    if store is None:
        return {}
    signed_remotely = properties.get("s3.remote-signing-enabled", "").lower() == "true"
    built = {PYTHON_FILE_IO: FSSPEC_FILE_IO if signed_remotely else ARROW_FILE_IO}
    if store is S3:
        built |= {"s3.connect-timeout": f"{connect_seconds:g}", "s3.request-timeout": f"{request_seconds:g}"}
        if properties.get(_PATH_STYLE) == "false":
            built["s3.force-virtual-addressing"] = "true"
    return built


def describe_store(properties: Properties) -> str:
    """Describes a warehouse and the server of its store for people, such as `s3://lake/wh at http://127.0.0.1:9000`."""
    store, warehouse = find_store(properties), properties.get("warehouse", "")
    if store is None:
        return warehouse
    endpoint = properties.get(store.endpoint_key)
    place = warehouse if urlsplit(warehouse).scheme else store.name
    return f"{place} at {endpoint}" if endpoint else place


STATE_FOLDER = ".arctic"
"""Name of the folder in a project for the catalog files of its warehouses in object stores."""

_STORE_KEYS = (
    "client.region",
    "io-impl",
    "s3.access-key-id",
    "s3.endpoint",
    "s3.path-style-access",
    "s3.secret-access-key",
    "s3.session-token",
)
"""Names of store properties that are suggested if an unknown one is set."""


@dataclass(frozen=True)
class StoreWarehouse:
    """A warehouse in an object store: its address, its catalog's SQLite file, and the properties to reach the store."""

    address: str
    catalog_file: Path
    store_properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def is_store_address(warehouse: object) -> bool:
    """Whether the location of a warehouse is the address of an object store, such as `s3://bucket/path`."""
    return "://" in str(warehouse) and urlsplit(str(warehouse)).scheme.lower() in STORE_SCHEMES


def place_store_warehouse(
    address: str, base: Path, store_properties: Mapping[str, str] | None = None
) -> StoreWarehouse:
    """Returns the warehouse at `address`, with its catalog in `<base>/.arctic/<scheme>/<bucket>/<path>/catalog.db`.

    Each address has a catalog of its own. Raises ConfigError if the address is not valid, such as one with a password,
    or if a property in `store_properties` does not concern a store.
    """
    parts = urlsplit(address.strip())
    names = [name for name in parts.path.split("/") if name]
    user, _, _ = parts.netloc.partition("@")
    if not parts.netloc or parts.query or parts.fragment or ".." in names or ":" in user:
        raise ConfigError(
            "The warehouse's address can't be used.",
            where="warehouse",
            expected=f"{parts.scheme}://bucket/path, without '?', '#', '..', user and password",
            actual=repr(address if ":" not in user else f"{parts.scheme}://***"),
            fix="write the address without them; credentials belong into the environment or catalog_config",
        )
    _check_store_properties(store_properties or {})
    scheme = STORE_SCHEMES[parts.scheme.lower()].schemes[0]
    folder = base.joinpath(STATE_FOLDER, scheme, parts.netloc, *names)
    place = "/".join([f"{parts.scheme.lower()}://{parts.netloc}", *names])
    return StoreWarehouse(place, folder / "catalog.db", dict(store_properties or {}))


def _check_store_properties(properties: Mapping[str, str]) -> None:
    for key in properties:
        if not is_store_key(key):
            raise ConfigError(
                f"'{key}' can't be set beside `warehouse`, which means an embedded catalog.",
                where="catalog_config",
                expected="keys of the store, as s3.endpoint, s3.access-key-id, client.region, gcs.…, adls.…",
                actual=repr(key),
                fix=f"remove it{suggest_nearest(key, _STORE_KEYS)}, or describe the whole catalog, with its warehouse, "
                "in catalog_config",
            )
