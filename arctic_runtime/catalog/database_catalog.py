"""Reads an Iceberg catalog in a SQL database, also if its SQLite file was replaced, and the metadata files in it."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange
from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.foreign_types import make_readable
from arctic_runtime.catalog.json_metadata import OLDEST_VERSION, Json, JsonMetadata, JsonTable
from arctic_runtime.catalog.recent_values import RecentValues
from arctic_runtime.catalog.storage.checksums import find_local_path, read_checked_file
from arctic_runtime.catalog.storage.sqlite_file import SqliteFile, get_identity
from arctic_runtime.catalog_kinds.catalog_kind import LOCAL_FILE_IO
from arctic_runtime.catalog_kinds.object_stores import PYTHON_FILE_IO
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from arctic_runtime.catalog.json_metadata import LoadedTable
    from arctic_runtime.profile import Profile


RelationKind = Literal["table", "view", "other"]

_KINDS: dict[str, RelationKind] = {"TABLE": "table", "VIEW": "view"}

_RELATIONS = """select table_namespace, table_name, coalesce(iceberg_type, 'TABLE'), metadata_location
    from iceberg_tables where catalog_name = :catalog"""
_NAMESPACES = """select namespace, property_key, property_value
    from iceberg_namespace_properties where catalog_name = :catalog"""


class DatabaseCatalog:
    """An Iceberg catalog that is stored in a database; safe to share between threads.

    `open_catalog` returns the pyiceberg catalog, by whose database connection all changes run, and all queries too
    unless the database is an SQLite file. `prepare` is called before such a file is read.
    """

    def __init__(self, profile: Profile, open_catalog: Callable[[], Catalog], prepare: Callable[[], None]) -> None:
        self._profile = profile
        self._open = open_catalog
        self._prepare = prepare
        file = profile.sqlite_file
        self._sqlite = None if file is None else SqliteFile(file, profile.thresholds.commits.lock_wait_seconds)
        # Metadata files never change, so those that were read last are kept.
        limits = profile.thresholds.engine
        self._metadata: RecentValues[TableMetadata] = RecentValues(limits.kept_metadata)
        self._states: RecentValues[JsonMetadata | None] = RecentValues(limits.kept_state_bytes, _get_file_bytes)
        self._texts: RecentValues[bytes] = RecentValues(limits.kept_metadata_texts)

    def list_relations(self, namespace: str) -> dict[str, RelationKind]:
        """Returns the kind of each table and view in the namespace, by its name."""
        return {name: kind for (_, name), (kind, _) in self.list_metadata_files((namespace,)).items()}

    def load_table(self, namespace: str, name: str) -> Table:
        """Loads the current version of a table; raises pyiceberg's NoSuchTableError if there is none.

        Raises CorruptState if its metadata file is missing or damaged.
        """
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.io import load_file_io
        from pyiceberg.table import Table

        location = self.find_metadata_location(namespace, name, "TABLE")
        if location is None:
            raise NoSuchTableError(f"Table does not exist: {namespace}.{name}")
        with explain_damage(f"{namespace}.{name}", location):
            metadata = self._load_table_metadata(location)
        file_io = load_file_io({**self._file_properties, **metadata.properties}, location)
        return Table((namespace, name), metadata, location, file_io, cast("Catalog", _CatalogOfTable(self._open)))

    def load_metadata(self, namespace: str, name: str) -> LoadedTable | None:
        """Loads the metadata of a table's current version without pyiceberg, unless it is of an old format version.

        None if there is no such table. Raises CorruptState if its metadata file is missing or damaged.
        """
        location = self.find_metadata_location(namespace, name, "TABLE")
        if location is None:
            return None
        with explain_damage(f"{namespace}.{name}", location):
            metadata = self._states.get(location, lambda: _parse_json_metadata(self.read_metadata_text(location)))
        return self.load_table(namespace, name) if metadata is None else JsonTable(namespace, name, location, metadata)

    def _load_table_metadata(self, location: str) -> TableMetadata:
        """Returns the metadata of a table from the metadata file at `location`."""
        return self._metadata.get(location, lambda: _parse_metadata(self.read_metadata_text(location)))

    def list_metadata_files(self, namespaces: tuple[str, ...]) -> dict[tuple[str, str], tuple[RelationKind, str]]:
        """Returns kind and metadata file of each table and view in `namespaces`, by its namespace and name.

        One query reads all of them, so they were all current at the same time.
        """
        if not namespaces:
            return {}
        numbered = {f"namespace_{number}": namespace for number, namespace in enumerate(namespaces)}
        places = ", ".join(f":{name}" for name in numbered)
        rows = self._select(f"{_RELATIONS} and table_namespace in ({places})", **numbered)
        return {
            (namespace, name): (_KINDS.get(kind, "other"), str(location)) for namespace, name, kind, location in rows
        }

    def read_view(self, namespace: str, name: str) -> Json:
        """Reads the metadata of a view, as JSON; raises pyiceberg's NoSuchViewError if there is none.

        Raises CorruptState if its metadata file is missing or damaged.
        """
        from pyiceberg.exceptions import NoSuchViewError

        location = self.find_metadata_location(namespace, name, "VIEW")
        if location is None:
            raise NoSuchViewError(f"View does not exist: {namespace}.{name}")
        with explain_damage(f"{namespace}.{name}", location):
            described: Json = json.loads(self.read_metadata_text(location))
            return described

    def find_metadata_location(self, namespace: str, name: str, wanted: Literal["TABLE", "VIEW"]) -> str | None:
        """Returns the location of the metadata file of a table or view; None if there is none of the wanted kind."""
        query = f"{_RELATIONS} and table_namespace = :namespace and table_name = :name"
        rows = self._select(query, namespace=namespace, name=name)
        return next((str(location) for _, _, kind, location in rows if kind == wanted), None)

    def swap_metadata_location(self, namespace: str, name: str, expected: str, location: str) -> bool:
        """Changes the location of a table's metadata file if it still is `expected`; returns whether it was."""
        from pyiceberg.catalog.sql import IcebergTables
        from sqlalchemy import update

        statement = (
            update(IcebergTables)
            .where(
                IcebergTables.catalog_name == self._profile.catalog,
                IcebergTables.table_namespace == namespace,
                IcebergTables.table_name == name,
                IcebergTables.metadata_location == expected,
            )
            .values(metadata_location=location, previous_metadata_location=expected)
        )
        with self._get_sql_engine().begin() as connection:
            return int(connection.execute(statement).rowcount) == 1

    def list_pointers(self) -> list[Pointer]:
        """Lists the pointers of all tables and views; one query reads them, so all were current at the same time."""
        return [
            Pointer(TableName(self._profile.catalog, namespace, name), kind, str(location))
            for namespace, name, kind, location in self._select(_RELATIONS)
        ]

    def find_pointer(self, table: TableName) -> Pointer | None:
        """Returns the pointer of a table or view; None if it does not exist."""
        found_kind, file = self.list_metadata_files((table.schema,)).get((table.schema, table.name), ("other", ""))
        return Pointer(table, found_kind.upper(), file) if file else None

    def list_namespaces(self) -> dict[str, dict[str, str]]:
        """Returns the properties of each namespace that has any, by its name."""
        properties: dict[str, dict[str, str]] = {}
        for namespace, key, value in self._select(_NAMESPACES):
            properties.setdefault(namespace, {})[key] = value
        return properties

    def apply_changes(self, changes: Sequence[PointerChange]) -> list[TableName]:
        """Applies changes of pointers in one transaction, if each table still has the pointer from before its change.

        Returns the tables that have another one; if there are any, nothing was changed. A table that has the pointer
        after its change already counts as changed, so a call can be repeated if its result was lost.
        """
        from sqlalchemy.exc import IntegrityError

        ordered = sorted(changes, key=lambda change: change.table)
        try:
            with self._get_sql_engine().connect() as connection, connection.begin() as transaction:
                others = [change.table for change in ordered if not self._apply_change(connection, change)]
                if others:
                    transaction.rollback()
        except IntegrityError:  # Another writer has created one of the tables at the same time.
            return [change.table for change in ordered if change.before is None]
        return others

    def _apply_change(self, connection: Any, change: PointerChange) -> bool:
        """Changes the pointer of one table; returns whether it has the wanted one now."""
        from pyiceberg.catalog.sql import IcebergTables as Tables
        from sqlalchemy import delete, insert, select, update

        before, after = change.before, change.after
        here = {
            "catalog_name": self._profile.catalog,
            "table_namespace": change.table.schema,
            "table_name": change.table.name,
        }
        known = connection.execute(select(Tables.metadata_location).filter_by(**here)).scalar()
        wanted = after.file if after else None
        if known == wanted:
            return True
        if known != (before.file if before else None):
            return False
        if after is None:
            result = connection.execute(delete(Tables).filter_by(**here, metadata_location=known))
        elif before is None:
            result = connection.execute(
                insert(Tables).values(**here, metadata_location=wanted, iceberg_type=after.kind)
            )
        else:
            values = {
                "metadata_location": wanted,
                "previous_metadata_location": known,
                "iceberg_type": after.kind,
            }
            result = connection.execute(update(Tables).filter_by(**here, metadata_location=known).values(**values))
        return int(result.rowcount) == 1

    def read_metadata_text(self, location: str) -> bytes:
        """Returns the text of a metadata file; the files that were read or written last are kept in memory."""
        return self._texts.get(location, lambda: self._read_file(location))

    def keep_metadata_text(self, location: str, text: bytes) -> None:
        """Keeps the text of a metadata file, which never changes, for reads that follow."""
        self._texts.put(location, text)

    def _read_file(self, location: str) -> bytes:
        content = self._read_stored(location)
        return gzip.decompress(content) if location.endswith(".gz.metadata.json") else content

    def _read_stored(self, location: str) -> bytes:
        path = find_local_path(location)
        if path is not None and self._file_properties.get(PYTHON_FILE_IO) == LOCAL_FILE_IO:
            return read_checked_file(path, location)
        from pyiceberg.io import load_file_io

        with load_file_io(self._file_properties, location).new_input(location).open() as stream:
            return stream.read()

    @cached_property
    def _file_properties(self) -> dict[str, Any]:
        """Properties by which pyiceberg finds the class that reads files; those of a local disk need no catalog."""
        own = self._profile.build_pyiceberg_properties() or {}
        return own if own.get(PYTHON_FILE_IO) == LOCAL_FILE_IO else self._open().properties

    def _select(self, query: str, **values: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a query, whose parameters are `:catalog` and the names of `values`."""
        parameters = {"catalog": self._profile.catalog, **values}
        if self._sqlite is not None:
            self._prepare()
            return self._sqlite.select(query, parameters)
        from sqlalchemy import text

        with self._get_sql_engine().connect() as connection:
            return [tuple(row) for row in connection.execute(text(query), parameters)]

    def _get_sql_engine(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = self._open()
        assert isinstance(catalog, SqlCatalog)
        return catalog.engine


class _CatalogOfTable:
    """The pyiceberg catalog of a loaded table, which is opened if the table is changed or loaded again."""

    def __init__(self, open_catalog: Callable[[], Catalog]) -> None:
        self._open = open_catalog

    def supports_server_side_planning(self) -> bool:
        """Returns False: a database plans no scans, and pyiceberg asks before each."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open(), name)


def _get_file_bytes(metadata: JsonMetadata | None) -> int:
    return 0 if metadata is None else metadata.file_bytes


def _parse_json_metadata(text: bytes) -> JsonMetadata | None:
    """Parses a table's metadata from JSON; None if its format version is too old."""
    described = json.loads(text)
    return JsonMetadata.parse(described, len(text)) if described["format-version"] >= OLDEST_VERSION else None


def _parse_metadata(text: bytes) -> TableMetadata:
    """Parses a table's metadata from JSON.

    Types that pyiceberg does not know are replaced by types that it can read (`foreign_types`).
    """
    from pydantic import ValidationError
    from pyiceberg.exceptions import ValidationError as MetadataError
    from pyiceberg.table.metadata import TableMetadataUtil

    try:
        return TableMetadataUtil.parse_raw(text.decode())
    except (ValidationError, MetadataError):
        return TableMetadataUtil.parse_obj(make_readable(json.loads(text)))


def follow_file(engine: Any, file: Path) -> None:
    """Sets up an SQLAlchemy engine to use only connections to the current `file`, and never to create the file.

    Without this, a connection continues to use a file that was moved away or replaced; and a connection that is opened
    while the file is missing creates an empty database in its place, and stays connected to it when the file is back.
    """
    from sqlalchemy import event
    from sqlalchemy.exc import DisconnectionError

    def check_file_exists(*_: object) -> None:
        if not file.exists():
            raise sqlite3.OperationalError(f"unable to open database file: there is no {file}")

    def record_file(_: object, record: Any) -> None:
        record.info["file"] = get_identity(file)

    def check_same_file(_: object, record: Any, __: object) -> None:
        now = get_identity(file)
        if now is None or record.info.setdefault("file", now) != now:
            raise DisconnectionError(f"{file} is another file by now")

    event.listen(engine, "do_connect", check_file_exists)
    event.listen(engine, "connect", record_file)
    event.listen(engine, "checkout", check_same_file)
