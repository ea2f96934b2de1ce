"""Reads the change rows of a window of versions in the order of their commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.catalog.change_rows.log_files import (
    LogFile,
    LogReader,
    list_appended_files,
    list_live_files,
)
from arctic_runtime.catalog.change_rows.projection import build_arrow_fields
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.columns import COMMIT_VERSION, SEQUENCE
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit
from arctic_runtime.model.version import Version, Window
from arctic_runtime.thresholds import ExportThresholds

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ChangeRows:
    """The change rows up to version `end`: their Arrow schema, and batches of rows, an iterator that can be read once.

    Rows are ordered by their commits. Rows of one commit are ordered by `_seq`, unless the commit has so many rows that
    they are not sorted in memory.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    end: Version


@dataclass(frozen=True)
class _Part:
    """A range of consecutive commits: first and last sequence number, number of rows, and the files with their rows."""

    first: int
    last: int
    rows: int
    files: tuple[LogFile, ...]


def read_change_rows(
    reader: CatalogReader, log: TableName, window: Window, commits: Sequence[Commit] | None
) -> ChangeRows:
    """Prepares to read the change rows that were added to the change table `log` in a window; reads no row yet.

    `commits` are the commits of the window, whose added files are read. If it is None, since some commits have expired,
    or if the window has no start, rows are read from the last snapshot of the window, and selected by the sequence
    numbers of their commits. Raises ConfigError if a column has a type that only Spark can read.
    """
    import pyarrow as pa

    table = reader.load_table(log.schema, log.name)
    wanted = table.schema().as_struct()
    fields = build_arrow_fields(wanted)
    schema = pa.schema([*fields, pa.field(COMMIT_VERSION, pa.int64())])
    limits = reader.thresholds.exports
    rows = LogReader(table, wanted, fields, limits.batch_rows)
    whole = None if window.start is None else commits
    files = (
        [file for file, _ in list_live_files(table, window.end.snapshot)]
        if whole is None
        else list_appended_files(table, whole)
    )
    start = -1 if window.start is None else window.start.sequence
    return ChangeRows(schema, _read_parts(rows, schema, files, start, limits), window.end)


def _read_parts(
    reader: LogReader, schema: pa.Schema, files: Sequence[LogFile], start: int, limits: ExportThresholds
) -> Iterator[pa.RecordBatch]:
    counts = {file: reader.count_rows(file) for file in files}
    for part in _plan_parts(counts, start, limits.sorted_rows):
        batches = (batch for file in part.files for batch in reader.read_rows(file, part.first, part.last))
        is_sorted = part.rows <= limits.sorted_rows
        yield from (_sort_batches(batches, schema, limits.batch_rows) if is_sorted else batches)


def _plan_parts(counts: Mapping[LogFile, Mapping[int, int]], start: int, max_rows: int) -> Iterator[_Part]:
    """Yields parts of consecutive commits after the sequence number `start`, oldest first.

    A part has at most `max_rows` rows, unless it is a single commit.
    """
    totals: Counter[int] = Counter()
    for file_counts in counts.values():
        totals.update({sequence: rows for sequence, rows in file_counts.items() if sequence > start})
    group: dict[int, int] = {}
    rows = 0
    for sequence in sorted(totals):
        if group and rows + totals[sequence] > max_rows:
            yield _build_part(counts, group)
            group, rows = {}, 0
        group[sequence] = totals[sequence]
        rows += totals[sequence]
    if group:
        yield _build_part(counts, group)


def _build_part(counts: Mapping[LogFile, Mapping[int, int]], group: Mapping[int, int]) -> _Part:
    files = tuple(file for file, file_counts in counts.items() if not file_counts.keys().isdisjoint(group))
    return _Part(min(group), max(group), sum(group.values()), files)


def _sort_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema, batch_rows: int) -> list[pa.RecordBatch]:
    import pyarrow as pa

    rows = pa.Table.from_batches(batches, schema)
    order = [(COMMIT_VERSION, "ascending"), (SEQUENCE, "ascending")]
    batches_sorted: list[pa.RecordBatch] = rows.sort_by(order).to_batches(batch_rows)
    return batches_sorted
