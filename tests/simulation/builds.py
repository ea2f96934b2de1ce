"""Builds that are published as a whole (`publish: build`), by the runtime's own branch over the simulated catalog.

A branch is a catalog of its own here, which shares the files of the simulated one. The publication is the runtime's:
in one transaction, as of a catalog in a database, or one table after another, as of a Hive Metastore, with a record
that the next build completes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyiceberg.io

from arctic_runtime.catalog.branch import publication_record
from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.catalog.branch.catalog_pointers import (
    BranchScope,
    CatalogPointers,
    Pointer,
    PointerChange,
    sort_changes,
)
from arctic_runtime.catalog.branch.database_pointers import DatabasePointers
from arctic_runtime.catalog.branch.table_swaps import TableSwaps
from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import format_cut
from arctic_runtime.operations.refreshing import expire_after_publication
from arctic_runtime.profile import Profile
from arctic_runtime.service.refreshing.refresh_task import Refresher, Task
from arctic_runtime.service.refreshing.source_relations import FollowedModel
from tests.simulation.lake import Catalog, Metadata, Name
from tests.simulation.runtime import Pool, Reader, Replacement
from tests.simulation.threads import Current, read_wall_clock

LAKE = "lake"
"""Key of the simulated catalog among the properties by which files are opened."""


class FileStore:
    """Reads and writes metadata files and records of publications as bytes, as pyiceberg's access to a store does."""

    def __init__(self, lake: Catalog) -> None:
        self._lake = lake

    def new_input(self, address: str) -> SimpleNamespace:
        return SimpleNamespace(open=lambda: BytesIO(self._read(address)))

    def new_output(self, address: str) -> SimpleNamespace:
        @contextmanager
        def create(overwrite: bool = False) -> Any:
            stream = BytesIO()
            yield stream
            self._write(address, stream.getvalue())

        return SimpleNamespace(create=create)

    def delete(self, address: str) -> None:
        if address not in self._lake.metadata and address not in self._lake.records:
            raise FileNotFoundError(address)
        self._lake.metadata.pop(address, None)
        self._lake.records.pop(address, None)

    def _read(self, address: str) -> bytes:
        if address in self._lake.records:
            return self._lake.records[address]
        if address not in self._lake.metadata:
            raise FileNotFoundError(address)
        return json.dumps(self._lake.describe_metadata(address)).encode()

    def _write(self, address: str, content: bytes) -> None:
        text = json.loads(content)
        if isinstance(text, dict) and "simulated-file" in text:
            self._lake.write_metadata(address, text)
        else:
            self._lake.records[address] = content


def load_file_io(properties: Mapping[str, Any], location: str | None = None) -> FileStore:
    """Opens the simulated store in the place of pyiceberg's."""
    return FileStore(properties[LAKE])


class Database:
    """The database of a catalog, as far as branches use it."""

    def __init__(self, lake: Catalog, catalog: str) -> None:
        self._lake = lake
        self._catalog = catalog

    def list_pointers(self) -> list[Pointer]:
        return [
            Pointer(TableName(self._catalog, *name), pointer.kind.upper(), pointer.file)
            for name, pointer in self._lake.pointers.items()
        ]

    def list_namespaces(self) -> dict[str, dict[str, str]]:
        return {name: dict(own) for name, own in self._lake.namespaces.items()}

    def find_pointer(self, table: TableName) -> Pointer | None:
        pointer = self._lake.pointers.get((table.schema, table.name))
        return None if pointer is None else Pointer(table, pointer.kind.upper(), pointer.file)

    def apply_changes(self, changes: Sequence[PointerChange]) -> list[TableName]:
        others = [change.table for change in changes if self.find_pointer(change.table) not in _sides(change)]
        for change in changes if not others else ():
            self.set_pointer(change.table, None if change.after is None else change.after.file)
        return others

    def set_pointer(self, table: TableName, file: str | None) -> None:
        self._lake.set_pointer(_name(table), file)


class Swaps(TableSwaps):
    """The pointers of a catalog that changes one table at a time; the runtime compares them."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self._lake = reader.lake

    def _find_file(self, table: TableName) -> str | None:
        pointer = self._lake.pointers.get(_name(table))
        return None if pointer is None else pointer.file

    def _open_metadata(self, table: TableName, file: str) -> Any:
        return SimpleNamespace(table=table, file=file)

    def _register_table(self, table: Any) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        if _name(table.table) in self._lake.pointers:
            raise TableAlreadyExistsError(str(table.table))
        self._lake.set_pointer(_name(table.table), table.file)

    def _swap_metadata(self, table: Any, expected: str) -> bool:
        pointer = self._lake.pointers.get(_name(table.table))
        if pointer is None or pointer.file != expected:
            return False
        self._lake.set_pointer(_name(table.table), table.file)
        return True


class BranchFile:
    """The pointers of a branch, in memory; a branch is lost with its process, as its file is on that machine."""

    file = Path("/nowhere/branch.db")

    def __init__(self, origin: Catalog, catalog: str) -> None:
        self._origin = origin
        self._catalog = catalog
        self.lake = origin.begin_branch()
        self._start: dict[Name, str] = {}
        self._copies: dict[Name, str] = {}

    def create_file(self, pointers: Sequence[Pointer], namespaces: Any, properties: Mapping[str, str] = {}) -> None:
        self._start = {_name(pointer.table): pointer.file for pointer in pointers}
        for name, file in self._start.items():
            self.lake.set_pointer(name, file)

    def find_start(self, table: TableName) -> Pointer | None:
        name = _name(table)
        pointer = self.lake.pointers.get(name)
        if pointer is None or pointer.file != self._start.get(name) or name in self._copies:
            return None
        return Pointer(table, pointer.kind.upper(), pointer.file)

    def replace_start(self, start: Pointer, copy: str) -> bool:
        if self.find_start(start.table) is None:
            return False
        self.lake.set_pointer(_name(start.table), copy)
        self._copies[_name(start.table)] = copy
        return True

    def list_copies(self) -> dict[TableName, tuple[str, str]]:
        return {TableName(self._catalog, *name): (self._start[name], copy) for name, copy in self._copies.items()}

    def list_changes(self) -> list[PointerChange]:
        changes = []
        for name in sorted({*self._start, *self.lake.pointers}):
            pointer, table = self.lake.pointers.get(name), TableName(self._catalog, *name)
            if pointer is not None and pointer.file in (self._start.get(name), self._copies.get(name)):
                continue
            kind = "TABLE" if isinstance(self._origin.metadata.get(self._start.get(name, "")), Metadata) else "VIEW"
            before = Pointer(table, kind, self._start[name]) if name in self._start else None
            after = None if pointer is None else Pointer(table, pointer.kind.upper(), pointer.file)
            changes.append(PointerChange(table, before, after))
        return changes


class BranchReader(Reader):
    """Reads a branch, whose pointers can be listed; its tables are changed by Spark's statements alone."""

    @property
    def database(self) -> Any:
        return Database(self.lake, self.profile.catalog)


class DatabaseReader(BranchReader):
    """Reads a catalog that is in a database, whose pointers a publication changes."""

    is_database = True  # type: ignore[assignment]


class SimulatedBranch(CatalogBranch):
    """The runtime's branch, over the simulated catalog; with `in_steps`, one table is published after another."""

    def __init__(self, profile: Profile, lake: Catalog, look: Any, in_steps: bool) -> None:
        self.origin = (Reader if in_steps else DatabaseReader)(profile, lake, look)
        self._pointers: Any = BranchFile(lake, profile.catalog)

    @cached_property
    def reader(self) -> Any:
        profile = self.origin.profile.with_branch(self.file, {"warehouse": "/nowhere/lake"})
        return BranchReader(profile, self._pointers.lake, self.origin._look)  # type: ignore[attr-defined]

    @cached_property
    def _catalog(self) -> CatalogPointers:
        return DatabasePointers(self.origin) if self.origin.is_database else Swaps(self.origin)  # type: ignore[arg-type]


def run_build(branch: SimulatedBranch, models: Sequence[FollowedModel], readers: Mapping[TableName, Any]) -> str:
    """Runs one build of all models, in their order; returns the names of the tables that it has published.

    Raises CommitConflict if another writer was faster; then nothing is published, or a part in steps.
    """
    scope = BranchScope([table for followed in models for table in followed.model.relations], ["ods", "dwd", "dws"])
    completed = branch.complete_publications(scope)
    branch.begin_branch(scope)
    branch.prepare_tables([table for followed in models for table in followed.model.relations])
    lake, pins = branch.reader.lake, PinnedSnapshots()
    refresher = Refresher(branch.reader, Pool(lake), lambda table: readers.get(table, ()))  # type: ignore[arg-type]
    for followed in models:
        refresher(Task(followed, pins, True, True))
    places = {table: place for place, one in enumerate(models) for table in one.model.relations}
    changes = sort_changes(branch.list_changes(), places)
    cut = format_cut(round(1000 * read_wall_clock()), Current.tokens()[:4])
    if changes:
        try:
            branch.publish_changes(branch.complete_tables(changes, cut))
        except CommitConflict:
            branch.remove_branch()
            raise
    branch.tag_tables([table for one in models for table in one.model.relations], cut if changes else "")
    branch.remove_branch()
    main = Reader(branch.origin.profile, branch.origin.lake, branch.origin._look)  # type: ignore[attr-defined]
    for followed in models if changes else ():
        take = Pool(main.lake).take_session
        expire_after_publication(followed.model, main, take, lambda table: readers.get(table, ()))  # type: ignore[arg-type]
    return ", ".join(str(change.table) for change in changes) + (f"; completed {len(completed)}" if completed else "")


def _name(table: TableName) -> Name:
    return (table.schema, table.name)


def _sides(change: PointerChange) -> tuple[Pointer | None, Pointer | None]:
    return change.before, change.after


REPLACEMENTS: tuple[Replacement, ...] = (
    (pyiceberg.io, "load_file_io", load_file_io),
    (publication_record, "os", SimpleNamespace(urandom=lambda count: bytes.fromhex(Current.tokens())[:count])),
)
"""The parts of publications that are modelled."""
