"""Creates the folder and catalog of an embedded warehouse, and checks that its object store answers and is its own.

A store is asked before work begins that would wait for it for minutes. A file in its folder names the catalog that owns
the folder: a second catalog would take the files of the first for orphaned files, and would create tables in the same
folders.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from arctic_runtime.catalog.catalog_calls import check_libraries
from arctic_runtime.catalog_kinds.missing_rights import find_missing_right, to_rights_error
from arctic_runtime.catalog_kinds.object_stores import (
    ARROW_FILE_IO,
    PYTHON_FILE_IO,
    STORE_SCHEMES,
    build_python_store_properties,
    describe_store,
    find_store,
)
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile, mask_text

if TYPE_CHECKING:
    from arctic_runtime.profile import Profile


_NO_ACCESS = ("ACCESS_DENIED", "HTTP response code: 403", "HTTP response code: 401", "code 15")
"""Parts of error messages which show that the store has answered and refuses access to this user."""


_NO_CONNECTION = "NETWORK_CONNECTION"
"""Part of error messages which shows that the store could not be reached."""


def check_store(profile: Profile) -> None:
    """Checks that the bucket of the profile's warehouse exists; does nothing if the warehouse is in no object store.

    Raises CatalogError if the store does not answer within `store_probe_seconds`, refuses access to this user, or has
    no such bucket; raises ConfigError if a library is missing. With a catalog whose server may provide credentials for
    the store, such as a REST catalog, only a missing bucket and a store that can't be reached are errors.
    """
    properties = profile.build_pyiceberg_properties()
    address = urlsplit(profile.catalog_properties.get("warehouse", ""))
    if properties is None or address.scheme.lower() not in STORE_SCHEMES:
        return
    check_libraries(profile)
    if properties.get(PYTHON_FILE_IO) != ARROW_FILE_IO:
        return
    answer = _ask_with_limit(profile, properties, address.scheme, address.netloc)
    if answer == "no bucket":
        raise _build_store_error(profile, "has no such bucket", f"no bucket {address.netloc}", "create it")
    if not answer or (profile.catalog_kind.may_give_credentials and _NO_CONNECTION not in answer):
        return
    if any(sign in answer for sign in _NO_ACCESS):
        right = find_missing_right(answer)
        advice = "check credentials and rights: environment, profile files or keys"
        raise _build_store_error(
            profile, "refuses this user", answer, f"{advice}; {right.fix}" if right is not None else advice
        )
    raise _build_store_error(
        profile, "does not answer", answer, "check that it is up, and that endpoint, region and network are right"
    )


def _ask_with_limit(profile: Profile, properties: dict[str, str], scheme: str, bucket: str) -> str:
    """Returns an empty text if the bucket exists, `no bucket` if it does not, or else why this is not known.

    Asks in a thread of its own, since libraries may repeat a request for longer than their timeouts say.
    """
    import pyiceberg.io.pyarrow  # noqa: F401  (loading it takes seconds on a busy machine, and no store is waited for)

    limits = profile.thresholds.engine
    answers: list[str] = []

    def ask() -> None:
        answers.append(_ask_for_bucket(properties, scheme, bucket))

    waits = build_python_store_properties(
        profile.catalog_properties, limits.store_connect_seconds, limits.store_probe_request_seconds
    )
    properties = {**properties, **{key: waits[key] for key in waits if key.endswith("-timeout")}}
    thread = threading.Thread(target=ask, daemon=True, name="arctic-store-check")
    thread.start()
    thread.join(limits.store_probe_seconds)
    return answers[0] if answers else f"no answer within {limits.store_probe_seconds:g} s"


def _ask_for_bucket(properties: dict[str, str], scheme: str, bucket: str) -> str:
    from pyarrow.fs import FileType
    from pyiceberg.io.pyarrow import PyArrowFileIO

    try:
        files = PyArrowFileIO(properties).fs_by_scheme(scheme, bucket)
        place = bucket.partition("@")[0]
        return "no bucket" if files.get_file_info(place).type == FileType.NotFound else ""
    except (OSError, ValueError, ImportError) as error:
        return str(error)


def _build_store_error(profile: Profile, what: str, actual: str, fix: str) -> CatalogError:
    return CatalogError(
        f"The object store of the warehouse {what}.",
        where=mask_text(describe_store(profile.catalog_properties)),
        expected="an answer for its bucket",
        actual=mask_text(" ".join(actual.split())),
        fix=fix,
    )


MARK = "arctic-catalog.json"
"""Name of the file that names the owning catalog, in the folder of the warehouse."""

_TABLE = "create table if not exists arctic_warehouse (one integer primary key check (one = 1), id text not null)"


def claim_store(profile: Profile, file: Path) -> None:
    """Records in the warehouse's object store that its folder belongs to the catalog in `file`, an SQLite file.

    Does nothing for a warehouse on disk. Raises CatalogError if the folder belongs to another catalog, if the store
    can't be read or written, or if the file is not what was written.
    """
    if find_store(profile.catalog_properties) is None:
        return
    own = _read_own_id(file, profile.thresholds.commits.lock_wait_seconds)
    location = f"{profile.catalog_properties['warehouse'].rstrip('/')}/{MARK}"
    try:
        owner = _read_owner(profile, location)
        if owner is None:
            _write_owner(profile, location, own)
            owner = _read_owner(profile, location)
    except (ValueError, TypeError, KeyError) as error:
        raise CatalogError(
            f"The file {MARK} of the warehouse is not the one that was written, or the network cut it off.",
            where=location,
            expected="JSON with the id of the catalog that owns the folder",
            actual=" ".join(str(error).split()),
            fix="run again; if the error stays, bring the file back from a backup",
        ) from error
    except OSError as error:
        if (refused := to_rights_error(str(error), f"read and write {location}")) is not None:
            raise refused from error
        raise CatalogError(
            "The object store of the warehouse can't be written.",
            where=describe_store(profile.catalog_properties),
            expected=f"a file {MARK} that names the catalog",
            actual=" ".join(str(error).split()),
            fix="check credentials and rights",
        ) from error
    if owner != own:
        raise CatalogError(
            "The warehouse belongs to another catalog, whose tables this one does not know.",
            where=location,
            expected=f"the catalog in {file}, with the id {own}",
            actual=f"the id {owner}",
            fix="put the catalog's file back, from its copy or its other machine; several machines need a catalog of "
            "type rest, or jdbc on PostgreSQL; a new warehouse needs another path",
        )


def _read_own_id(file: Path, lock_wait_seconds: float) -> str:
    """Returns the id of the catalog in an SQLite file; the first call creates the id."""
    with closing(sqlite3.connect(file, timeout=lock_wait_seconds)) as connection:
        connection.execute(_TABLE)
        connection.execute("insert or ignore into arctic_warehouse values (1, ?)", (str(uuid.uuid4()),))
        connection.commit()
        return str(connection.execute("select id from arctic_warehouse").fetchone()[0])


def _read_owner(profile: Profile, location: str) -> str | None:
    """Returns the id of the catalog that owns a warehouse's folder, from the file at `location`; None if none."""
    from pyiceberg.io import load_file_io

    try:
        with load_file_io(profile.build_pyiceberg_properties() or {}, location).new_input(location).open() as stream:
            return str(json.loads(stream.read())["catalog"])
    except FileNotFoundError:
        return None


def _write_owner(profile: Profile, location: str, own: str) -> None:
    from pyiceberg.io import load_file_io

    text = json.dumps({"catalog": own, "note": "The catalog with this id has the tables of this folder."})
    file_io = load_file_io(profile.build_pyiceberg_properties() or {}, location)
    with file_io.new_output(location).create(overwrite=False) as stream:
        stream.write(text.encode())


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
            _check_new_catalog(profile, file, connection)
            for statement in CATALOG_TABLES:
                connection.execute(statement)
    except (OSError, sqlite3.Error) as error:
        raise _build_unusable_error(file, error) from error


def _check_new_catalog(profile: Profile, file: Path, connection: sqlite3.Connection) -> None:
    """Raises CatalogError if a catalog without its own tables, which it is to get, is in a folder with Iceberg tables.

    A copy of an SQLite file lacks what is in the file beside it that ends with `-wal`, so it may be empty.
    """
    if profile.is_branch or find_store(profile.catalog_properties) is not None:
        return
    if connection.execute("select 1 from sqlite_master where name = 'iceberg_tables'").fetchone():
        return
    folder = Path(profile.catalog_properties["warehouse"].removeprefix("file:"))
    table = next((found.parent.parent for found in folder.glob("*/*/metadata/*.metadata.json")), None)
    if table is None:
        return
    raise CatalogError(
        "The catalog of the warehouse is empty, and its folder has tables that the catalog does not know.",
        where=str(file),
        expected=f"the catalog with the table in {table}",
        actual="a new SQLite file",
        fix=f"put {file.name} back together with {file.name}-wal, since a copy needs both, or a copy that "
        f"`sqlite3 {file.name} '.backup COPY'` has made; a new warehouse needs another folder",
    )


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
