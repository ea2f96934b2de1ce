"""Changes branches and tags of tables by the catalog's client, each time in one commit, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from arctic_runtime.catalog.metadata_commits import Metadata, commit_metadata
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.branch import BranchCommit
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import ATTEMPT
from arctic_runtime.model.refs import MAIN, RefChange, Refs, TableRefs


def change_refs(reader: CatalogReader, name: TableName, change: RefChange) -> None:
    """Gives a table the branches and tags that `change` computes from the present ones, in one commit.

    If another writer commits at the same time, calls `change` again. Commits nothing if they stay the same. Raises
    CommitConflict if other writers are faster each time, and the errors of `change`.
    """
    commit_metadata(reader, name, lambda metadata: replace_refs(metadata, change(read_refs(metadata))))


def read_table_refs(reader: CatalogReader, name: TableName) -> TableRefs:
    """Reads the branches, tags and snapshots of a table in a database; raises NoSuchTableError if there is no table."""
    from pyiceberg.exceptions import NoSuchTableError

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
    """Returns the branches and tags of a table; the metadata of an old one may name its current snapshot alone."""
    current = metadata.get("current-snapshot-id")
    main = {} if current in (None, -1) else {MAIN: {"snapshot-id": current, "type": "branch"}}
    refs: Refs = metadata.get("refs", main)
    return refs


def _read_commit(snapshot: Mapping[str, Any]) -> BranchCommit:
    """Reads a snapshot; its operation is `overwrite`, which may be anything, if its writer did not state it."""
    summary = snapshot.get("summary") or {}
    operation = str(summary.get("operation", "overwrite"))
    return BranchCommit(snapshot.get("parent-snapshot-id"), operation, summary.get(ATTEMPT))
