"""A branch of a catalog, whose tables begin as those of the catalog; what is written to it is published as a whole.

A branch has pointers of its own, in an SQLite file on this machine: it says what metadata file of each table and view
is current. Data and metadata files lie in the folders of the tables, as always. So a program that uses the branch in
the place of the catalog reads and writes as usual, and nobody else sees it; a branch that is not published leaves only
files that no table has, and these are deleted as orphaned files. To publish a branch is to change the pointers of the
catalog in one transaction; or, if the catalog has none for all of its tables and views, in several steps, which are
noted in a record before the first one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from arctic_runtime.catalog.branch.branch_file import BranchFile, remove_branch_file
from arctic_runtime.catalog.branch.catalog_pointers import (
    BranchScope,
    CatalogPointers,
    ChangeRefused,
    Pointer,
    PointerChange,
    sort_changes,
)
from arctic_runtime.catalog.branch.database_pointers import DatabasePointers
from arctic_runtime.catalog.branch.publication_record import (
    PublicationRecord,
    list_records,
    remove_record,
    write_record,
)
from arctic_runtime.catalog.branch.rest_pointers import RestPointers
from arctic_runtime.catalog.branch.table_swaps import GluePointers, HivePointers
from arctic_runtime.catalog.branch.warehouse_root import adapt_scheme, choose_root, find_location, get_table_folder
from arctic_runtime.catalog.metadata_files import (
    delete_file_at,
    name_metadata_file,
    parse_file_number,
    read_metadata_at,
    write_metadata_file,
)
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.catalog_kind import PointerProtocol
from arctic_runtime.catalog_kinds.registry import CATALOG_KINDS
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.profile import Profile, is_secret

_POINTERS: Mapping[PointerProtocol, Callable[[CatalogReader], CatalogPointers]] = {
    "database": DatabasePointers,
    "glue_api": GluePointers,
    "hive_metastore": HivePointers,
    "rest_api": RestPointers,
}
"""The class for each value of `CatalogKind.pointers`."""


def open_pointers(reader: CatalogReader) -> CatalogPointers:
    """Returns the pointers of a catalog, of which `check_branches` says that they can be had."""
    protocol = reader.profile.catalog_kind.pointers
    assert protocol is not None
    return _POINTERS[protocol](reader)


def check_branches(profile: Profile) -> None:
    """Raises ConfigError if the catalog of a profile can't have a branch on this machine."""
    kind, types = profile.catalog_kind, [kind.name for kind in CATALOG_KINDS.values() if kind.pointers]
    if kind.pointers is None:
        raise ConfigError(
            "`publish: build` can't be used with this catalog.",
            where="publish",
            expected=f"`warehouse: …`, or a catalog of type {', '.join(types)}",
            actual=f"a catalog of type {kind.name or 'unknown'}",
            fix="remove `publish`, so that each model is published by its own run",
        )
    if profile.method == "connect" and not profile.is_kept:
        raise ConfigError(
            "`publish: build` can't be used with a Spark server that may be on another machine.",
            where="publish",
            expected="Spark on this machine, which reads the branch of the catalog from a local file",
            actual="method: connect",
            fix="remove `publish`, or use `method: session`",
        )


@dataclass(frozen=True)
class Cut:
    """The tag that all tables of a build get, set at the time `at_ms`, in milliseconds since 1970; empty for none.

    Iceberg's expiry may drop it after `age_ms`. `properties` are those that one table gets besides.
    """

    tag: str
    age_ms: int
    at_ms: int
    properties: Mapping[str, str] = field(default_factory=dict)


def complete_metadata(
    metadata: Mapping[str, Any], file: str, cut: Cut, copies: Mapping[str, str], snapshot: int | None = None
) -> dict[str, Any]:
    """Returns the JSON of a table's metadata with a cut: its properties, and its tag at `snapshot`, or at the newest.

    A snapshot that the table does not have gets no tag. `file` is the metadata file with `metadata`. `copies` maps
    copies of metadata files to the files; in the log of earlier files, each copy is replaced by the file itself.
    """
    log = [*metadata.get("metadata-log", ()), {"metadata-file": file, "timestamp-ms": metadata["last-updated-ms"]}]
    files = [{**entry, "metadata-file": copies.get(entry["metadata-file"], entry["metadata-file"])} for entry in log]
    refs = dict(metadata.get("refs", {}))
    tagged = metadata.get("current-snapshot-id") if snapshot is None else snapshot
    if cut.tag and tagged in {known["snapshot-id"] for known in metadata.get("snapshots", ())}:
        refs[cut.tag] = {"snapshot-id": tagged, "type": "tag", "max-ref-age-ms": cut.age_ms}
    updated = max(cut.at_ms, metadata["last-updated-ms"])
    properties = {**metadata.get("properties", {}), **cut.properties}
    changed = {"refs": refs, "metadata-log": files, "last-updated-ms": updated, "properties": properties}
    return {**metadata, **changed}


Properties = Mapping[TableName, Mapping[str, str]]
"""Properties that tables get when a build is published, by table."""

_NO_PROPERTIES: Properties = {}


class CatalogBranch:
    """A branch of the catalog of the profile `origin`, in the SQLite file `file`; safe to share between threads."""

    def __init__(self, origin: Profile, file: Path) -> None:
        self.origin = CatalogReader(origin)
        self._pointers = BranchFile(file, origin.catalog, origin.thresholds.commits.lock_wait_seconds)

    @property
    def file(self) -> Path:
        return self._pointers.file

    @cached_property
    def reader(self) -> CatalogReader:
        """Reads the branch."""
        properties = self._catalog.build_file_properties()
        if not self.origin.is_database:
            properties |= self._pointers.read_file_properties()
        return CatalogReader(self.origin.profile.with_branch(self.file, properties))

    @cached_property
    def _catalog(self) -> CatalogPointers:
        """The pointers of the catalog."""
        return open_pointers(self.origin)

    def begin_branch(self, scope: BranchScope | None = None) -> None:
        """Creates the branch, with the tables and views that the catalog has now, in the scope of the build.

        An earlier branch in the same file is lost. Raises ConfigError if a catalog of this kind can't have branches,
        and CatalogError if it does not answer.
        """
        check_branches(self.origin.profile)
        known = BranchScope() if scope is None else scope
        pointers = self._catalog.list_pointers(known)
        namespaces = self._catalog.list_namespaces(known)
        properties = {} if self.origin.is_database else self._choose_file_properties(known, pointers, namespaces)
        perform_effect(
            "build.begin", lambda: self._pointers.create_file(pointers, namespaces, properties), "begin a branch"
        )

    def complete_publications(self, scope: BranchScope) -> list[TableName]:
        """Completes the publications of builds that died in between; returns the tables and views that they changed.

        A publication ends before a table that another writer has changed since; what is left of it is given up.
        """
        if self.origin.is_database:
            return []
        completed: list[TableName] = []
        for record in list_records(self.origin, scope.schemas):
            for step in self._catalog.plan_steps(record.changes):
                try:
                    others = self._apply_step(step)
                except (ChangeRefused, FileNotFoundError):  # Upkeep has deleted the files of an old build.
                    break
                if others:
                    break
                completed += [change.table for change in step]
            remove_record(self.origin, record)
        return completed

    def prepare_tables(self, tables: Collection[TableName]) -> None:
        """Prepares tables for changes on the branch; does nothing for tables that have changed, and for missing ones.

        Iceberg deletes an old metadata file after some commits, if a table asks for that. So the first commit on the
        branch must not stand on the file that is current in the catalog, but on a copy of it.
        """
        starts = [start for table in tables if (start := self._pointers.find_start(table)) and start.kind == "TABLE"]
        if len(starts) < 2:
            list(map(self._copy_start, starts))
            return
        with ThreadPoolExecutor(self.origin.thresholds.engine.parallel_actions, "branch") as pool:
            list(pool.map(self._copy_start, starts))

    def list_changes(self) -> list[PointerChange]:
        """Lists the tables and views that were created, changed or dropped on the branch, views last."""
        return sort_changes(self._pointers.list_changes(), {})

    def complete_tables(
        self, changes: Iterable[PointerChange], tag: str = "", properties: Properties = _NO_PROPERTIES
    ) -> list[PointerChange]:
        """Returns changes in which the log of each table has no copies, and its newest snapshot has the tag `tag`.

        Iceberg's expiry may drop the tag after the time in the thresholds. An empty tag sets none. Each table also gets
        its `properties`.
        """
        copies = {copy: original for original, copy in self._pointers.list_copies().values()}

        def complete_change(change: PointerChange) -> PointerChange:
            after = change.after
            if after is None or after.kind != "TABLE":
                return change
            return replace(change, after=self._tag_pointer(after, tag, copies, properties.get(change.table, {})))

        with ThreadPoolExecutor(self.origin.thresholds.engine.parallel_actions, "branch") as pool:
            return list(pool.map(complete_change, changes))

    def tag_tables(self, tables: Iterable[TableName], tag: str, properties: Properties = _NO_PROPERTIES) -> None:
        """Tags, in the catalog, the newest snapshots that tables have on the branch, if it has not changed them.

        They also get their `properties`. An empty tag sets none. A table that other writers change at each attempt is
        left as it is.
        """
        changed = {change.table for change in self.list_changes()}

        def tag_table(table: TableName) -> None:
            start = self.reader.database.find_pointer(table)
            if start is None or start.kind != "TABLE":
                return
            snapshot = read_metadata_at(self.origin, start.file).get("current-snapshot-id")
            own = properties.get(table, {})
            for _ in range(self.origin.thresholds.commits.attempts):
                current = self._catalog.find_pointer(table)
                if current is None or current.kind != "TABLE":
                    return
                change = PointerChange(table, current, self._tag_pointer(current, tag, {}, own, snapshot))
                apply = partial(self._catalog.apply_changes, [change])
                others = self.origin.perform_change("build.tag", f"tag {table}", apply)
                self._remove_written_files([change])
                if not others:
                    return

        with ThreadPoolExecutor(self.origin.thresholds.engine.parallel_actions, "branch") as pool:
            list(pool.map(tag_table, (table for table in tables if table not in changed)))

    def publish_changes(self, changes: Sequence[PointerChange]) -> bool:
        """Makes changes of the branch, in the order of the graph, visible in the catalog.

        Returns whether all of them became visible at once, which depends on the catalog. Raises CommitConflict if a
        table or view was changed in the catalog since the branch was created; then nothing is visible, unless that
        happened between the steps of the publication.
        """
        for schema in sorted({change.table.schema for change in changes if change.before is None}):
            self.origin.create_namespace(schema)
        steps = self._catalog.plan_steps(changes)
        later = [change for step in steps[1:] for change in step]
        others = self._catalog.list_conflicts(later) if later else []
        if others:
            raise _build_conflict(others, [])
        record = write_record(self.origin, changes) if later else None
        done: list[TableName] = []
        try:
            for step in steps:
                others = self._apply_step(step)
                if others:
                    raise _build_conflict(others, done)
                done += [change.table for change in step]
        except (ChangeRefused, CommitConflict):
            self._remove_record(record)
            raise
        self._remove_record(record)
        self._remove_written_files(changes)
        return len(steps) < 2

    def _remove_record(self, record: PublicationRecord | None) -> None:
        if record is not None:
            remove_record(self.origin, record)

    def _apply_step(self, step: Sequence[PointerChange]) -> list[TableName]:
        return self.origin.perform_change(
            "build.publish", f"publish {len(step)} tables and views", partial(self._catalog.apply_changes, step)
        )

    def remove_copies(self, needed: Iterable[TableName]) -> None:
        """Deletes the copies of metadata files, except those of the tables `needed`, for the branch is published."""
        kept = set(needed)
        self._remove_files([copy for table, (_, copy) in self._pointers.list_copies().items() if table not in kept])

    def _remove_written_files(self, changes: Iterable[PointerChange]) -> None:
        """Deletes the metadata files that were written for changes, if the catalog has written its own."""
        if self._catalog.writes_metadata:
            afters = (change.after for change in changes)
            self._remove_files([after.file for after in afters if after is not None and after.kind == "TABLE"])

    def _remove_files(self, files: Sequence[str]) -> None:
        def remove_files() -> None:
            for file in files:
                delete_file_at(self.origin, file)

        if files:
            self.origin.perform_change("build.remove_copies", "remove copies of metadata files", remove_files)

    def remove_branch(self) -> None:
        """Removes the branch, with the copies of metadata files; other files that only it has become orphaned files."""
        self.remove_copies(())
        remove_branch_file(self.file)

    def _tag_pointer(
        self,
        pointer: Pointer,
        tag: str,
        copies: Mapping[str, str],
        properties: Mapping[str, str],
        snapshot: int | None = None,
    ) -> Pointer:
        """Writes a metadata file with a tag at a snapshot of a table, by default its newest; returns its pointer.

        The table also gets `properties`.
        """
        metadata = read_metadata_at(self.origin, pointer.file)
        age_ms = round(1000 * self.origin.thresholds.commits.cut_seconds)
        now_ms = round(1000 * time.time())
        tagged = complete_metadata(metadata, pointer.file, Cut(tag, age_ms, now_ms, properties), copies, snapshot)
        number = parse_file_number(pointer.file)
        address = name_metadata_file(tagged, 0 if number is None else number + 1)
        write = partial(write_metadata_file, self.origin, address, tagged)
        self.origin.perform_change("build.write_metadata", f"tag {pointer.table} in its metadata", write)
        return replace(pointer, file=address)

    def _choose_file_properties(
        self, scope: BranchScope, pointers: Sequence[Pointer], namespaces: Mapping[str, Mapping[str, str]]
    ) -> dict[str, str]:
        """Returns the properties with which new tables are written on the branch of a catalog that is in no database.

        Credentials are left out, for they are written to a file.
        """
        locations: dict[str, str] = {}
        for schema in {*scope.target_schemas} & {*namespaces}:
            tables = {p.table.name: get_table_folder(p.file) for p in pointers if p.table.schema == schema}
            location = find_location(namespaces[schema], tables)
            if location is not None:
                locations[schema] = location
        root = choose_root(locations, str(self.origin.catalog.properties.get("warehouse", "")))
        plain = {key: value for key, value in self._catalog.build_file_properties().items() if not is_secret(key)}
        own = self.origin.profile.catalog_properties.get("warehouse", "")
        return {**plain, "warehouse": adapt_scheme(root, own)}

    def _copy_start(self, start: Pointer) -> None:
        """Makes a copy of a table's metadata file the current one on the branch."""
        copy = name_copy(start.file)

        def write_copy() -> None:
            from pyiceberg.io import load_file_io

            file_io = load_file_io(self.origin.catalog.properties, start.file)
            try:
                with file_io.new_input(start.file).open() as content:
                    text = content.read()
            except FileNotFoundError as error:
                if self._catalog.find_pointer(start.table) == start:
                    raise
                raise CommitConflict(
                    f"{start.table} was changed so often since this build began that its version of then is deleted.",
                    where=start.file,
                    expected="the table as it was when the build began",
                    actual="a newer one",
                    fix="run the build again; it begins with the tables as they are now",
                ) from error
            with file_io.new_output(copy).create(overwrite=True) as stream:
                stream.write(text)

        self.origin.perform_change("build.copy_metadata", f"copy the metadata of {start.table}", write_copy)
        self._pointers.replace_start(start, copy)


def name_copy(file: str) -> str:
    """Returns an address for a copy of a metadata file, in the same folder and with the same number and endings."""
    folder, _, name = file.rpartition("/")
    number, _, rest = name.partition("-")
    _, _, endings = (rest if number.isdigit() else name).partition(".")
    return f"{folder}/{number if number.isdigit() else '00000'}-{uuid.uuid4()}.{endings}"


def _build_conflict(others: Sequence[TableName], published: Sequence[TableName]) -> CommitConflict:
    shown = f"Only a part of this build was published: {', '.join(map(str, published))}"
    return CommitConflict(
        f"{shown if published else 'Nothing of this build was published'}, since another writer changed tables that it "
        "has changed too.",
        where=", ".join(map(str, others)),
        expected="the tables as they were when the build began",
        actual="newer ones",
        fix="run the build again; it begins with the tables as they are now",
    )
