"""Lakes whose tables and views are metadata of one number, in catalogs that a build on a branch is published to.

Nothing reads or writes rows. On a branch a table is changed as Iceberg does it: by a new metadata file, then the
pointer. `write` is somebody else, who changes the catalog itself.
"""

from __future__ import annotations

import copy
import itertools
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import strategies as st

from arctic_runtime.catalog.branch.catalog_branch import CatalogBranch
from arctic_runtime.catalog.branch.catalog_pointers import BranchScope, Pointer, PointerChange
from arctic_runtime.catalog.metadata_files import read_metadata_at, write_metadata_file
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.refs import format_cut
from arctic_runtime.profile import Profile
from tests.rest_catalog import Catalog, serve

Json = dict[str, Any]
SCHEMA = "dwd"
_numbers = itertools.count(1)


class Lake(Protocol):
    """A catalog, its profile, and what others do in it."""

    profile: Profile
    names: tuple[str, ...]
    format_version: int

    def write(self, name: str, content: int | None) -> None:
        """Creates, changes or drops (None) a table or view."""

    def read(self) -> dict[str, int]:
        """Returns the number in each table and view."""

    def list_versions(self) -> dict[str, str]:
        """Returns the address of each table's and view's metadata file."""

    def is_created_again(self, name: str, actions: Sequence[tuple[str, int | None]]) -> bool:
        """Whether actions of a build drop a table and create it, where the catalog takes this as that."""


def a_name(name: str) -> TableName:
    return TableName("lake", SCHEMA, name)


def is_view(name: str) -> bool:
    return name.startswith("v")


def scope_of(lake: Lake) -> BranchScope:
    return BranchScope([a_name(name) for name in lake.names], [SCHEMA])


def begin(lake: Lake, folder: Path) -> CatalogBranch:
    branch = CatalogBranch(lake.profile, folder / "branches" / f"{next(_numbers)}.db")
    branch.begin_branch(scope_of(lake))
    branch.prepare_tables([a_name(name) for name in lake.names])
    return branch


def publish(branch: CatalogBranch, names: set[str] | None = None) -> bool:
    changes = [change for change in branch.list_changes() if names is None or change.table.name in names]
    return branch.publish_changes(branch.complete_tables(changes, format_cut(next(_numbers) * 1000, "0a1b")))


def write_on(branch: CatalogBranch, name: str, content: int | None, version: int = 3) -> None:
    """Creates, changes or drops (None) a table or view of a branch."""
    table, pointers = a_name(name), branch.reader.database
    before = pointers.find_pointer(table)
    if content is None:
        assert not pointers.apply_changes([PointerChange(table, before, None)])
        return
    known = None if before is None else read_metadata_at(branch.reader, before.file)
    root = branch.reader.profile.catalog_properties["warehouse"]
    metadata = build_metadata(known, f"{root}/{SCHEMA}/{name}", name, content, version)
    file = f"{metadata['location']}/metadata/{next(_numbers):05}-{uuid.uuid4()}.metadata.json"
    write_metadata_file(branch.reader, file, metadata)
    after = Pointer(table, "VIEW" if is_view(name) else "TABLE", file)
    assert not pointers.apply_changes([PointerChange(table, before, after)])


def read_branch(branch: CatalogBranch) -> dict[str, int]:
    pointers = branch.reader.database.list_pointers()
    return {p.table.name: get_content(read_metadata_at(branch.reader, p.file)) for p in pointers}


def get_content(metadata: Json) -> int:
    if "versions" in metadata:
        current = metadata["current-version-id"]
        (version,) = (known for known in metadata["versions"] if known["version-id"] == current)
        return int(version["representations"][0]["sql"].removeprefix("select "))
    if metadata["format-version"] >= 3:
        (snapshot,) = (s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
        assert snapshot["summary"]["content"] == metadata["properties"]["content"]
    return int(metadata["properties"]["content"])


def publish_together(branches: Sequence[CatalogBranch], publish: Callable[[CatalogBranch], object]) -> int:
    """Publishes branches by `publish`, each in a thread of its own; returns how many lost to another one."""
    lost: list[CommitConflict] = []

    def run(branch: CatalogBranch) -> None:
        try:
            publish(branch)
        except CommitConflict as conflict:
            lost.append(conflict)

    threads = [threading.Thread(target=run, args=(branch,)) for branch in branches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(lost)


def build_metadata(before: Json | None, location: str, name: str, content: int, version: int = 3) -> Json:
    """Returns the metadata of a table or view with a number, after a commit to `before`."""
    return build_view(before, location, content) if is_view(name) else build_table(before, location, content, version)


def build_table(before: Json | None, location: str, content: int, version: int) -> Json:
    table = copy.deepcopy(before) if before is not None else build_empty_table(location, version)
    number = next(_numbers)
    sequence = table["last-sequence-number"] + 1
    snapshot = {
        "snapshot-id": number,
        "sequence-number": sequence,
        "timestamp-ms": now(),
        "manifest-list": f"{location}/{number}.avro",
        "schema-id": 0,
        "summary": {"operation": "append", "content": str(content)},
        **({"first-row-id": table["next-row-id"], "added-rows": content} if "next-row-id" in table else {}),
        **({"parent-snapshot-id": table["current-snapshot-id"]} if table["snapshots"] else {}),
    }
    return {
        **table,
        "last-sequence-number": sequence,
        "last-updated-ms": now(),
        "current-snapshot-id": number,
        **({"next-row-id": table["next-row-id"] + content} if "next-row-id" in table else {}),
        "properties": {**table["properties"], "content": str(content)},
        "snapshots": [*table["snapshots"], snapshot],
        "refs": {**table["refs"], "main": {"snapshot-id": number, "type": "branch"}},
    }


def build_empty_table(location: str, version: int) -> Json:
    fields = [{"id": 1, "name": "n", "type": "long", "required": False}]
    return {
        "format-version": version,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 1,
        "last-partition-id": 999,
        **({"next-row-id": 0} if version >= 3 else {}),
        "current-snapshot-id": -1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "refs": {},
    }


def now() -> int:
    return round(time.time() * 1000)


def build_view(before: Json | None, location: str, content: int) -> Json:
    fields = [{"id": 0, "name": "n", "type": "long", "required": False}]
    number = 1 + max((version["version-id"] for version in before["versions"]), default=0) if before else 1
    version = {
        "version-id": number,
        "timestamp-ms": now(),
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": f"select {content}", "dialect": "spark"}],
        "default-namespace": [SCHEMA],
    }
    return {
        "view-uuid": before["view-uuid"] if before else str(uuid.uuid4()),
        "format-version": 1,
        "location": location,
        "properties": {},
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-version-id": number,
        "versions": [*(before["versions"] if before else []), version],
        "version-log": [{"timestamp-ms": now(), "version-id": number}],
    }


def _write_version(branch: CatalogBranch, version: int, name: str, content: int | None) -> None:
    write_on(branch, name, content, version)


def list_builds(names: Sequence[str]) -> Any:
    """Random builds: what others do before, what the build does, what others do beside, and what is published."""
    actions = st.lists(st.tuples(st.sampled_from(names), st.none() | st.integers(0, 9)), max_size=6)
    return st.lists(st.tuples(actions, actions, actions, st.sets(st.sampled_from(names))), min_size=1, max_size=4)


def check_builds(lake: Lake, folder: Path, builds: list[Any]) -> None:
    """Compares builds with dicts of what a branch and what others have to see."""
    known: dict[str, int] = {}

    def act(write: Callable[[str, int | None], None], actions: Any, state: dict[str, int]) -> None:
        for name, content in actions:
            if content is not None or name in state:
                write(name, content)
            state.pop(name, None)
            if content is not None:
                state[name] = content

    for first, on_branch, beside, published in builds:
        act(lake.write, first, known)
        branch, start, versions = begin(lake, folder), dict(known), lake.list_versions()
        seen = dict(start)
        act(partial(_write_version, branch, lake.format_version), on_branch, seen)
        act(lake.write, beside, known)
        assert read_branch(branch) == seen
        assert lake.read() == known
        changed = {change.table.name for change in branch.list_changes()} & published
        moved = {name for name in changed if lake.list_versions().get(name) != versions.get(name)}
        # A relation that both sides dropped is as wanted; so is a view with the same query, and a name that is free
        # again for a table that the build has dropped and created.
        gone = {
            name for name in moved if name not in known and (name not in seen or lake.is_created_again(name, on_branch))
        }
        same = {name for name in moved if name.startswith("v") and name in seen and seen[name] == known.get(name)}
        if moved - gone - same:
            with pytest.raises(CommitConflict):
                publish(branch, published)
        else:
            publish(branch, published)
            for name in changed:
                known.pop(name, None)
                known |= {name: seen[name]} if name in seen else {}
        assert lake.read() == known
        branch.remove_branch()


class RestLake:
    """The project's small REST catalog, over HTTP for builds, and in memory for others."""

    names = ("a", "b", "c", "d", "v", "va")
    format_version = 3

    def __init__(self, folder: Path, catalog: Catalog, uri: str) -> None:
        self.folder = folder
        self.catalog = catalog
        self.profile = Profile("lake", {"type": "rest", "uri": uri, "warehouse": str(folder)})
        CatalogReader(self.profile).create_namespace(SCHEMA)

    def write(self, name: str, content: int | None) -> None:
        kind = "views" if is_view(name) else "tables"
        with self.catalog.lock:
            held = self.catalog.held(kind)
            if content is None:
                held.pop((SCHEMA, name), None)
                return
            known = held.get((SCHEMA, name), {}).get("metadata")
            metadata = build_metadata(known, f"{self.folder}/{SCHEMA}/{name}", name, content)
            self.catalog.keep(kind, SCHEMA, name, json.loads(json.dumps(metadata)))

    def read(self) -> dict[str, int]:
        """All at one moment."""
        with self.catalog.lock:
            relations = {**self.catalog.tables, **self.catalog.views}
            return {name: get_content(kept["metadata"]) for (_, name), kept in relations.items()}

    def is_created_again(self, name: str, actions: Sequence[tuple[str, int | None]]) -> bool:
        return (name, None) in actions and not is_view(name)

    def list_versions(self) -> dict[str, str]:
        with self.catalog.lock:
            relations = {**self.catalog.tables, **self.catalog.views}
            return {name: kept["metadata-location"] for (_, name), kept in relations.items()}


@contextmanager
def run_rest_lake(folder: Path, **lacks: Any) -> Iterator[RestLake]:
    with serve(folder, **lacks) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        catalog: Catalog = server.RequestHandlerClass.catalog  # type: ignore[attr-defined]
        yield RestLake(folder, catalog, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()


class ClientLake:
    """A catalog that others change through pyiceberg, one table at a time; it has no views."""

    names = ("a", "b", "c", "d")
    format_version = 2

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.reader = CatalogReader(profile)
        self.reader.create_namespace(SCHEMA)

    def write(self, name: str, content: int | None) -> None:
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField

        catalog, at = self.reader.catalog, (SCHEMA, name)
        if content is None:
            catalog.drop_table(at)
        elif catalog.table_exists(at):
            with catalog.load_table(at).transaction() as transaction:
                transaction.set_properties({"content": str(content), "written": str(next(_numbers))})
        else:
            schema = Schema(NestedField(1, "n", LongType(), required=False))
            catalog.create_table(at, schema, properties={"content": str(content)})

    def read(self) -> dict[str, int]:
        tables = [self.reader.load_table(SCHEMA, name) for name in self.reader.list_tables(SCHEMA)]
        return {table.name()[-1]: int(table.properties["content"]) for table in tables}

    def list_versions(self) -> dict[str, str]:
        tables = [self.reader.load_table(SCHEMA, name) for name in self.reader.list_tables(SCHEMA)]
        return {table.name()[-1]: table.metadata_location for table in tables}

    def is_created_again(self, name: str, actions: Sequence[tuple[str, int | None]]) -> bool:
        """Only a server drops a table before it creates it; other catalogs swap its metadata file."""
        return self.profile.catalog_kind.is_server and (name, None) in actions
