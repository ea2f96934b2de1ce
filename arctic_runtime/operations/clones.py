"""The operation that shows clones: those of a project's tables, and those that its tables are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from arctic_runtime.catalog.observation.clones import observe_clone, observe_clone_tags
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.storage.disk_files import DiskFiles
from arctic_runtime.model.clone import Clone, CloneTags, list_tagged_tables
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer, Operation, OperationContext, Values


@dataclass(frozen=True)
class CloneInfo:
    """Description of a clone of a table."""

    table: TableName
    """The table that was cloned."""

    clone: TableName
    exists: bool
    """Whether the clone exists; if not, only its tags do."""

    made_at: datetime
    owner: str
    """Who made the clone; empty if that is not known."""

    used_at: datetime | None
    """Time of the last run of the clone, or of its making; None if it does not exist."""

    kept_bytes: int
    """Bytes of data files that the table's newest version does not have, and that tags keep for the clone."""


def read_clone_info(reader: CatalogReader, table: TableName, seen: CloneTags) -> CloneInfo:
    """Reads what is known of the clone of `table` that has the tags `seen`; reads the manifests of their snapshots."""
    clone = seen.clone
    return CloneInfo(
        table,
        seen.tag.clone,
        clone is not None,
        _to_time(seen.tag.at_ms),
        clone.origin.owner if clone is not None else "",
        None if clone is None else _to_time(clone.used_ms),
        sum(_list_kept_files(reader, seen).values()),
    )


def _list_kept_files(reader: CatalogReader, seen: CloneTags) -> dict[str, int]:
    """Returns the sizes of the data files that only tags for a clone keep, by path."""
    kept: dict[str, int] = {}
    for table in dict.fromkeys(name for name, _ in seen.tags):
        files = DiskFiles(reader, table, ())
        current = files.list_snapshot_files()
        for name, tag in seen.tags:
            snapshot = files.find_tagged_snapshot(tag) if name == table else None
            if snapshot is not None:
                kept |= files.list_snapshot_files(snapshot)
        kept = {path: size for path, size in kept.items() if path not in current}
    return kept


def _to_time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc)


def _show_clones(context: OperationContext, models: Sequence[Model], _: Values) -> Answer:
    reader = context.reader
    own = [clone for model in models if (clone := observe_clone(reader, model.table)) is not None]
    made = [
        read_clone_info(reader, model.table, seen)
        for model in models
        for seen in observe_clone_tags(reader, list_tagged_tables(model.table))
    ]
    lines = [*map(_describe_own, own), *(line for info in made for line in _describe_made(info))]
    data = {
        "clones": [{**vars(info), "table": str(info.table), "clone": str(info.clone)} for info in made],
        "origins": [_to_json(clone) for clone in own],
    }
    return Answer(data, tuple(lines or ["no clones"]))


def _describe_own(clone: Clone) -> str:
    by = f" by {clone.origin.owner}" if clone.origin.owner else ""
    at = f"{_to_time(clone.origin.at_ms):%Y-%m-%d %H:%M} UTC"
    return f"{clone.table}: a clone of {clone.origin.model} at version {clone.origin.version.snapshot}, made {at}{by}"


def _describe_made(info: CloneInfo) -> Iterator[str]:
    by = f" by {info.owner}" if info.owner else ""
    made = f"made {info.made_at:%Y-%m-%d %H:%M} UTC{by}"
    used = f"used {info.used_at:%Y-%m-%d %H:%M} UTC" if info.used_at else "does not exist any more, or not yet"
    yield f"{info.table}: clone {info.clone}, {made}, {used}, keeps {info.kept_bytes:,} bytes"


def _to_json(clone: Clone) -> dict[str, Any]:
    return {
        "table": str(clone.table),
        "origin": str(clone.origin.model),
        "version": clone.origin.version.snapshot,
        "made_at": _to_time(clone.origin.at_ms),
        "owner": clone.origin.owner,
        "used_at": _to_time(clone.used_ms),
    }


CLONES = Operation(
    name="clones",
    description="show the clones of tables, their age and what they keep, and which tables are clones themselves",
    tables="any",
    perform=_show_clones,
    needs_spark=False,
    changes=False,
)
