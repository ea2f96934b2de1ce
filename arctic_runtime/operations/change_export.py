"""Exports the change rows between two versions of a table, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.catalog.change_rows.read import ChangeRows, read_change_rows
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.table import Model
from arctic_runtime.spark.tables.versions import find_window

if TYPE_CHECKING:
    import pyarrow as pa


def open_changes(reader: CatalogReader, model: Model, start: int | str | None, end: int | str | None) -> ChangeRows:
    """Opens the change rows after version `start` and up to `end`; no row is read before the first batch is.

    A version is given by its snapshot id or by a savepoint's name. None for `start` means the oldest change row that is
    kept, None for `end` the newest version. Raises ConfigError if there is no such version, if `start` is newer than
    `end`, or if some change rows between them have been deleted.
    """
    limits = find_window(reader, model, start, end)
    return read_change_rows(reader, model.table.changes, limits.window, limits.commits)


def limit_rows(rows: ChangeRows, limit: int) -> ChangeRows:
    """Returns the change rows limited to the first `limit` rows."""
    return replace(rows, batches=_take_rows(rows.batches, limit))


def _take_rows(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= len(batch)
