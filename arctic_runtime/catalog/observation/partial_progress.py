"""Observes base rewrites that were interrupted, by the branches that they left on a model's base table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.files.compaction import BucketRange, PartialProgress, parse_rewrite_branch
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import REWRITTEN

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef


def observe_partial_progress(reader: CatalogReader, name: TableName) -> tuple[PartialProgress, ...]:
    """Lists the interrupted rewrites of the base table `name` that can be continued.

    These have a branch that starts at the table's newest snapshot.
    """
    table = reader.load_table(name.schema, name.name)
    progress_by_branch = (_read_progress(table, branch, ref) for branch, ref in table.metadata.refs.items())
    return tuple(one for one in progress_by_branch if one is not None)


def _read_progress(table: Table, branch: str, ref: SnapshotRef) -> PartialProgress | None:
    head = table.metadata.current_snapshot_id
    end = parse_rewrite_branch(branch, head) if head is not None else None
    if head is None or end is None or ref.snapshot_ref_type != "branch":
        return None
    behind = list(_walk_branch(table, ref.snapshot_id, head))
    return (
        PartialProgress(branch, end, frozenset(filter(None, map(_parse_range, behind)))) if behind[-1] == "" else None
    )


def _walk_branch(table: Table, tip: int, head: int) -> Iterator[str]:
    """Yields the range of buckets that each snapshot from `tip` back to `head` has rewritten; `?` if it names none.

    The last text is empty if the snapshots lead back to `head`, else `?`.
    """
    at: int | None = tip
    while at is not None and at != head:
        snapshot = table.snapshot_by_id(at)
        part = snapshot.summary.additional_properties.get(REWRITTEN) if snapshot and snapshot.summary else None
        yield part or "?"
        at = snapshot.parent_snapshot_id if snapshot else None
    yield "" if at == head else "?"


def _parse_range(text: str) -> BucketRange | None:
    first, _, last = text.partition("-")
    return BucketRange(int(first), int(last)) if first.isdecimal() and last.isdecimal() else None
