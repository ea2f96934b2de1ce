"""The data files of a change table, and the rows in them with the sequence numbers of their commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arctic_runtime.catalog.change_rows.projection import project_columns
from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.deleted_positions import list_row_group_starts, read_deleted_positions
from arctic_runtime.catalog.observation.manifests import (
    get_referenced_path,
    get_sequence,
    list_added_files,
    list_manifests,
    read_entries,
)
from arctic_runtime.model.columns import COMMIT_VERSION
from arctic_runtime.model.state import Commit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import StructType

LINEAGE_FIELD = 2147483539
"""The field id that Iceberg reserves for the sequence number of a row's last update."""


@dataclass(frozen=True)
class LogFile:
    """A data file of a change table; `sequence` is the sequence number of the commit that added it.

    Rows of a compacted file have the sequence numbers of their own commits in a column. `deletes` are the deletion
    vectors that mark rows of the file as deleted.
    """

    path: str
    sequence: int
    deletes: tuple[DataFile, ...] = field(default=(), compare=False)


def list_appended_files(table: Table, commits: Sequence[Commit]) -> list[LogFile]:
    """Lists the data files that the append commits among `commits` added; later deletions of their rows are ignored."""
    appends = [commit for commit in commits if commit.operation == "append"]
    return [LogFile(path, sequence) for path, sequence in list_added_files(table, appends).items()]


def list_live_files(table: Table, snapshot: int) -> list[tuple[LogFile, DataFile]]:
    """Lists the data files of the snapshot with the id `snapshot`, with the deletion vectors that apply to them.

    Each comes with its entry in a manifest, which has the bounds of its columns.
    """
    from pyiceberg.manifest import ManifestEntryStatus

    state = table.snapshot_by_id(snapshot)
    assert state is not None
    data: dict[str, tuple[int, DataFile]] = {}
    deletes: dict[str, list[DataFile]] = {}
    for manifest in list_manifests(table, state):
        for entry in read_entries(table, manifest):
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            file = entry.data_file
            if file.content.name == "DATA":
                data[file.file_path] = get_sequence(entry, manifest), file
            elif path := get_referenced_path(file):
                deletes.setdefault(path, []).append(file)
    return [(LogFile(path, sequence, tuple(deletes.get(path, ()))), file) for path, (sequence, file) in data.items()]


class LogReader:
    """Reads rows from the files of one change table, converted to the columns `wanted` with the Arrow `fields`.

    Each row also has the sequence number of its commit, in the column COMMIT_VERSION.
    """

    def __init__(self, table: Table, wanted: StructType, fields: list[pa.Field], batch_rows: int) -> None:
        self._table = table
        self._wanted = wanted
        self._fields = fields
        self._batch_rows = batch_rows

    def count_rows(self, file: LogFile) -> Mapping[int, int]:
        """Counts the rows of a file by the sequence number of their commit; deleted rows count too."""
        import pyarrow.compute as pc
        from pyarrow.parquet import ParquetFile

        with explain_damage(self._table, file.path), self._table.io.new_input(file.path).open() as stream:
            parquet = ParquetFile(stream, page_checksum_verification=True)
            column = self._find_lineage(self._get_schema(parquet))
            if column is None:
                return {file.sequence: parquet.metadata.num_rows}
            counts: Counter[int] = Counter()
            for batch in parquet.iter_batches(self._batch_rows, columns=[column]):
                for pair in pc.value_counts(pc.fill_null(batch.column(0), file.sequence)).to_pylist():
                    counts[pair["values"]] += pair["counts"]
            return counts

    def read_rows(self, file: LogFile, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file from commits with sequence numbers from `first` to `last`, without deleted ones."""
        import pyarrow as pa
        import pyarrow.compute as pc
        from pyarrow.parquet import ParquetFile

        removed = [place for each in file.deletes for place in read_deleted_positions(self._table, each, file.path)]
        gone = pa.array(removed, pa.int64())
        with explain_damage(self._table, file.path), self._table.io.new_input(file.path).open() as stream:
            parquet = ParquetFile(stream, page_checksum_verification=True)
            own = self._get_schema(parquet)
            column = self._find_lineage(own)
            for at, batch in self._iterate_batches(parquet, column, first, last):
                sequences = (
                    pa.repeat(pa.scalar(file.sequence, pa.int64()), len(batch))
                    if column is None
                    else pc.fill_null(batch.column(column), file.sequence)
                )
                rows = project_columns(batch, own.as_struct(), self._wanted, self._fields)
                keep = pc.and_(pc.greater_equal(sequences, first), pc.less_equal(sequences, last))
                if removed:
                    places = pa.array(range(at, at + len(batch)), pa.int64())
                    keep = pc.and_(keep, pc.invert(pc.is_in(places, value_set=gone)))
                selected = rows.append_column(pa.field(COMMIT_VERSION, pa.int64()), sequences).filter(keep)
                yield from selected.to_batches()

    def _iterate_batches(
        self, parquet: ParquetFile, column: str | None, first: int, last: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields the batches of row groups that may have rows with sequence numbers from `first` to `last`.

        Each batch comes with the position of its first row in the file. `column` has the sequence numbers, if any.
        """
        for group, start in enumerate(list_row_group_starts(parquet.metadata)):
            if not _may_contain(parquet, group, column, first, last):
                continue
            at = start
            for batch in parquet.iter_batches(self._batch_rows, row_groups=[group]):
                yield at, batch
                at += len(batch)

    def _get_schema(self, parquet: ParquetFile) -> Schema:
        from pyiceberg.io.pyarrow import pyarrow_to_schema

        schema: Schema = pyarrow_to_schema(parquet.schema_arrow, self._table.name_mapping(), format_version=3)
        return schema

    @staticmethod
    def _find_lineage(schema: Schema) -> str | None:
        return next((field.name for field in schema.fields if field.field_id == LINEAGE_FIELD), None)


def _may_contain(parquet: ParquetFile, group: int, column: str | None, first: int, last: int) -> bool:
    """Whether a row group may have rows with sequence numbers from `first` to `last`, by the statistics of `column`."""
    chunks = parquet.metadata.row_group(group)
    columns = (chunks.column(place) for place in range(chunks.num_columns))
    statistics = next((chunk.statistics for chunk in columns if chunk.path_in_schema == column), None)
    if statistics is None or not statistics.has_min_max or statistics.null_count:
        return True
    return bool(statistics.min <= last and statistics.max >= first)
