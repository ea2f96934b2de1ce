"""The profile: settings of the catalog with a project's tables, and of the Spark that computes them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import unquote, urlsplit

from arctic_runtime.catalog_kinds.catalog_kind import CatalogKind
from arctic_runtime.catalog_kinds.jdbc import build_embedded_properties, find_sqlite_file
from arctic_runtime.catalog_kinds.object_stores import (
    STORE_SCHEMES,
    StoreWarehouse,
    build_python_store_properties,
    complete_store_properties,
    find_store,
    is_store_address,
    place_store_warehouse,
)
from arctic_runtime.catalog_kinds.registry import get_catalog_kind, select_catalog_kind
from arctic_runtime.errors import ConfigError, suggest_nearest
from arctic_runtime.thresholds import Thresholds

Method = Literal["session", "connect"]
Setting = str | int | float | bool

ICEBERG_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
JARS_SETTING = "spark.arctic.jars"
"""Spark setting of dbt-arctic's own: groups of further JARs with which Spark is started, comma-separated."""

_JAR_SETTINGS = ("spark.driver.extraClassPath", "spark.jars", "spark.jars.packages")
"""Settings of Spark in which a user may have named the JAR of an object store, which is then not added again."""

KEPT = "local"
"""Value of `url` for a Spark Connect server of this user on this machine, which is started and kept running."""

# These allow joins and merges between tables whose partitions correspond, without a shuffle of the base.
_STORAGE_PARTITIONED_JOINS = {
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowCompatibleTransforms.enabled": "true",
    # A shuffle of one side to the buckets of the other takes five times as long per row as a shuffle by hash, and Spark
    # may shuffle the larger side. The runtime's own statements turn this on if few rows are shuffled.
    "spark.sql.sources.v2.bucketing.shuffle.enabled": "false",
    # Spark 4.1 fails with an internal error if one of these two is on and a query broadcasts a bare scan below such a
    # join. Only the runtime's own statements, which have no such broadcast, turn them on.
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "false",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "false",
    "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled": "false",
    "spark.sql.iceberg.planning.preserve-data-grouping": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
# Includes harmless words: to hide a harmless value is a small nuisance, to show a secret is not.
_SECRET_WORD = (
    r"secret|token|credential|passw|passphrase|authorization|proxy-auth|cookie|signature|connection[-_.]?string|jaas"
    r"|(?:access|account|api|client|encryption|private|shared|signing|ssh)[-_.]?key"
    r"|(?<![a-z])(?:pass|pwd|pw|sas|sig|key)(?![a-z])"
)
_CLEAR_WORD = r"secret|token|credential|password|passphrase|authorization|cookie|(?:access|account|api)[-_.]?key"
"""Words before a colon that name a secret also in plain text, where `key:` names none."""

_SECRET_KEY = re.compile(rf"{_SECRET_WORD}|(?:^|\.)headers?\.", re.IGNORECASE)
_SECRET_NAME = rf"[\w.-]*(?:{_SECRET_WORD})[\w.-]*"
_WITH_PASSWORD = r"(?<=\(using )password: (?:YES|NO)\)"
"""Words of MySQL and MariaDB that tell whether a client has sent a password, which is no secret and helps its user."""

# In Java options a value ends at a space or at the quote before its name; in URLs and connection strings also earlier.
_SECRET_IN_VALUE = re.compile(
    rf"""(?P<quoted>(?P<quote>['"])-D{_SECRET_NAME}=).*?(?=(?P=quote))"""
    rf"""|(?P<option>-D{_SECRET_NAME}=)(?:"[^"]*"|'[^']*'|\S+)"""
    rf"""|(?P<part>(?<![\w.-]){_SECRET_NAME}\s*=\s*)(?:"[^"]*"|'[^']*'|[^&;\s]+)"""
    rf"""|(?P<member>(?P<mark>['"]){_SECRET_NAME}(?P=mark)\s*:\s*)(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^,}}\s]+)"""
    rf"""|(?!{_WITH_PASSWORD})(?P<header>(?<![\w.-])[\w.-]*(?:{_CLEAR_WORD})[\w.-]*:\s+)(?:(?:Bearer|Basic)\s+)?(?:"[^"]*"|'[^']*'|[^&;,\s]+)""",
    re.IGNORECASE,
)
_USER_IN_URL = re.compile(r"(?P<user>//[^/@:\s]*:|jdbc:oracle:\w+:[^/@\s]*/)[^\s,]*@")
_MASK = "***"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
"""Matches the scheme at the beginning of a URI; a scheme of one letter may be a drive of Windows instead."""


@dataclass(frozen=True)
class Profile:
    """Settings by which a process reaches the catalog, and starts Spark or connects to it.

    Raises ConfigError if the settings contradict each other.
    """

    catalog: str = "lake"
    """Name of the catalog."""

    catalog_properties: Mapping[str, str] = field(default_factory=dict)
    """Iceberg's own properties of the catalog (type, uri, warehouse, …).

    They may be empty only with the method `connect`, because the server may have the catalog configured already.
    """

    method: Method = "session"
    """Whether Spark is started in this process, or a Spark Connect server is used."""

    url: str | None = None
    """Address of the Spark Connect server; None for the other methods."""

    master: str = "local[*]"
    """Spark's master, if Spark is started in this process."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings, which override every default."""

    keep_alive_seconds: float = field(default=0.0, compare=False)
    """Time for which an embedded Spark is kept for later commands without use; 0 ends it with the process.

    It is ignored when profiles are compared.
    """

    clone_ttl_seconds: float | None = field(default=14 * 86_400.0, compare=False)
    """Time after its last use at which a clone of a model in this environment is dropped; None for never."""

    is_branch: bool = False
    """Whether the catalog is a branch: others still read the files that its tables had at its beginning."""

    thresholds: Thresholds = field(default=Thresholds(), compare=False)
    """Thresholds of all work with this profile; they are ignored when profiles are compared."""

    def __post_init__(self) -> None:
        properties = _read_settings(self.catalog_properties, "catalog_config")
        object.__setattr__(self, "catalog_properties", complete_store_properties(properties, os.environ))
        object.__setattr__(self, "settings", _read_settings(self.settings, "server_side_parameters"))
        _check_name(self.catalog)
        _check_method(self.method, self.url)
        _check_catalog(self.catalog_properties, required=self.method == "session" or self.is_kept)
        _check_settings(self.settings)

    @classmethod
    def for_embedded(
        cls,
        warehouse: Path | str | StoreWarehouse,
        catalog: str = "lake",
        master: str = "local[*]",
        settings: Mapping[str, Setting] | None = None,
        method: Method = "session",
        url: str | None = None,
        keep_alive_seconds: float = 0.0,
        thresholds: Thresholds | None = None,
    ) -> Profile:
        """Builds a profile with Spark on this machine, and a catalog in the SQLite database `<warehouse>/catalog.db`.

        If the warehouse is in an object store, such as `s3://bucket/path`, the database is below `.arctic` in the
        current folder, or at the path in the `StoreWarehouse`. This process starts Spark; with the method `connect` and
        the url `local`, Spark is a server that keeps running. Raises ConfigError if the warehouse can't be used.
        """
        if method == "connect" and url != KEPT:
            raise _build_refusal(
                "A server that may be elsewhere can't use a catalog in a file of this machine",
                "warehouse",
                "url: local",
                "none" if url is None else repr(_mask_value(url)),
                "describe the server's catalog in catalog_config",
            )
        if not str(warehouse).strip():
            raise _build_refusal(
                "The profile has an empty warehouse",
                "warehouse",
                "a directory",
                "''",
                "name one, as ./warehouse",
            )
        limits = cls.thresholds if thresholds is None else thresholds
        return cls(
            catalog=catalog,
            catalog_properties=_build_embedded_catalog(warehouse, limits.commits.lock_wait_seconds),
            method=method,
            url=url,
            master=master,
            settings=_read_settings(settings or {}, "server_side_parameters"),
            keep_alive_seconds=keep_alive_seconds,
            thresholds=limits,
        )

    @property
    def is_local(self) -> bool:
        """Whether this process starts Spark, in local mode (driver and executors in one JVM)."""
        return self.method == "session" and re.fullmatch(r"local(\[.*\])?", self.master) is not None

    @property
    def is_kept(self) -> bool:
        """Whether Spark is a server on this machine that keeps running between runs (url `local`)."""
        return self.method == "connect" and self.url == KEPT

    @property
    def keeps_warm(self) -> bool:
        """Whether the embedded Spark of a command is kept for later commands, until it was not used for a while."""
        return self.is_local and self.keep_alive_seconds > 0

    @property
    def started(self) -> Profile:
        """Profile by which Spark itself is started: for a kept server, this profile with the method `session`.

        For all other profiles it is this profile.
        """
        return replace(self, method="session", url=None) if self.is_kept else self

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """Groups of further JARs with which Spark is started: those in `settings`, and those for catalog and store."""
        named = [name for part in self.settings.get(JARS_SETTING, "").split(",") if (name := part.strip())]
        store = find_store(self.catalog_properties)
        # Iceberg's own JAR is on the class path of an embedded Spark, and finds nothing of what Spark adds by others.
        places = _JAR_SETTINGS[:1] if self.is_local or self.is_kept else _JAR_SETTINGS
        if store is not None and not any(store.bundle in self.settings.get(key, "") for key in places):
            named.append(store.jar_group)
        return tuple(dict.fromkeys([*named, *self.catalog_kind.list_jar_groups(self.catalog_properties)]))

    def with_branch(self, file: Path, properties: Mapping[str, str] | None = None) -> Profile:
        """Returns this profile with the branch in the SQLite file `file` in the place of its catalog.

        `properties` are the warehouse and the properties by which files are reached; by default those of the profile.
        """
        known = self.catalog_properties if properties is None else properties
        wait_seconds = self.thresholds.commits.lock_wait_seconds
        own = build_embedded_properties(file, known.get("warehouse", ""), wait_seconds)
        stored = {key: value for key, value in known.items() if not key.startswith("jdbc.")}
        return replace(self, catalog_properties={**stored, **own}, is_branch=True)

    def with_jars(self, group: str) -> Profile:
        """Returns this profile with one more group of further JARs for Spark, such as `kafka`."""
        chosen = ",".join(dict.fromkeys([*self.jar_groups, group]))
        return replace(self, settings={**self.settings, JARS_SETTING: chosen})

    @property
    def catalog_kind(self) -> CatalogKind:
        """Kind of the catalog, such as JDBC or REST, which has the functions that open the catalog."""
        return select_catalog_kind(self.catalog_properties)

    @property
    def sqlite_file(self) -> Path | None:
        """Path of the catalog's SQLite database file, None for any other catalog; its directory must exist."""
        return find_sqlite_file(self.catalog_properties)

    @property
    def caches_tables(self) -> bool:
        """Whether Spark may keep tables in memory, and so not notice a commit of another process at once."""
        settings = self.build_session_settings()
        return settings.get(f"spark.sql.catalog.{self.catalog}.cache-enabled", "true").lower() != "false"

    def build_spark_settings(self) -> dict[str, str]:
        """Builds all settings of a Spark that is started for this profile: defaults, overridden by its `settings`."""
        settings = {
            **self.catalog_kind.build_spark_settings(self.catalog, self.catalog_properties),
            **_STORAGE_PARTITIONED_JOINS,
            "spark.master": self.master,
            "spark.app.name": "dbt-arctic",
            "spark.sql.defaultCatalog": self.catalog,
            "spark.sql.session.timeZone": "UTC",
            **_PINNED,
            # Otherwise pyspark determines for each expression the line of the program that created it, which takes
            # five times as long as the creation.
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            # Iceberg writes a checksum for each page of a Parquet file, and Hadoop's library checks none by default.
            "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **({} if self.settings.get("spark.ui.enabled") == "true" else _KEPT_FOR_PAGES),
            **(_build_local_settings(self.master) if self.is_local else {}),
            **self.settings,
            **({JARS_SETTING: ",".join(self.jar_groups)} if self.jar_groups else {}),
        }
        settings["spark.sql.extensions"] = _with_iceberg(self.settings.get("spark.sql.extensions", ""))
        if self.catalog_properties.get("warehouse", "").startswith("/"):
            settings.setdefault("spark.hadoop.fs.defaultFS", "file:///")
        return settings

    def build_session_settings(self) -> dict[str, str]:
        """Builds the settings that can be set in a session of a running Spark, such as a Spark Connect server."""
        properties = self.catalog_properties
        catalog = self.catalog_kind.build_spark_settings(self.catalog, properties) if properties else {}
        return {
            **catalog,
            **_STORAGE_PARTITIONED_JOINS,
            "spark.sql.defaultCatalog": self.catalog,
            "spark.sql.session.timeZone": "UTC",
            **_PINNED,
            **self.settings,
        }

    def build_pyiceberg_properties(self) -> dict[str, str] | None:
        """Builds the properties for pyiceberg's `load_catalog(profile.catalog, **properties)`.

        Returns None for a kind of catalog that pyiceberg can't open, and that only Spark can read.
        """
        build = self.catalog_kind.build_pyiceberg_properties
        limits = self.thresholds
        built = None if build is None else build(self.catalog_properties, limits.commits.lock_wait_seconds)
        if built is None:
            return None
        waits = limits.engine.store_connect_seconds, limits.engine.store_request_seconds
        return {**build_python_store_properties(self.catalog_properties, *waits), **built}

    def __repr__(self) -> str:
        parts = {
            "catalog": self.catalog,
            "catalog_properties": mask_secrets(self.catalog_properties),
            "method": self.method,
            "url": self.url and _mask_value(self.url),
            "master": self.master,
            "settings": mask_secrets(self.settings),
        }
        return f"Profile({', '.join(f'{name}={value!r}' for name, value in parts.items())})"


def place_warehouse(warehouse: Path | str, base: Path, store_config: Mapping[str, Setting]) -> Path | StoreWarehouse:
    """Returns the folder of an embedded warehouse, or its location in an object store.

    Relative paths begin at `base`. `store_config` are the properties of the object store. Raises ConfigError if the
    warehouse can't be used.
    """
    properties = _read_settings(store_config, "catalog_config")
    if is_store_address(warehouse):
        return place_store_warehouse(str(warehouse), Path(os.path.abspath(base)), properties)
    if properties:
        raise _build_refusal(
            "`warehouse` and `catalog_config` contradict each other: a folder is an embedded catalog",
            "catalog_config",
            "none beside a folder; keys of the store beside an address as s3://bucket/path",
            ", ".join(properties),
            "for another catalog, put the warehouse into catalog_config",
        )
    return base / get_warehouse_folder(warehouse)


def _build_embedded_catalog(warehouse: Path | str | StoreWarehouse, lock_wait_seconds: float) -> dict[str, str]:
    """Builds the properties of an embedded catalog; raises ConfigError if the warehouse can't be used."""
    placed = warehouse if isinstance(warehouse, StoreWarehouse) else place_warehouse(warehouse, Path.cwd(), {})
    if isinstance(placed, StoreWarehouse):
        _check_directory(placed.catalog_file.parent)
        built = build_embedded_properties(placed.catalog_file, placed.address, lock_wait_seconds)
        return {**placed.store_properties, **built}
    directory = Path(os.path.abspath(placed))
    _check_directory(directory)
    return build_embedded_properties(directory / "catalog.db", str(directory), lock_wait_seconds)


def get_warehouse_folder(warehouse: Path | str) -> Path:
    """Parses the location of an embedded warehouse, a path or a `file:` URI, to the path of its folder.

    Raises ConfigError if it is not a folder of this machine, such as the URI of an object store.
    """
    text = str(warehouse)
    named = _SCHEME.match(text)
    if named is None or (os.name == "nt" and len(named[1]) == 1):
        return Path(text).expanduser()
    scheme = named[1].lower()
    parts = urlsplit(text) if scheme == "file" else None
    if parts is not None and parts.netloc in ("", "localhost") and parts.path.startswith("/"):
        return Path(unquote(parts.path))
    raise _build_refusal(
        "The warehouse is not a folder of this machine",
        "warehouse",
        f"a folder, as ./warehouse or file:///srv/warehouse, or an address with {', '.join(STORE_SCHEMES)}, as "
        "s3://bucket/path",
        repr(_mask_value(text)),
        _build_scheme_advice(scheme),
    )


def _build_scheme_advice(scheme: str) -> str:
    """Returns advice for a user who wrote an embedded warehouse as a URI with this scheme, in place of a folder."""
    if len(scheme) == 1:
        return "write a path of this system; a folder whose name begins so is written with ./ in front"
    if scheme in ("http", "https"):
        return "if that is a REST catalog: remove `warehouse`, and write catalog_config: {type: rest, uri: http…}"
    if scheme == "file":
        return "write file:///, and the folder's path from the root on"
    return (
        "remove `warehouse`, and describe a catalog that keeps its tables there in catalog_config, as "
        f"{{type: rest, uri: http…, warehouse: {scheme}://…}}, with `io-impl` and the store's credentials; a "
        "folder whose name begins so is written with ./ in front"
    )


def is_secret(key: str) -> bool:
    """Whether the value of a property or setting with this name is a secret."""
    return _SECRET_KEY.search(key) is not None


def mask_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns a copy of `properties` that can be printed: secret values, and secrets inside values, become `***`."""
    return {key: _MASK if is_secret(key) else _mask_value(value) for key, value in properties.items()}


def mask_text(text: str) -> str:
    """Returns `text`, such as an error message, with everything that looks like a secret replaced by `***`."""
    return _mask_value(text)


def mask_secret(text: str, secret: str) -> str:
    """Returns `text` with the known `secret` replaced by `***`.

    A secret of less than 8 characters is masked as a whole word, one of less than 4 only in quotes or as the value of a
    setting, since words of the text have the same letters.
    """
    start, end = next(edges for length, edges in _SECRET_EDGES if len(secret) >= length)
    return re.sub(f"{start}{re.escape(secret)}{end}", _MASK, text) if secret else text


_SECRET_EDGES = (
    (8, ("", "")),
    (4, (r"(?<!\w)", r"(?!\w)")),
    (0, (r"(?<=[=:'\"])", r"(?=$|[\s&;,@'\")}\]])")),
)
"""Patterns of what stands before and after a secret, by the number of characters from which on they are used."""


def select_fixed_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the Spark settings in `settings` that can't be changed while Spark runs."""
    return {
        key: value
        for key, value in settings.items()
        if key == "spark.sql.extensions" or not key.startswith("spark.sql.")
    }


def _mask_value(value: str) -> str:
    """Replaces the secrets inside a value, such as a URL or Java options, by `***`."""
    shown = _USER_IN_URL.sub(rf"\g<user>{_MASK}@", value)
    return _SECRET_IN_VALUE.sub(_mask_match, shown)


def _mask_match(match: re.Match[str]) -> str:
    if match["member"]:
        return f"{match['member']}{match['mark']}{_MASK}{match['mark']}"
    return f"{match['quoted'] or match['option'] or match['part'] or match['header']}{_MASK}"


def _build_refusal(what: str, where: str, expected: str, actual: str, advice: str) -> ConfigError:
    return ConfigError(f"{what}.", where=where, expected=expected, actual=actual, fix=advice)


def _read_settings(values: Mapping[str, Setting], where: str) -> dict[str, str]:
    """Converts the values of settings to texts as Spark reads them, such as `true` or `4`.

    Raises ConfigError for a value that is a list or a mapping; the message names `where` as the place of the setting.
    """
    texts = {}
    for key, value in values.items():
        if not isinstance(value, (str, int, float, bool)):
            kind = type(value).__name__
            raise _build_refusal(
                f"'{key}' has no usable value",
                where,
                "text, a number or a boolean",
                kind,
                "write one plain value",
            )
        texts[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def _check_name(catalog: str) -> None:
    if catalog == "spark_catalog" or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", catalog):
        raise _build_refusal(
            "The catalog's name can't be used",
            "catalog (dbt's database)",
            "a letter, then letters, digits and underscores; not spark_catalog",
            repr(catalog),
            "choose another name; only the profile and pyiceberg's catalog name need to know it",
        )


def _check_method(method: str, url: str | None) -> None:
    known = get_args(Method)
    if method not in known:
        advice = f"choose one{suggest_nearest(str(method), known)}"
        raise _build_refusal("The profile's method is unknown", "method", " or ".join(known), repr(method), advice)
    if method == "session" and url is not None:
        raise _build_refusal(
            "The profile has a url that nothing would use",
            "url",
            "no url with method: session",
            repr(_mask_value(url)),
            "write method: connect, or take the url away",
        )
    if method == "connect" and url != KEPT and not re.match(r"sc://.", url or ""):
        actual_url = "none" if url is None else repr(_mask_value(url))
        raise _build_refusal(
            "The profile doesn't say which Spark Connect server to use",
            "url",
            "sc://host:port, or local for one that is kept on this machine",
            actual_url,
            "write url: sc://… or url: local into the profile",
        )


def _check_catalog(properties: Mapping[str, str], required: bool) -> None:
    if not properties and not required:
        return
    if "type" not in properties and "catalog-impl" in properties:
        return
    kind = get_catalog_kind(properties.get("type"))
    for name in kind.required_keys:
        if not properties.get(name):
            raise _build_refusal(
                f"A catalog of type {kind.name} needs '{name}'",
                f"catalog_config.{name}",
                "a value",
                "none",
                "add it",
            )


_PINNED = {"spark.sql.parser.escapedStringLiterals": "false", "spark.sql.caseSensitive": "false"}
"""Settings on which the runtime's SQL and its analysis of queries rely: escapes in texts, and case of names."""

_INSTEAD = {
    "spark.sql.parser.escapedStringLiterals": "write r'…' for texts in which a backslash stands for itself",
    "spark.sql.caseSensitive": "give columns names that differ by more than their case",
}


def _check_settings(settings: Mapping[str, str]) -> None:
    for key, value in _PINNED.items():
        if settings.get(key, value).strip().lower() != value:
            raise _build_refusal(
                f"'{key}' can't be set",
                "server_side_parameters",
                f"{key}: {value}, as it is without it",
                repr(settings[key]),
                f"remove it, and {_INSTEAD[key]}",
            )
    for key in settings:
        if not key.startswith("spark."):
            raise _build_refusal(
                f"'{key}' is not a Spark setting",
                "server_side_parameters",
                "names that start with 'spark.'",
                repr(key),
                "Iceberg catalog properties belong into catalog_config",
            )


def _check_directory(directory: Path) -> None:
    """Raises ConfigError if a warehouse path contains `?` or `#`, at which SQLite's JDBC driver would cut it off."""
    if "?" in str(directory) or "#" in str(directory):
        raise _build_refusal(
            "The warehouse's path can't be used",
            "warehouse",
            "a path without '?' and '#'",
            repr(str(directory)),
            "move it",
        )


def _with_iceberg(extensions: str) -> str:
    others = [name.strip() for name in extensions.split(",") if name.strip() not in ("", ICEBERG_EXTENSIONS)]
    return ",".join([ICEBERG_EXTENSIONS, *others])


_KEPT_FOR_PAGES = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""Limits on the finished work that Spark remembers for its web pages, which are off.

By default Spark remembers a thousand plans, a few minutes of ingestion, and garbage collection treats these as
long-lived data.
"""


def _build_local_settings(master: str) -> dict[str, str]:
    """Builds the default settings of a Spark in local mode; `master` determines the number of cores.

    The cache of compiled code is large enough for a few dozen models.
    """
    partitions = max(8, 2 * _count_cores(master))
    return {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.shuffle.partitions": str(partitions),
        # PySpark has no native library of Hadoop; without it Hadoop's own class starts `chmod` twice for each file.
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    }


def _count_cores(master: str) -> int:
    count = re.match(r"local\[(\d+)", master)
    if count:
        return int(count.group(1))
    return os.cpu_count() or 1 if master.startswith("local[*") else 1
