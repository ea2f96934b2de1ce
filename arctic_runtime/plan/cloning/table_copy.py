"""Derives the metadata of a table that has snapshots of another table, and so the same files.

Metadata is JSON, as Iceberg's specification has it in a table's metadata file. What this module does not know in it is
copied as it is, such as types of columns or fields of later versions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from arctic_runtime.model.clone import SHARED_FILES
from arctic_runtime.model.names import TableName, escape_table_name

Metadata = Mapping[str, Any]
"""Metadata of an Iceberg table, as JSON."""

_PLACES = (
    "write.data.path",
    "write.folder-storage.path",
    "write.metadata.path",
    "write.object-storage.path",
)
"""Iceberg's properties that place new files of a table in folders, which two tables must not share."""

_FOR_ALL_CLONES = uuid.UUID("6d1f5a0c-6f0e-5a38-9d0a-6c6f6e65a2c7")


@dataclass(frozen=True)
class TableCopy:
    """The wanted differences between a table and its copy."""

    name: TableName
    uuid: str
    location: str
    main: int
    """Id of the snapshot that is the copy's newest one."""

    snapshots: tuple[int, ...]
    """Ids of all snapshots that the copy has."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties that the copy has besides those of the table, or with other values."""

    summaries: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By snapshot, entries of its summary that the copy has besides those of the table, or with other values."""

    tags: Mapping[str, int] = field(default_factory=dict)
    """The copy's tags, each with its snapshot."""


def derive_metadata(metadata: Metadata, copy: TableCopy) -> dict[str, Any]:
    """Derives the metadata of a copy from that of the table; the copy knows no file of the table's own metadata."""
    known = [snapshot for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] in copy.snapshots]
    kept_log = [entry for entry in metadata.get("snapshot-log", ()) if entry["snapshot-id"] in copy.snapshots]
    newest = next(snapshot for snapshot in known if snapshot["snapshot-id"] == copy.main)
    entry = {"snapshot-id": copy.main, "timestamp-ms": newest["timestamp-ms"]}
    others = [part for part in kept_log if part["timestamp-ms"] <= newest["timestamp-ms"] and part != entry]
    branch = {"main": {"snapshot-id": copy.main, "type": "branch"}}
    tags = {name: {"snapshot-id": snapshot, "type": "tag"} for name, snapshot in copy.tags.items()}
    kept_properties = {key: value for key, value in metadata.get("properties", {}).items() if key not in _PLACES}
    return {
        **{key: value for key, value in metadata.items() if key not in ("statistics", "partition-statistics")},
        "table-uuid": copy.uuid,
        "location": copy.location,
        "properties": {**kept_properties, **SHARED_FILES, **copy.properties},
        "current-snapshot-id": copy.main,
        "snapshots": [_rewrite_summary(snapshot, copy.summaries) for snapshot in known],
        "snapshot-log": [*others, entry],
        "metadata-log": [],
        "refs": {**branch, **tags},
    }


def _rewrite_summary(snapshot: Mapping[str, Any], summaries: Mapping[int, Mapping[str, str]]) -> dict[str, Any]:
    entries = summaries.get(snapshot["snapshot-id"])
    return {**snapshot, "summary": {**snapshot.get("summary", {}), **entries}} if entries else dict(snapshot)


def walk_lineage(metadata: Metadata, head: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yields the snapshot `head`, or the current one, and its ancestors, newest first, until one that has expired."""
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    at = metadata.get("current-snapshot-id") if head is None else head
    while at in by_id:
        yield by_id[at]
        at = by_id[at].get("parent-snapshot-id")


def get_summary(snapshot: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns the summary of a snapshot in a table's metadata; empty if it has none."""
    summary: Mapping[str, str] = snapshot.get("summary", {})
    return summary


def compute_clone_uuid(origin: str, clone: TableName, stamp: str) -> str:
    """Computes the UUID of a copy of the table with the UUID `origin`, for the clone named `clone`.

    Copies that are made with one `stamp` have UUIDs that can be computed before the copies exist, so that models that
    are cloned together can name the versions of one another.
    """
    return str(uuid.uuid5(_FOR_ALL_CLONES, f"{origin} {escape_table_name(clone)} {stamp}"))


def choose_location(origin: str, name: TableName, copy: TableName, own_uuid: str, schema_location: str | None) -> str:
    """Chooses a folder for a copy's own files that no other table has.

    `origin` is the folder of the table, whose name is `name`. The folder is that of the schema, `schema_location`, if
    it is known; otherwise it is chosen beside the folder of the table.
    """
    folder = f"{copy.name}-{own_uuid[:8]}"
    if schema_location:
        return f"{schema_location.rstrip('/')}/{folder}"
    parent, _, _ = origin.rstrip("/").rpartition("/")
    root, _, schema = parent.rpartition("/")
    if schema == name.schema and root:
        return f"{root}/{copy.schema}/{folder}"
    return f"{parent}/{copy.schema}.{folder}"
