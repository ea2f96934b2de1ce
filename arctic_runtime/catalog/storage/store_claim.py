"""Keeps two catalogs from using one folder of an object store: a file in the folder names the catalog that owns it.

A second catalog would take the files of the first for orphaned files, and would create tables in the same folders.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from arctic_runtime.catalog_kinds.missing_rights import to_rights_error
from arctic_runtime.catalog_kinds.object_stores import describe_store, find_store
from arctic_runtime.errors import CatalogError

if TYPE_CHECKING:
    from arctic_runtime.profile import Profile

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
