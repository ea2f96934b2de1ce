"""Stored sizes of tables, and the bytes of the rows that a run reads or writes by them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from arctic_runtime.ivm.algebra.tree import Scan
from arctic_runtime.model.columns import ACTION, BEFORE, SEQUENCE
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.properties import MODE
from arctic_runtime.model.run_summary import is_run
from arctic_runtime.model.state import ChangeTableState, Commit, SourceState
from arctic_runtime.model.version import Window


@dataclass(frozen=True)
class TableSizes:
    """Sizes of the files of a table with its rows, and of its change table; of other tables, `changes` is empty."""

    rows: FileSizes = field(default_factory=FileSizes)
    changes: FileSizes = field(default_factory=FileSizes)

    def estimate_value_bytes(self, column: str) -> float | None:
        """Mean stored bytes of a value of a column; None if it is not known."""
        size = self.rows.column_bytes.get(column.lower())
        return size / self.rows.rows if size is not None and self.rows.rows else None

    def guess_distinct_values(self, column: str) -> float:
        """Guesses the number of different values of a column by the bits of a value: two to their power, in files.

        Files have the number of a value in a dictionary, compressed, so that there are probably more. Number of rows if
        the size of the column is not known.
        """
        size = self.estimate_value_bytes(column)
        return self.rows.rows if size is None else min(self.rows.rows, 2.0 ** min(8 * size, 64))

    def estimate_change_bytes(self, log: ChangeTableState | None, unknown_row_bytes: float, images: float) -> float:
        """Estimates the stored bytes of a change row that the next run writes.

        It is the mean of the change rows that runs have written after the first one, or else that of a row, of which
        a change row has `images`.
        """
        later = [commit for commit in log.commits if _is_later_run(commit)] if log is not None else []
        rows = sum(commit.rows for commit in later)
        if rows:
            return sum(commit.bytes for commit in later) / rows
        return images * (self.rows.estimate_row_bytes() or unknown_row_bytes)


def _is_later_run(commit: Commit) -> bool:
    return is_run(commit) and commit.rows > 0 and commit.summary.get(MODE) != "create"


def compute_scan_bytes(scan: Scan, sizes: TableSizes, source: SourceState, window: Window) -> float:
    """Computes the bytes that a scan of `source` reads, of its rows and of the change rows in `window`."""
    columns = [field for _, field in scan.fields]
    rows = compute_row_bytes(columns, sizes, source) if scan.reads_rows else 0.0
    return rows + (compute_window_bytes(columns, sizes, source, window) if scan.reads_changes else 0.0)


def compute_row_bytes(columns: Collection[str], sizes: TableSizes, source: SourceState) -> float:
    """Computes the bytes of `columns` in all rows of a table, with those of its change rows that are not merged yet."""
    rows = sizes.rows.sum_bytes(columns)
    base = source.find_base_before(source.version)
    if base is None:
        return rows
    unmerged = Window(str(source.name), base[1], source.version)
    return rows + compute_window_bytes(columns, sizes, source, unmerged)


def compute_window_bytes(columns: Collection[str], sizes: TableSizes, source: SourceState, window: Window) -> float:
    """Computes the bytes of `columns` in the rows that were added to the log of `source` in `window`."""
    files = sizes.changes if source.kind == "changes" else sizes.rows
    before = [f"{BEFORE}.{column}" for column in columns]
    read = files.sum_bytes([*columns, *before, ACTION, SEQUENCE])
    share = read / files.bytes if files.bytes else 1.0
    return share * sum(commit.bytes for commit in source.list_commits_between(window))
