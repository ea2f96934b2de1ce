"""The file of a branch: an Iceberg JDBC catalog in SQLite, with a second table of the pointers at its beginning."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange
from arctic_runtime.catalog.storage.embedded_warehouse import CATALOG_TABLES
from arctic_runtime.effects import perform_effect
from arctic_runtime.model.names import TableName

_TABLES = ("iceberg_tables", "iceberg_namespace_properties", "arctic_start", "arctic_properties")
_EMPTY = tuple(f"delete from {table}" for table in _TABLES)
_START = """create table if not exists arctic_start (
    table_namespace text not null,
    table_name text not null,
    kind text not null,
    origin_file text not null,
    copy_file text,
    primary key (table_namespace, table_name))"""
_PROPERTIES = (
    "create table if not exists arctic_properties (property_key text primary key, property_value text not null)"
)
_INSERT_TABLE = (
    "insert into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
    "values (?, ?, ?, ?, ?)"
)


class BranchFile:
    """Reads and writes the pointers of a branch in the SQLite file `file`.

    `catalog` is the name of the catalog. Methods may be called from any thread and while Spark uses the branch.
    """

    def __init__(self, file: Path, catalog: str, lock_wait_seconds: float) -> None:
        self.file = file
        self._catalog = catalog
        self._wait = lock_wait_seconds

    def create_file(
        self,
        pointers: Iterable[Pointer],
        namespaces: Mapping[str, Mapping[str, str]],
        file_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Creates the file with these pointers, and with the properties of each namespace, by its name.

        `file_properties` are properties by which the files of tables are reached, without secrets. If the file exists,
        it has nothing else afterwards.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        known = list(pointers)
        with closing(sqlite3.connect(self.file, timeout=self._wait)) as connection:
            connection.execute("pragma journal_mode=wal")
            with connection:
                for statement in (*CATALOG_TABLES, _START, _PROPERTIES, *_EMPTY):
                    connection.execute(statement)
                connection.executemany("insert into arctic_properties values (?, ?)", (file_properties or {}).items())
                connection.executemany(
                    _INSERT_TABLE,
                    [(self._catalog, *_split_name(pointer), pointer.file, pointer.kind) for pointer in known],
                )
                connection.executemany(
                    "insert into arctic_start (table_namespace, table_name, kind, origin_file) values (?, ?, ?, ?)",
                    [(*_split_name(pointer), pointer.kind, pointer.file) for pointer in known],
                )
                connection.executemany(
                    "insert into iceberg_namespace_properties values (?, ?, ?, ?)",
                    [
                        (self._catalog, namespace, key, value)
                        for namespace, properties in namespaces.items()
                        for key, value in {"exists": "true", **properties}.items()
                    ],
                )

    def read_file_properties(self) -> dict[str, str]:
        """Returns the properties by which the files of tables are reached, as far as the branch notes them."""
        with self._open_file() as connection:
            return dict(connection.execute("select property_key, property_value from arctic_properties").fetchall())

    def find_start(self, table: TableName) -> Pointer | None:
        """Returns the pointer of a table or view that the branch has not changed yet; None for any other."""
        query = (
            "select kind, origin_file from arctic_start natural join iceberg_tables "
            "where table_namespace = ? and table_name = ? and metadata_location = origin_file and copy_file is null"
        )
        with self._open_file() as connection:
            row = connection.execute(query, (table.schema, table.name)).fetchone()
        return None if row is None else Pointer(table, *row)

    def replace_start(self, start: Pointer, copy: str) -> bool:
        """Makes `copy` the current metadata file of a table that has not changed yet; returns whether it had not.

        It counts as unchanged after that too.
        """
        name = (start.table.schema, start.table.name)
        with self._open_file() as connection:
            swapped = connection.execute(
                "update iceberg_tables set metadata_location = ? "
                "where table_namespace = ? and table_name = ? and metadata_location = ?",
                (copy, *name, start.file),
            ).rowcount
            if swapped:
                connection.execute(
                    "update arctic_start set copy_file = ? where table_namespace = ? and table_name = ?", (copy, *name)
                )
        return swapped == 1

    def list_changes(self) -> list[PointerChange]:
        """Lists the tables and views that differ from the beginning of the branch, in the order of their names."""
        with self._open_file() as connection:
            start = connection.execute("select table_namespace, table_name, kind, origin_file from arctic_start")
            before = {(namespace, name): (kind, file) for namespace, name, kind, file in start}
            current = connection.execute(
                "select table_namespace, table_name, coalesce(iceberg_type, 'TABLE'), metadata_location "
                "from iceberg_tables where catalog_name = ?",
                (self._catalog,),
            )
            after = {(namespace, name): (kind, file) for namespace, name, kind, file in current}
        copies = {copy: original for original, copy in self.list_copies().values()}
        return list(self._list_differences(before, {n: (kind, copies.get(f, f)) for n, (kind, f) in after.items()}))

    def list_copies(self) -> dict[TableName, tuple[str, str]]:
        """Maps each table with a copy of its metadata file to that file, current at the beginning, and to the copy."""
        query = (
            "select table_namespace, table_name, origin_file, copy_file from arctic_start where copy_file is not null"
        )
        with self._open_file() as connection:
            rows = connection.execute(query).fetchall()
        return {TableName(self._catalog, namespace, name): (file, copy) for namespace, name, file, copy in rows}

    def _list_differences(
        self, before: Mapping[tuple[str, str], tuple[str, str]], after: Mapping[tuple[str, str], tuple[str, str]]
    ) -> Iterator[PointerChange]:
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                table = TableName(self._catalog, *name)
                old, new = (Pointer(table, *side[name]) if name in side else None for side in (before, after))
                yield PointerChange(table, old, new)

    @contextmanager
    def _open_file(self) -> Iterator[sqlite3.Connection]:
        """Opens the file for one transaction."""
        with closing(sqlite3.connect(self.file, timeout=self._wait)) as connection, connection:
            yield connection


def remove_branch_file(file: Path) -> None:
    """Removes the file of a branch, with those that SQLite keeps beside it."""

    def remove_files() -> None:
        for part in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
            part.unlink(missing_ok=True)

    perform_effect("build.remove", remove_files, f"remove {file}")


def _split_name(pointer: Pointer) -> tuple[str, str]:
    return pointer.table.schema, pointer.table.name
