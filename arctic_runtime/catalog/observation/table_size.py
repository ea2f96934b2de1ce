"""Observes how large a table is: its rows, if the catalog's metadata has their exact number, and its files."""

from __future__ import annotations

from dataclasses import dataclass, replace

from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model


@dataclass(frozen=True)
class TableSize:
    """Size of a table as readers see it; each part is None if it is not known without a scan."""

    rows: int | None = None
    """Number of rows, exactly."""

    stored_rows: int | None = None
    """Number of rows in the files that a scan reads, also deleted and replaced ones."""

    bytes: int | None = None
    """Bytes of these files."""


def observe_size(reader: CatalogReader, model: Model, name: TableName) -> TableSize:
    """Returns the size of the table or view `name`, which is `model` in some environment.

    The rows of a view are known if all change rows are merged into the table below it.
    """
    size = _measure_table(reader, name)
    if size is not None:
        return size
    base = _measure_table(reader, name.base)
    if base is None or base.stored_rows is None or base.bytes is None:
        return TableSize()
    state = observe_model(reader, replace(model, table=name, config=replace(model.config, merge="on_read")))
    if state.changes is None or state.base is None or state.base.merged is None:
        return TableSize()
    unmerged = state.changes.list_commits_after(state.base.merged)
    return TableSize(
        None if unmerged else base.rows,
        base.stored_rows + sum(commit.rows for commit in unmerged),
        base.bytes + sum(commit.bytes for commit in unmerged),
    )


def _measure_table(reader: CatalogReader, name: TableName) -> TableSize | None:
    """Returns the size of an Iceberg table; None if there is none of this name.

    Deletion vectors, of format version 3, say how many rows they delete. Delete files of version 2 don't: two of them
    may delete the same row.
    """
    table = find_table(reader, name)
    if table is None:
        return None
    snapshot = table.current_snapshot()
    if snapshot is None:
        return TableSize(0, 0, 0)
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    if "total-records" not in summary:
        return TableSize()
    stored = int(summary["total-records"])
    deleted = int(summary.get("total-position-deletes", 0))
    is_exact = not int(summary.get("total-equality-deletes", 0)) and (not deleted or table.format_version >= 3)
    files = summary.get("total-files-size")
    return TableSize(stored - deleted if is_exact else None, stored, None if files is None else int(files))
