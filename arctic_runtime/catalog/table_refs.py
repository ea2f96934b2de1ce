"""Changes branches and tags of tables by the catalog's client, each time in one commit, without Spark.

For a catalog in a database, the client writes the new metadata itself; the server of another catalog is asked to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.metadata_commits import Metadata, commit_metadata, compute_retry_waits
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CatalogError, CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT
from arctic_runtime.model.refs import MAIN, BranchCommit, Ref, RefChange, Refs, TableRefs

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate


def change_refs(reader: CatalogReader, name: TableName, change: RefChange) -> None:
    """Gives a table the branches and tags that `change` computes from the present ones, in one commit.

    If another writer commits at the same time, calls `change` again. Commits nothing if they stay the same. Raises
    CommitConflict if other writers are faster each time, and the errors of `change`.
    """
    if reader.is_database:
        commit_metadata(reader, name, lambda metadata: replace_refs(metadata, change(read_refs(metadata))))
    else:
        _ask_server(reader, name, change)


def read_table_refs(reader: CatalogReader, name: TableName) -> TableRefs:
    """Reads the branches, tags and snapshots of a table; raises pyiceberg's NoSuchTableError if there is none."""
    from pyiceberg.exceptions import NoSuchTableError

    if not reader.is_database:
        return _read_loaded_refs(reader.load_table(name.schema, name.name))
    current = reader.read_metadata_file(name.schema, name.name)
    if current is None:
        raise NoSuchTableError(f"Table does not exist: {name.schema}.{name.name}")
    return read_refs(json.loads(current[1]))


def read_refs(metadata: Metadata) -> TableRefs:
    """Reads branches, tags and snapshots from the metadata of a table."""
    commits = {snapshot["snapshot-id"]: _read_commit(snapshot) for snapshot in metadata.get("snapshots", ())}
    return TableRefs(_get_refs(metadata), commits)


def replace_refs(metadata: Metadata, refs: Refs) -> Metadata:
    """Returns the metadata with other branches and tags; the head of main is its current snapshot."""
    if refs == _get_refs(metadata):
        return metadata
    current = refs[MAIN]["snapshot-id"] if MAIN in refs else metadata.get("current-snapshot-id")
    return {**metadata, "refs": refs, "current-snapshot-id": current}


def _get_refs(metadata: Metadata) -> Refs:
    """Returns the branches and tags of a table; the metadata of an old one may name only its current snapshot."""
    current = metadata.get("current-snapshot-id")
    main = {} if current in (None, -1) else {MAIN: {"snapshot-id": current, "type": "branch"}}
    refs: Refs = metadata.get("refs", main)
    return refs


def _read_commit(snapshot: Mapping[str, Any]) -> BranchCommit:
    """Reads a snapshot; its operation is `overwrite`, which may be anything, if its writer did not state it."""
    summary = snapshot.get("summary") or {}
    operation = str(summary.get("operation", "overwrite"))
    return BranchCommit(snapshot.get("parent-snapshot-id"), operation, summary.get(ATTEMPT))


# Catalogs with a server


def _ask_server(reader: CatalogReader, name: TableName, change: RefChange) -> None:
    """Asks the catalog's server for a change of branches and tags, if those that it concerns are still the same."""
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError

    waits: Iterator[float] | None = None
    while True:
        try:
            table = reader.load_table(name.schema, name.name)
        except NoSuchTableError as error:
            raise CommitConflict(f"{name} can't be changed: it does not exist any more.") from error
        known = _read_loaded_refs(table)
        wanted = change(known)
        if wanted == known.refs:
            return
        try:
            reader.catalog.commit_table(table, *build_request(str(table.metadata.table_uuid), known.refs, wanted))
        except CommitFailedException as error:
            waits = compute_retry_waits(table.properties) if waits is None else waits
            wait = next(waits, None)
            if wait is None:
                raise CommitConflict(
                    f"Another writer committed first.\n  while: change branches or tags of {name}", actual=str(error)
                ) from error
            time.sleep(wait)
        except CommitStateUnknownException as error:
            raise CatalogError(
                f"The catalog's server did not say whether it changed branches or tags of {name}.", actual=str(error)
            ) from error
        else:
            return


def build_request(uuid: str, known: Refs, wanted: Refs) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Builds the request for the refs `wanted` of a table with the refs `known`: what must hold, and what to change."""
    from pyiceberg.table.update import (
        AssertRefSnapshotId,
        AssertTableUUID,
        RemoveSnapshotRefUpdate,
        SetSnapshotRefUpdate,
    )

    changed = [
        ref for ref in (*known, *(ref for ref in wanted if ref not in known)) if known.get(ref) != wanted.get(ref)
    ]
    requirements: list[TableRequirement] = [AssertTableUUID.model_validate({"uuid": uuid})]
    updates: list[TableUpdate] = []
    for ref in changed:
        expected = {"ref": ref, "snapshot-id": known[ref]["snapshot-id"] if ref in known else None}
        requirements.append(AssertRefSnapshotId.model_validate(expected))
        set_ref = {"ref-name": ref, **wanted.get(ref, {})}
        updates.append(
            SetSnapshotRefUpdate.model_validate(set_ref)
            if ref in wanted
            else RemoveSnapshotRefUpdate.model_validate({"ref-name": ref})
        )
    return tuple(requirements), tuple(updates)


def _read_loaded_refs(table: Table) -> TableRefs:
    refs: dict[str, Ref] = {
        name: ref.model_dump(by_alias=True, exclude_none=True, mode="json") for name, ref in table.metadata.refs.items()
    }
    return TableRefs(
        refs, {snapshot.snapshot_id: _read_loaded_commit(snapshot) for snapshot in table.metadata.snapshots}
    )


def _read_loaded_commit(snapshot: Snapshot) -> BranchCommit:
    summary = snapshot.summary
    operation = summary.operation.value if summary else "overwrite"
    attempt = summary.additional_properties.get(ATTEMPT) if summary else None
    return BranchCommit(snapshot.parent_snapshot_id, operation, attempt)
