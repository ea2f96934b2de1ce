"""Catalogs in a database, which Java reaches through JDBC and pyiceberg through SQLAlchemy: SQLite and PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.catalog_kinds.catalog_kind import (
    CatalogKind,
    Properties,
    build_iceberg_settings,
    build_shared_properties,
)

_SQLITE = "jdbc:sqlite:"
_POSTGRES = "jdbc:postgresql:"
_READ_AND_WRITE = "2"
"""SQLite's open flag that does not create a missing database file; by default SQLite would create an empty one."""


def build_embedded_properties(file: Path, warehouse: str, lock_wait_seconds: float) -> dict[str, str]:
    """Builds the catalog properties of an embedded warehouse, whose catalog is the local SQLite file `file`."""
    return {
        "type": JDBC.name,
        "uri": f"{_SQLITE}{file}",
        "warehouse": warehouse,
        "jdbc.schema-version": "V1",
        "jdbc.journal_mode": "WAL",
        "jdbc.busy_timeout": str(round(1000 * lock_wait_seconds)),
        "jdbc.open_mode": _READ_AND_WRITE,
    }


def find_sqlite_file(properties: Properties) -> Path | None:
    """Returns the path of the catalog's SQLite file; None if the catalog is not in an SQLite file."""
    uri = properties.get("uri", "")
    if not uri.startswith(_SQLITE) or uri.startswith((f"{_SQLITE}:", f"{_SQLITE}file:")):
        return None
    return Path(_parse_sqlite_path(uri))


def _parse_sqlite_path(uri: str) -> str:
    return uri.removeprefix(_SQLITE).split("?", 1)[0]


def _build_sql_properties(properties: Properties, lock_wait_seconds: float) -> dict[str, str] | None:
    """Builds the properties of pyiceberg's SQL catalog; None for databases that are not supported."""
    uri = _build_sqlalchemy_uri(properties, lock_wait_seconds)
    if uri is None:
        return None
    shared = build_shared_properties(properties, lock_wait_seconds)
    return {**shared, "type": "sql", "uri": uri, **_build_table_properties(properties)}


def _build_table_properties(properties: Properties) -> dict[str, str]:
    """Builds the properties that say whether pyiceberg creates the tables of the catalog in the database.

    In PostgreSQL it creates missing tables, with the column that distinguishes views from tables, as Java does when
    Spark opens the catalog. In an SQLite file it creates none, since `embedded_warehouse` does.
    """
    is_created = properties["uri"].startswith(_POSTGRES)
    version = {"schema_version": "v1"} if is_created and properties.get("jdbc.schema-version", "V1") == "V1" else {}
    return {"init_catalog_tables": str(is_created).lower(), **version}


def _build_sqlalchemy_uri(properties: Properties, lock_wait_seconds: float) -> str | None:
    uri = properties["uri"]
    if uri.startswith(_SQLITE):
        return f"sqlite:///{_parse_sqlite_path(uri)}?timeout={lock_wait_seconds:g}"
    if not uri.startswith(_POSTGRES):
        return None
    server = uri.removeprefix(_POSTGRES)
    user, password = properties.get("jdbc.user"), properties.get("jdbc.password")
    if user is None or not server.startswith("//"):
        return f"postgresql+psycopg2:{server}"
    login = quote(user, safe="") if password is None else f"{quote(user, safe='')}:{quote(password, safe='')}"
    return f"postgresql+psycopg2://{login}@{server.removeprefix('//')}"


def _build_jdbc_settings(catalog: str, properties: Properties) -> dict[str, str]:
    """Builds the Spark settings that define the catalog.

    Unless a property says otherwise, its database tables have the column that distinguishes views from tables.
    """
    return build_iceberg_settings(catalog, {"jdbc.schema-version": "V1", **properties})


def _list_driver_groups(properties: Properties) -> tuple[str, ...]:
    """Returns the group of JARs with PostgreSQL's driver, or none: SQLite's driver is always on Spark's class path."""
    return ("postgresql",) if properties.get("uri", "").startswith(_POSTGRES) else ()


def _find_driver_library(properties: Properties) -> tuple[str, str] | None:
    """Returns the Python library for PostgreSQL and the extra that installs it; None for SQLite, a part of Python."""
    return ("psycopg2", "postgresql") if properties.get("uri", "").startswith(_POSTGRES) else None


JDBC = CatalogKind(
    name="jdbc",
    required_keys=("uri", "warehouse"),
    build_pyiceberg_properties=_build_sql_properties,
    build_spark_settings=_build_jdbc_settings,
    lists_views=True,
    is_database=True,
    pointers="database",
    capabilities=Capabilities(
        branches=True,
        views=True,
        staged_creation=True,
        format_version_3=True,
        table_transactions=True,
        conditional_writes=True,
    ),
    find_library=_find_driver_library,
    list_jar_groups=_list_driver_groups,
)
