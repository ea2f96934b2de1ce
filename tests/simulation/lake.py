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
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

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
    "double": DoubleType(),
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

    get = __getitem__


@dataclass(frozen=True)
class Snapshot:
    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int
    summary: Summary
    files: tuple[str, ...]
    schema_id: int = 0
    deleted: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """The places of the rows of each file that a deletion vector marks as deleted."""


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
    address: str = ""

    @property
    def file(self) -> str:
        return self.address or f"{'.'.join(self.what.name)}/{self.number:05}.metadata.json"


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

        self.metadata: dict[str, Metadata | View] = {}
        """Every metadata file, by its address."""

        self.records: dict[str, bytes] = {}
        """Records of publications, by their address."""

        self.letters: list[tuple[int, tuple[Any, ...]]] = []
        """The dead letters after each change of these, with the number of its snapshot, oldest first."""

        self.namespaces: dict[str, dict[str, str]] = {name: {} for name in ("ods", "dwd", "dws")}
        self.commits = 0
        self._loaded: dict[int, Table] = {}
        self._clock = clock
        self._numbers = [0]

    def count(self) -> int:
        self._numbers[0] += 1
        return self._numbers[0]

    def begin_branch(self) -> Catalog:
        """Returns a catalog without pointers, which has the same files as this one."""
        branch = Catalog(self._clock)
        branch.files, branch.metadata, branch.records = self.files, self.metadata, self.records
        branch._numbers = self._numbers
        return branch

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

    def list_rows(self, snapshot: Snapshot) -> Iterator[tuple[int, int, Any]]:
        """Yields the rows of a snapshot, each with the number of the commit that added it and its place in its file."""
        for file in self.read_files(snapshot.files):
            deleted = snapshot.deleted.get(file.path, frozenset())
            for place, row in enumerate(file.rows):
                if place not in deleted:
                    yield file.sequences[place] if file.sequences else file.sequence, place, row

    def delete_file(self, path: str) -> None:
        if self.files.pop(path, None) is None:
            raise FileNotFoundError(path)

    # Commits

    def put(self, what: Metadata | View, address: str = "") -> None:
        kind = "table" if isinstance(what, Metadata) else "view"
        pointer = self.pointers[what.name] = Pointer(self.count(), kind, what, address)
        self.metadata[pointer.file] = what
        self.commits += 1
        if isinstance(what, View) and PINNED_HEAD in what.properties:
            self.heads_of_views.setdefault(what.name, []).append(int(what.properties[PINNED_HEAD]))

    def set_pointer(self, name: Name, file: str | None) -> None:
        """Makes a metadata file the current one of a table or view; None drops it."""
        if file is None:
            self.pointers.pop(name, None)
            return
        what = self.metadata[file]
        self.put(what, file)
        for one in what.snapshots if isinstance(what, Metadata) else ():
            self.made[what.table_uuid, one.sequence_number] = one

    def describe_metadata(self, address: str) -> dict[str, Any]:
        """Describes a metadata file, as far as builds read and change it."""
        what = self.metadata[address]
        known: dict[str, Any] = {
            "simulated-file": address,
            "location": "/".join(what.name),
            "properties": dict(what.properties),
            "last-updated-ms": 0,
        }
        if isinstance(what, Metadata):
            known |= {
                "table-uuid": what.table_uuid,
                "current-snapshot-id": what.current_snapshot_id,
                "snapshots": [{"snapshot-id": one.snapshot_id} for one in what.snapshots],
                "refs": {name: ref.model_dump() for name, ref in what.refs.items()},
            }
        return known

    def write_metadata(self, address: str, described: Mapping[str, Any]) -> None:
        """Writes a metadata file that differs from another one in its properties, branches and tags."""
        what = self.metadata[described["simulated-file"]]
        if isinstance(what, Metadata):
            refs = {name: Ref(ref["snapshot-id"], ref["type"]) for name, ref in described["refs"].items()}
            what = replace(what, refs=refs)
        self.metadata[address] = replace(what, properties=described["properties"])

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
        deleted: Mapping[str, frozenset[int]] = {},
    ) -> None:
        """Commits files to a branch; with `expected`, only if the branch is at that snapshot.

        `deleted` has the places of further rows of its files that are deleted.
        """
        table = self.get_table(name)
        tip = table.refs.get(branch, table.refs.get("main"))
        if expected is not None and (tip is None or tip.snapshot_id != expected):
            raise Refused("org.apache.iceberg.exceptions.ValidationException", "Found conflicting files")
        self.put(self._add_snapshot(table, branch, operation, added, summary, removed, deleted))

    def _add_snapshot(
        self,
        table: Metadata,
        branch: str,
        operation: str,
        added: tuple[str, ...],
        summary: Mapping[str, str],
        removed: frozenset[str],
        deleted: Mapping[str, frozenset[int]] = {},
    ) -> Metadata:
        tip = table.refs.get(branch, table.refs.get("main"))
        parent = table.find(tip.snapshot_id) if tip else None
        sequence = table.last_sequence + 1
        for path in added:
            if not self.files[path].sequences:
                self.files[path] = replace(self.files[path], sequence=sequence)
        files = tuple(path for path in (parent.files if parent else ()) if path not in removed) + added
        rows = sum(len(self.files[path].rows) for path in added)
        known = parent.deleted if parent else {}
        gone = {
            path: places for path in files if (places := known.get(path, frozenset()) | deleted.get(path, frozenset()))
        }
        left = sum(len(file.rows) for file in self.read_files(files)) - sum(map(len, gone.values()))
        numbers = {
            "added-records": str(rows),
            "added-files-size": str(len(added) * FILE_BYTES),
            "total-records": str(left),
            "total-files-size": str(len(files) * FILE_BYTES),
        }
        made = Snapshot(
            self.count(),
            parent.snapshot_id if parent else None,
            sequence,
            round(self._clock() * 1000),
            Summary(operation, {**numbers, **summary}),
            files,
            deleted=gone,
        )
        self.made[table.table_uuid, sequence] = made
        refs = {**table.refs, branch: Ref(made.snapshot_id, "branch")}
        return replace(table, snapshots=(*table.snapshots, made), refs=refs, last_sequence=sequence)

    def replace_table(
        self, name: Name, properties: Mapping[str, str], rows: Iterable[Any], expected: int | None
    ) -> None:
        """Creates a table with these rows if `expected` is None; else replaces its rows, if that is its snapshot."""
        found = self.find_table(name)
        if (found.current_snapshot_id if found is not None else None) != expected:
            raise Refused("org.apache.iceberg.exceptions.CommitFailedException", f"{name} is not at {expected}")
        table = found or Metadata(name, f"uuid-{self.count()}", (), dict(properties))
        head = table.find(table.current_snapshot_id)
        gone = frozenset(head.files if head is not None else ())
        self.put(self._add_snapshot(table, "main", "overwrite", (self.write_file(name, rows),), {}, gone))

    def drop_table(self, name: Name) -> None:
        """Drops a table with its files, if it exists."""
        table = self.find_table(name)
        if table is not None:
            del self.pointers[name]
            for path in {path for one in table.snapshots for path in one.files}:
                self.files.pop(path, None)

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

    @property
    def io(self) -> SimpleNamespace:
        return SimpleNamespace(delete=self._catalog.delete_file)

    def transaction(self) -> Transaction:
        """A commit on top of this version of the table."""
        return Transaction(self)

    @contextmanager
    def update_schema(self) -> Iterator[SimpleNamespace]:
        """Adds columns in one commit."""
        added: list[Column] = []
        kinds = {str(kind): name for name, kind in TYPES.items()}
        yield SimpleNamespace(add_column=lambda name, kind: added.append(Column(name, kinds[str(kind)])))
        self._check_current()
        self._catalog.put(replace(self.metadata, columns=(*self.metadata.columns, *added)))

    def scan(self, row_filter: BooleanExpression, selected_fields: tuple[str, ...] = ("*",)) -> Scan:
        """Reads the rows of the newest snapshot that meet a condition."""
        return Scan(self._catalog, self.metadata, self._schema, row_filter)

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


class Scan:
    """A scan of a table as pyiceberg has it; a file is read if one of its rows meets the condition."""

    def __init__(self, catalog: Catalog, table: Metadata, schema: Schema, condition: BooleanExpression) -> None:
        self._catalog = catalog
        self._table = table
        self._columns = [column.name for column in table.columns]
        self._is_met = expression_evaluator(schema, condition, case_sensitive=True)

    def plan_files(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(file=SimpleNamespace(file_path=file.path)) for file, rows in self._read() if rows]

    def to_arrow(self) -> SimpleNamespace:
        rows = [dict(zip(self._columns, row, strict=True)) for _, found in self._read() for row in found]
        return SimpleNamespace(to_pylist=lambda: rows)

    def list_files(self) -> list[str]:
        """Lists the files with rows that meet the condition, by what manifests know of them; also those deleted since.

        A file that was deleted was replaced, so that a commit which removes it is refused anyway.
        """
        head = self._table.find(self._table.current_snapshot_id)
        files = self._catalog.files
        return [
            path
            for path in (head.files if head is not None else ())
            if path not in files or any(self._is_met(Record(*map(_to_stored, row))) for row in files[path].rows)
        ]

    def _read(self) -> Iterator[tuple[File, list[Row]]]:
        head = self._table.find(self._table.current_snapshot_id)
        for path in head.files if head is not None else ():
            if path not in self._catalog.files:
                raise FileNotFoundError(path)
            file = self._catalog.files[path]
            yield file, [row for row in file.rows if self._is_met(Record(*map(_to_stored, row)))]


def _to_stored(value: Any) -> Any:
    """Returns a value as pyiceberg's records have it: times as microseconds since 1970."""
    return round(value.timestamp() * 1_000_000) if hasattr(value, "timestamp") else value


class Transaction:
    """A transaction of pyiceberg: its changes are committed together, if the table is still as it was loaded."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._actions: list[Callable[[Catalog, Name], None]] = []
        self.added: list[str] = []

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.commit_transaction()

    def commit_transaction(self) -> None:
        self._table._check_current()
        for action in self._actions:
            action(self._table._catalog, self._table.metadata.name)

    def set_properties(self, values: Mapping[str, str]) -> None:
        self._actions.append(lambda catalog, name: catalog.set_properties(name, values))

    def update_snapshot(self, summary: Mapping[str, str]) -> SimpleNamespace:
        @contextmanager
        def fast_append() -> Iterator[None]:
            yield
            self._actions.append(lambda catalog, name: catalog.commit(name, "main", "append", (), summary))

        return SimpleNamespace(fast_append=fast_append)

    def append(self, rows: Any) -> None:
        self._write("append", rows, ())

    def overwrite(self, rows: Any, overwrite_filter: BooleanExpression) -> None:
        self._write("overwrite", rows, self._table.scan(overwrite_filter).list_files())

    def _write(self, operation: str, rows: Any, removed: Iterable[str]) -> None:
        catalog = self._table._catalog
        path = catalog.write_file(self._table.metadata.name, [tuple(row.values()) for row in rows.to_pylist()])
        self.added.append(path)
        gone = frozenset(removed)
        self._actions.append(lambda catalog, name: catalog.commit(name, "main", operation, (path,), {}, gone))


def list_added_files(transaction: Transaction) -> list[str]:
    """Lists the files that a transaction has written."""
    return transaction.added


class Pyiceberg:
    """The catalog as pyiceberg opens it, as far as the runtime uses it directly."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.properties: dict[str, Any] = {"lake": catalog, "warehouse": "s3://lake"}

    def create_namespace_if_not_exists(self, namespace: tuple[str, ...]) -> None:
        """Namespaces need no creation here."""

    def namespace_exists(self, namespace: tuple[str]) -> bool:
        return namespace[0] in self._catalog.namespaces

    def load_namespace_properties(self, namespace: tuple[str]) -> dict[str, str]:
        return dict(self._catalog.namespaces[namespace[0]])

    def update_namespace_properties(
        self, namespace: tuple[str], removals: Iterable[str] = (), updates: Mapping[str, str] = {}
    ) -> None:
        own = self._catalog.namespaces[namespace[0]]
        own |= updates
        for key in removals:
            own.pop(key, None)

    def list_namespaces(self) -> list[tuple[str]]:
        return [(schema,) for schema in sorted({name[0] for name in self._catalog.pointers})]

    def create_table(self, name: Name, schema: Schema, properties: Mapping[str, str]) -> None:
        if name in self._catalog.pointers:
            raise TableAlreadyExistsError(str(name))
        self._catalog.create_table(name, (), properties, None)
