"""Observes the rows and files of a table, exactly if the catalog's metadata has them, and counts its unmerged rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.observation.manifests import list_added_files
from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.columns import ACTION, BEFORE
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import DELETE, INSERT
from arctic_runtime.model.state import Commit, TableState
from arctic_runtime.model.table import Model

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile
    from pyiceberg.table import Table


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


class UnmergedRows:
    """Counts the rows of unmerged commits to change tables; counts are cached, so each commit is read only once.

    Of each file only one or two columns are read.
    """

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader
        self._counts: dict[TableName, dict[int, int]] = {}

    def count_rows(self, changes: TableName, unmerged: Sequence[Commit]) -> int:
        """Returns the number of rows that the commits `unmerged` inserted minus the number that they deleted.

        `changes` is the change table.
        """
        known = self._counts.get(changes, {})
        counts = {commit.version.snapshot: known.get(commit.version.snapshot) for commit in unmerged}
        if None in counts.values():
            table = self._reader.load_table(changes.schema, changes.name)
            for commit in unmerged:
                if counts[commit.version.snapshot] is None:
                    counts[commit.version.snapshot] = _count_net_rows(table, commit)
        self._counts[changes] = {snapshot: count for snapshot, count in counts.items() if count is not None}
        return sum(self._counts[changes].values())


def count_table_rows(model: Model, state: TableState, counts: UnmergedRows) -> int:
    """Returns the number of rows that readers of a model's table see; 0 for one that is not built."""
    if state.changes is None or state.base is None:
        return 0
    if model.config.merge != "on_read" or model.config.changelog != "lookup":
        return state.base.rows
    return state.base.rows + counts.count_rows(model.table.changes, state.changes.list_commits_after(state.base.merged))


def _count_net_rows(table: Table, commit: Commit) -> int:
    if RunSummary.decode(commit.summary).mode == "create":
        return commit.rows
    return sum(_count_file(table, path) for path in list_added_files(table, [commit]))


def _count_file(table: Table, path: str) -> int:
    """Returns the number of rows that the change rows in one file insert, minus the number that they delete.

    A deletion without an old row does not count, since no row was deleted.
    """
    import pyarrow.compute as pc
    from pyarrow.parquet import ParquetFile

    count = 0
    with explain_damage(table, path), table.io.new_input(path).open() as stream:
        file = ParquetFile(stream, page_checksum_verification=True)
        columns = [ACTION, *_list_before_columns(file)]
        for batch in file.iter_batches(columns=columns):
            deleted = pc.equal(batch[ACTION], DELETE)
            if BEFORE in batch.schema.names:
                deleted = pc.and_(deleted, pc.is_valid(batch[BEFORE]))
            count += (pc.sum(pc.equal(batch[ACTION], INSERT)).as_py() or 0) - (pc.sum(deleted).as_py() or 0)
    return count


def _list_before_columns(file: ParquetFile) -> list[str]:
    """Returns the column to read to find change rows with an old row: a field of `_before`, or `_before` itself.

    `_before` itself is read if all its field names contain dots. Empty if the file has no `_before`.
    """
    if BEFORE not in file.schema_arrow.names:
        return []
    names = [field.name for field in file.schema_arrow.field(BEFORE).type]
    return [next((f"{BEFORE}.{name}" for name in names if "." not in name), BEFORE)]
