"""Creates the folder and the catalog, an SQLite file, of an embedded warehouse."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from arctic_runtime.catalog.storage.store_check import check_store
from arctic_runtime.catalog.storage.store_claim import claim_store
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile

# The definition of the tables that Iceberg's JDBC catalog creates itself with jdbc.schema-version=V1.
CATALOG_TABLES = (
    """create table if not exists iceberg_tables (
        catalog_name varchar(255) not null,
        table_namespace varchar(255) not null,
        table_name varchar(255) not null,
        metadata_location varchar(1000),
        previous_metadata_location varchar(1000),
        iceberg_type varchar(5),
        primary key (catalog_name, table_namespace, table_name))""",
    """create table if not exists iceberg_namespace_properties (
        catalog_name varchar(255) not null,
        namespace varchar(255) not null,
        property_key varchar(255),
        property_value varchar(1000),
        primary key (catalog_name, namespace, property_key))""",
)


def prepare_warehouse(profile: Profile) -> None:
    """Creates the folder and the catalog of a profile's embedded warehouse, if they don't exist yet.

    Before that, checks that the warehouse's object store answers, if it has one; for profiles without an embedded
    warehouse it does only this. Safe while other processes do the same or use the warehouse. Raises CatalogError if the
    catalog can't be read or written, if it is locked for longer than `lock_wait_seconds`, if the store does not answer,
    or if its folder belongs to another catalog; raises ConfigError if a library is missing.
    """
    check_store(profile)
    file = profile.sqlite_file
    if file is not None:
        _create_catalog(profile, file)
        if not profile.is_branch:
            claim_store(profile, file)


def _create_catalog(profile: Profile, file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(file.parent, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        with closing(sqlite3.connect(file, timeout=profile.thresholds.commits.lock_wait_seconds)) as connection:
            connection.execute("pragma journal_mode=wal")
            for statement in CATALOG_TABLES:
                connection.execute(statement)
    except (OSError, sqlite3.Error) as error:
        raise _build_unusable_error(file, error) from error


def _build_unusable_error(file: Path, error: Exception) -> CatalogError:
    locked = "locked" in str(error)
    advice = (
        "another process has kept it locked; find it (`fuser` or `lsof` on that file) and let it end"
        if locked
        else "make the directory one that this user can write, or choose another warehouse in the profile"
    )
    return CatalogError(
        "The embedded warehouse can't be used.",
        where=str(file),
        expected="a directory and an SQLite database that can be read and written",
        actual=str(error),
        fix=advice,
    )
