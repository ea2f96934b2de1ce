"""A catalog and a store of files in memory, with tables that pyiceberg's could be, for the runtime's own observation.

Modelled after Iceberg: the catalog has a pointer to the metadata of each table and view; metadata never changes, and a
commit is a new one that is swapped in. A table has snapshots with lists of files, branches and tags. A commit to a
branch that is not there makes it anew, on top of main. What a snapshot adds has its sequence number. Files that only
expired snapshots have are deleted with these. Data files are modelled, metadata files are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, IntegerType, LongType, NestedField, StringType, TimestamptzType

from arctic_runtime.catalog.reader import ColumnInfo, RelationInfo
from arctic_runtime.model.columns import Column
from arctic_runtime.model.properties import PINNED_HEAD

Row = tuple[Any, ...]
Name = tuple[str, str]
"""Schema and name of a table or view."""

TYPES = {
    "bigint": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "boolean": BooleanType(),
    "timestamp": TimestamptzType(),
}
FILE_BYTES = 1000


class Refused(Exception):
    """A commit that Iceberg refuses, with the Java exception by which it says so."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class FileGone(Exception):
    """A file that a snapshot has was deleted."""


@lru_cache(maxsize=64)
def build_schema(columns: tuple[Column, ...]) -> Schema:
    fields = (
        NestedField(number, column.name, TYPES[column.type], required=False) for number, column in enumerate(columns, 1)
    )
    return Schema(*fields, schema_id=0)


@dataclass(frozen=True)
class Ref:
    snapshot_id: int
    snapshot_ref_type: str

    def model_dump(self, **_: object) -> dict[str, int | str]:
        """Returns the fields as Iceberg's metadata has them, as pyiceberg's method does."""
        return {"snapshot-id": self.snapshot_id, "type": self.snapshot_ref_type}


class Summary:
    """The summary of a snapshot, as pyiceberg has it."""

    def __init__(self, operation: str, entries: Mapping[str, str]) -> None:
        self.operation = SimpleNamespace(value=operation)
        self.additional_properties = dict(entries)

    def __getitem__(self, key: str) -> str | None:
        return self.additional_properties.get(key)


@dataclass(frozen=True)
class Snapshot:
    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    summary: Summary
    files: tuple[str, ...]
    schema_id: int = 0


@dataclass(frozen=True)
class File:
    """Rows of a data file. A row of a change table is its action, the row after it, and the one before.

    `sequence` is the number of the commit that added its rows; a rewritten file has those of each row.
    """

    path: str
    rows: tuple[Any, ...]
    created: float
    sequence: int = 0
    sequences: tuple[int, ...] = ()


@dataclass(frozen=True)
class Metadata:
    name: Name
    table_uuid: str
    columns: tuple[Column, ...]
    properties: Mapping[str, str]
    snapshots: tuple[Snapshot, ...] = ()
    refs: Mapping[str, Ref] = field(default_factory=dict)
    last_sequence: int = 0
    format_version: int = 3
    default_sort_order_id: int = 0

    @property
    def current_snapshot_id(self) -> int | None:
        main = self.refs.get("main")
        return main.snapshot_id if main else None

    def find(self, snapshot: int | None) -> Snapshot | None:
        return next((one for one in self.snapshots if one.snapshot_id == snapshot), None)

    def walk(self, snapshot: int | None) -> Iterator[Snapshot]:
        by_id = {one.snapshot_id: one for one in self.snapshots}
        while snapshot is not None and snapshot in by_id:
            yield by_id[snapshot]
            snapshot = by_id[snapshot].parent_snapshot_id


@dataclass(frozen=True)
class View:
    name: Name
    columns: tuple[Column, ...]
    properties: Mapping[str, str]
    sql: str


@dataclass(frozen=True)
class Pointer:
    """What the catalog has under a name; `number` changes with each commit."""

    number: int
    kind: str
    what: Metadata | View

    @property
    def file(self) -> str:
        return f"{'.'.join(self.what.name)}/{self.number:05}.metadata.json"


Pointers = Mapping[Name, Pointer]


class Catalog:
    """The pointers of all tables and views, and the files. Every method that changes something is one atomic commit."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.pointers: dict[Name, Pointer] = {}
        self.files: dict[str, File] = {}
        self.made: dict[tuple[str, int], Snapshot] = {}
        """Every snapshot that was ever committed, by the table's id and its number."""

        self.heads_of_views: dict[Name, list[int]] = {}
        """The snapshots of change tables up to which each view has ever read, oldest first."""

        self.commits = 0
        self._loaded: dict[int, Table] = {}
        self._clock = clock
        self._numbers = 0

    def count(self) -> int:
        self._numbers += 1
        return self._numbers

    # Reads

    def find_table(self, name: Name) -> Metadata | None:
        pointer = self.pointers.get(name)
        return pointer.what if pointer is not None and isinstance(pointer.what, Metadata) else None

    def get_table(self, name: Name) -> Metadata:
        table = self.find_table(name)
        if table is None:
            raise Refused("org.apache.iceberg.exceptions.NoSuchTableException", f"Table does not exist: {name}")
        return table

    def read_files(self, paths: Iterable[str]) -> Iterator[File]:
        for path in paths:
            if path not in self.files:
                raise FileGone(path)
            yield self.files[path]

    # Commits

    def put(self, what: Metadata | View) -> None:
        kind = "table" if isinstance(what, Metadata) else "view"
        self.pointers[what.name] = Pointer(self.count(), kind, what)
        self.commits += 1
        if isinstance(what, View) and PINNED_HEAD in what.properties:
            self.heads_of_views.setdefault(what.name, []).append(int(what.properties[PINNED_HEAD]))

    def write_file(self, name: Name, rows: Iterable[Any], sequences: tuple[int, ...] = ()) -> str:
        path = f"{'.'.join(name)}/data-{self.count():05}.parquet"
        self.files[path] = File(path, tuple(rows), self._clock(), sequences=sequences)
        return path

    def create_table(
        self,
        name: Name,
        columns: tuple[Column, ...],
        properties: Mapping[str, str],
        commit: tuple[tuple[str, ...], Mapping[str, str]] | None,
    ) -> None:
        if name in self.pointers:
            raise Refused("org.apache.iceberg.exceptions.AlreadyExistsException", f"Table already exists: {name}")
        table = Metadata(name, f"uuid-{self.count()}", columns, dict(properties))
        if commit is not None:
            table = self._add_snapshot(table, "main", "append", *commit, removed=frozenset())
        self.put(table)

    def commit(
        self,
        name: Name,
        branch: str,
        operation: str,
        added: tuple[str, ...],
        summary: Mapping[str, str],
        removed: frozenset[str] = frozenset(),
        expected: int | None = None,
    ) -> None:
        """Commits files to a branch; with `expected`, only if the branch is at that snapshot."""
        table = self.get_table(name)
        tip = table.refs.get(branch, table.refs.get("main"))
        if expected is not None and (tip is None or tip.snapshot_id != expected):
            raise Refused("org.apache.iceberg.exceptions.ValidationException", "Found conflicting files")
        self.put(self._add_snapshot(table, branch, operation, added, summary, removed))

    def _add_snapshot(
        self,
        table: Metadata,
        branch: str,
        operation: str,
        added: tuple[str, ...],
        summary: Mapping[str, str],
        removed: frozenset[str],
    ) -> Metadata:
        tip = table.refs.get(branch, table.refs.get("main"))
        parent = table.find(tip.snapshot_id) if tip else None
        sequence = table.last_sequence + 1
        for path in added:
            if not self.files[path].sequences:
                self.files[path] = replace(self.files[path], sequence=sequence)
        files = tuple(path for path in (parent.files if parent else ()) if path not in removed) + added
        rows = sum(len(self.files[path].rows) for path in added)
        numbers = {
            "added-records": str(rows),
            "added-files-size": str(len(added) * FILE_BYTES),
            "total-records": str(sum(len(file.rows) for file in self.read_files(files))),
            "total-files-size": str(len(files) * FILE_BYTES),
        }
        made = Snapshot(
            self.count(),
            parent.snapshot_id if parent else None,
            sequence,
            round(self._clock() * 1000),
            Summary(operation, {**numbers, **summary}),
            files,
        )
        self.made[table.table_uuid, sequence] = made
        refs = {**table.refs, branch: Ref(made.snapshot_id, "branch")}
        return replace(table, snapshots=(*table.snapshots, made), refs=refs, last_sequence=sequence)

    def set_properties(self, name: Name, values: Mapping[str, str]) -> None:
        table = self.get_table(name)
        self.put(replace(table, properties={**table.properties, **values}))

    def create_branch(self, name: Name, branch: str, snapshot: int) -> None:
        table = self.get_table(name)
        if branch in table.refs:
            raise Refused("java.lang.IllegalArgumentException", f"Ref {branch} already exists")
        self._set_ref(table, branch, Ref(snapshot, "branch"))

    def set_tag(self, name: Name, tag: str, snapshot: int) -> None:
        self._set_ref(self.get_table(name), tag, Ref(snapshot, "tag"))

    def _set_ref(self, table: Metadata, name: str, ref: Ref) -> None:
        if table.find(ref.snapshot_id) is None:
            message = f"Cannot set {name} to unknown snapshot: {ref.snapshot_id}"
            raise Refused("org.apache.iceberg.exceptions.ValidationException", message)
        self.put(replace(table, refs={**table.refs, name: ref}))

    def drop_ref(self, name: Name, ref: str) -> None:
        table = self.find_table(name)
        if table is not None and ref in table.refs:
            self.put(replace(table, refs={key: value for key, value in table.refs.items() if key != ref}))

    def fast_forward(self, name: Name, branch: str) -> None:
        table = self.get_table(name)
        if branch not in table.refs:
            raise Refused("java.lang.IllegalArgumentException", f"Ref does not exist: {branch}")
        tip, main = table.refs[branch].snapshot_id, table.current_snapshot_id
        if main is not None and main not in [one.snapshot_id for one in table.walk(tip)]:
            message = f"Cannot fast-forward: main is not an ancestor of {branch}"
            raise Refused("java.lang.IllegalArgumentException", message)
        self.put(replace(table, refs={**table.refs, "main": Ref(tip, "branch")}))

    def expire(self, name: Name, ids: Iterable[int], deletes_files: bool = True) -> None:
        """Removes snapshots, and the files that no other snapshot of the table has."""
        table, gone = self.get_table(name), set(ids)
        if gone & {ref.snapshot_id for ref in table.refs.values()}:
            message = "Cannot expire snapshots. Still referenced by refs"
            raise Refused("java.lang.IllegalArgumentException", message)
        kept = tuple(one for one in table.snapshots if one.snapshot_id not in gone)
        needed = {path for one in kept for path in one.files}
        self.put(replace(table, snapshots=kept))
        for one in table.snapshots:
            for path in one.files if deletes_files and one.snapshot_id in gone else ():
                if path not in needed:
                    self.files.pop(path, None)

    def list_orphans(self, name: Name, before: float) -> list[str]:
        table = self.get_table(name)
        needed = {path for one in table.snapshots for path in one.files}
        folder = f"{'.'.join(name)}/"
        return [
            file.path
            for file in self.files.values()
            if file.path.startswith(folder) and file.path not in needed and file.created < before
        ]

    # As pyiceberg

    def load_table(self, name: Name) -> Table:
        pointer = self.pointers.get(name)
        if pointer is None or not isinstance(pointer.what, Metadata):
            raise NoSuchTableError(f"Table does not exist: {name}")
        if pointer.number not in self._loaded:
            self._loaded[pointer.number] = Table(self, pointer, pointer.what)
        return self._loaded[pointer.number]

    def load_view(self, name: Name) -> RelationInfo:
        pointer = self.pointers.get(name)
        if pointer is None or not isinstance(pointer.what, View):
            raise NoSuchViewError(f"View does not exist: {name}")
        view = pointer.what
        columns = tuple(ColumnInfo(column.name, column.type) for column in view.columns)
        return RelationInfo(*name, "view", columns, dict(view.properties), view.sql)


class Table:
    """A table as pyiceberg loads it, as far as the runtime uses it."""

    def __init__(self, catalog: Catalog, pointer: Pointer, metadata: Metadata) -> None:
        self.metadata = metadata
        self.metadata_location = pointer.file
        self.format_version = metadata.format_version
        self.properties = metadata.properties
        self.maintenance = SimpleNamespace(expire_snapshots=self._begin_expiry)
        self._schema = build_schema(metadata.columns)
        self._schemas = {0: self._schema}
        self._catalog = catalog
        self._number = pointer.number

    def name(self) -> Name:
        return self.metadata.name

    def location(self) -> str:
        return "/".join(self.metadata.name)

    def schema(self) -> Schema:
        return self._schema

    def schemas(self) -> dict[int, Schema]:
        return self._schemas

    def current_snapshot(self) -> Snapshot | None:
        return self.metadata.find(self.metadata.current_snapshot_id)

    def snapshot_by_id(self, snapshot: int) -> Snapshot | None:
        return self.metadata.find(snapshot)

    @contextmanager
    def transaction(self) -> Iterator[_Transaction]:
        """A commit on top of this version of the table."""
        transaction = _Transaction()
        yield transaction
        self._check_current()
        for action in transaction.actions:
            action(self._catalog, self.metadata.name)

    def _check_current(self) -> None:
        pointer = self._catalog.pointers.get(self.metadata.name)
        if pointer is None or pointer.number != self._number:
            raise CommitFailedException("the table has changed")

    def _begin_expiry(self) -> SimpleNamespace:
        def by_ids(ids: list[int]) -> SimpleNamespace:
            def commit() -> None:
                self._check_current()
                self._catalog.expire(self.metadata.name, ids, deletes_files=False)

            return SimpleNamespace(commit=commit)

        return SimpleNamespace(by_ids=by_ids)


class _Transaction:
    def __init__(self) -> None:
        self.actions: list[Callable[[Catalog, Name], None]] = []

    def set_properties(self, values: Mapping[str, str]) -> None:
        self.actions.append(lambda catalog, name: catalog.set_properties(name, values))

    def update_snapshot(self, summary: Mapping[str, str]) -> SimpleNamespace:
        @contextmanager
        def fast_append() -> Iterator[None]:
            yield
            self.actions.append(lambda catalog, name: catalog.commit(name, "main", "append", (), summary))

        return SimpleNamespace(fast_append=fast_append)


class Pyiceberg:
    """The catalog as pyiceberg opens it, as far as the runtime uses it directly."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.properties: dict[str, str] = {}

    def create_namespace_if_not_exists(self, namespace: tuple[str, ...]) -> None:
        """Namespaces need no creation here."""

    def list_namespaces(self) -> list[tuple[str]]:
        return [(schema,) for schema in sorted({name[0] for name in self._catalog.pointers})]

    def create_table(self, name: Name, schema: Schema, properties: Mapping[str, str]) -> None:
        if name in self._catalog.pointers:
            raise TableAlreadyExistsError(str(name))
        self._catalog.create_table(name, (), properties, None)
