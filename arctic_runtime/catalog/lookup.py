"""Looks up one row of a model's table by its key, or the first rows of any table, without Spark.

Files and row groups that can't contain the key are skipped, by their partition, their bucket, and the bounds of their
values.

A lookup reads as few bytes as possible.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.change_rows.log_files import LogFile, LogReader
from arctic_runtime.catalog.change_rows.projection import build_arrow_fields
from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.deleted_positions import list_row_group_starts, read_deleted_positions
from arctic_runtime.catalog.observation.manifests import check_manifests, list_added_files
from arctic_runtime.catalog.observation.tables import observe_model
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.catalog.storage.file_stream import MeteredFileIO
from arctic_runtime.errors import ArcticError, ConfigError, DataError
from arctic_runtime.model.columns import ACTION, BEFORE, COMMIT_VERSION, IS_CURRENT, SEQUENCE, strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.state import ChangeTableState, Commit, require_built
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from pyiceberg.table import DataScan, FileScanTask, Table
    from pyiceberg.types import IcebergType


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True)
class Lookup:
    """Result of a lookup: the row as values by column name, or None if there is none, and the cost of the lookup.

    `files_opened` is the number of data files that were opened. `bytes_read` includes deletion vectors.
    """

    row: Mapping[str, Any] | None
    files_opened: int
    bytes_read: int


class _Files:
    """Reads the rows of one key from the files of one table; `opened` and `io.bytes` count the files and bytes read.

    `wanted` has the value to look up, as text, by the name of the key column.
    """

    def __init__(self, table: Table, wanted: Mapping[str, str]) -> None:
        self.table, self.wanted = table, wanted
        self.io = MeteredFileIO(table.io)
        self.opened = 0

    def plan_files(self, snapshot: int) -> Iterator[tuple[DataScan, FileScanTask]]:
        """Yields the data files of a snapshot that may contain the key, each with the scan that has selected it.

        Files are selected by their partitions and by the bounds of their values.
        """
        scan = _build_scan(self.table, snapshot, self.wanted)
        try:
            with explain_damage(self.table, f"a manifest of snapshot {snapshot}"):
                return ((scan, task) for task in list(scan.plan_files()))
        except ArcticError:
            check_manifests(self.table, snapshot)
            raise

    def read_rows(self, scan: DataScan, task: FileScanTask) -> list[dict[str, Any]]:
        """Returns the rows of the key in one file, without deleted ones, each as values by column name.

        First reads the key's columns in row groups whose bounds include the key, then whole rows at the positions of
        the key.
        """
        self.opened += 1
        with (
            explain_damage(self.table, task.file.file_path),
            self.io.new_input(task.file.file_path).open() as stream,
        ):
            file = _KeyedFile(stream, self.table, scan, tuple(self.wanted))
            places = list(file.find_positions())
            gone = self._list_deleted_positions(task) if places else set()
            return file.read_rows_at([place for place in places if place not in gone])

    def _list_deleted_positions(self, task: FileScanTask) -> set[int]:
        """Returns the positions of rows in the data file of `task` that are marked as deleted."""
        path = task.file.file_path
        return {
            place for file in task.delete_files for place in read_deleted_positions(self.table, file, path, self.io)
        }


class _KeyedFile:
    """A Parquet data file from which the rows of one key are read: first the key's columns, then only matching rows.

    Values are converted field by field, since pyiceberg's own reader loses nulls in arrays and maps of structs.
    """

    def __init__(self, stream: Any, table: Table, scan: DataScan, key: tuple[str, ...]) -> None:
        import pyarrow.dataset as ds
        from pyiceberg.io.pyarrow import pyarrow_to_schema

        self.table, self.scan, self.key = table, scan, key
        checked = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        self.fragment = ds.ParquetFileFormat(default_fragment_scan_options=checked).make_fragment(stream)
        self.schema = pyarrow_to_schema(self.fragment.physical_schema, table.name_mapping(), format_version=3)
        self.starts = list_row_group_starts(self.fragment.metadata)

    def find_positions(self) -> Iterator[int]:
        """Yields the positions of the key's rows in the file; reads only row groups whose bounds include the key."""
        import pyarrow as pa
        from pyiceberg.expressions.visitors import bind, translate_column_names
        from pyiceberg.io.pyarrow import expression_to_pyarrow

        bound = bind(self.table.schema(), self.scan.row_filter, case_sensitive=False)
        own = bind(self.schema, translate_column_names(bound, self.schema, case_sensitive=False), case_sensitive=False)
        condition = expression_to_pyarrow(own, self.schema)
        fields = [self.table.schema().find_field(name, case_sensitive=False) for name in self.key]
        names = [self.schema.find_field(field.field_id).name for field in fields]
        for group in self.fragment.subset(filter=condition).row_groups:
            keys = self.fragment.subset(row_group_ids=[group.id]).to_table(columns=names)
            places = pa.array(range(self.starts[group.id], self.starts[group.id] + len(keys)))
            yield from keys.append_column("__arctic_place", places).filter(condition)["__arctic_place"].to_pylist()

    def read_rows_at(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """Returns the rows at the positions `places` of the file, with the table's columns in the scan's snapshot."""
        wanted, own = self.scan.projection().as_struct(), self.schema.as_struct()
        matches: list[dict[str, Any]] = []
        for group, start in enumerate(self.starts):
            end = start + self.fragment.metadata.row_group(group).num_rows
            inside = [place - start for place in places if start <= place < end]
            if inside:
                rows = self.fragment.subset(row_group_ids=[group]).to_table().take(inside).to_pylist()
                matches += [_project_value(row, own, wanted) for row in rows]
        return matches


def look_up_row(reader: CatalogReader, model: Model, values: Sequence[str]) -> Lookup:
    """Looks up the row whose primary key has these `values`, given as texts in the key's order.

    In a table with history this is the current version, or if `values` has a value for `_valid_from`, the version that
    begins there. Only files that may contain the row are read: first files of unmerged change rows, from the newest
    commit to the oldest, then files of the base table, from the largest to the smallest. The first match ends the
    search. Raises ConfigError if the number of values is not the number of key columns.
    """
    key = model.config.primary_key
    is_current = model.config.has_history and len(values) == len(model.config.entity_key)
    if len(values) != len(key) and not is_current:
        raise ConfigError(
            f"{model.table}: the number of key values is wrong.",
            expected=f"one value for each of {', '.join(key) or 'no column'}",
            actual=f"{len(values)} value(s)",
        )
    state = observe_model(reader, model)
    changes, base = require_built(state, model.table)
    wanted = dict(zip(key, values, strict=not is_current))
    log = _Files(reader.load_table(model.table.changes.schema, model.table.changes.name), wanted)
    change_row = (_select_current if is_current else _select_newest)(_read_newest_changes(log, changes, base.merged))
    if change_row is not None:
        names = [column.name for column in strip_change_columns(changes.columns)]
        is_gone = change_row[ACTION] == DELETE or (is_current and not change_row[IS_CURRENT])
        row = None if is_gone else {name: change_row[name] for name in names}
        return Lookup(row, log.opened, log.io.bytes)
    wanted = {**wanted, **({IS_CURRENT: "true"} if is_current else {})}
    merged = _Files(reader.load_table(model.base.schema, model.base.name), wanted)
    row = _find_live_row(merged, base.snapshot)
    return Lookup(row, log.opened + merged.opened, log.io.bytes + merged.io.bytes)


def estimate_full_scan_bytes(reader: CatalogReader, model: Model) -> int:
    """Number of bytes that a full read of a model's base table would read: all its data files and deletion vectors."""
    snapshot = reader.load_table(model.base.schema, model.base.name).current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary.additional_properties.get("total-files-size", 0))


def _find_live_row(base: _Files, snapshot: int) -> dict[str, Any] | None:
    planned = sorted(
        base.plan_files(snapshot), key=lambda planned_file: planned_file[1].file.record_count, reverse=True
    )
    return next((row for scan, task in planned for row in base.read_rows(scan, task)), None)


def _select_newest(commits: Iterable[list[dict[str, Any]]]) -> dict[str, Any] | None:
    """Returns the newest change row of a key; None if there is none.

    `commits` are the key's change rows by commit, the newest commit first.
    """
    rows = next(iter(commits), [])
    if len(rows) <= 1:
        return rows[0] if rows else None
    return max(rows, key=lambda row: row[SEQUENCE])


def _select_current(commits: Iterable[list[dict[str, Any]]]) -> dict[str, Any] | None:
    """Returns the newest change row that opens or ends a key's current version; None if there is none.

    `commits` are the key's change rows by commit, newest first. If a commit both opens and ends a version, the row that
    opens it is returned.
    """
    for rows in commits:
        opened = [row for row in rows if row[IS_CURRENT] and row[ACTION] != DELETE]
        ended = [row for row in rows if row[IS_CURRENT] or (row[BEFORE] or {}).get(IS_CURRENT)]
        if opened or ended:
            return (opened or ended)[0]
    return None


def _read_newest_changes(
    log: _Files, changes: ChangeTableState, merged: Version | None
) -> Iterator[list[dict[str, Any]]]:
    """Yields the key's change rows after the version `merged`, one list for each commit, newest first.

    `log` reads the change table, and `changes` is its state. None for `merged` means all change rows.
    """
    pending = changes.list_commits_after(merged)
    if not pending:
        return
    places = list_added_files(log.table, pending)
    files_by_path: dict[str, tuple[DataScan, FileScanTask]] = {}
    for snapshot in _list_snapshots_before_rewriting(changes.commits, pending):
        files_by_path |= {task.file.file_path: (scan, task) for scan, task in log.plan_files(snapshot)}
    for place in sorted({places[path] for path in files_by_path if path in places}, reverse=True):
        rows = [
            row
            for path, scan_and_task in files_by_path.items()
            if places.get(path) == place
            for row in log.read_rows(*scan_and_task)
        ]
        if rows:
            yield rows


def _list_snapshots_before_rewriting(commits: Sequence[Commit], pending: Sequence[Commit]) -> list[int]:
    """Returns ids of snapshots that together contain all files that the commits `pending` added.

    If such a file was rewritten by a compaction later, these include the snapshot before the compaction. `commits` are
    all commits of the table.
    """
    first = pending[0].version.sequence
    rewritten = (c.parent for c in commits if c.operation == "replace" and c.version.sequence > first)
    return [*(parent for parent in rewritten if parent is not None), pending[-1].version.snapshot]


def _project_value(value: Any, own: IcebergType, wanted: IcebergType) -> Any:
    """Converts a value from its type in a file, `own`, to the table's type, `wanted`.

    Fields of structs are matched by their ids; a field that the file lacks gets its default value, or None.
    """
    from pyiceberg.types import ListType, MapType, StructType

    match own, wanted:
        case _ if value is None:
            return None
        case StructType(), StructType():
            known = {field.field_id: field for field in own.fields}
            pairs = [(field, known.get(field.field_id)) for field in wanted.fields]
            return {
                field.name: _project_value(value[own_field.name], own_field.field_type, field.field_type)
                if own_field
                else field.initial_default
                for field, own_field in pairs
            }
        case ListType(), ListType():
            return [_project_value(element, own.element_type, wanted.element_type) for element in value]
        case MapType(), MapType():
            return [
                (
                    _project_value(key, own.key_type, wanted.key_type),
                    _project_value(own_field, own.value_type, wanted.value_type),
                )
                for key, own_field in value
            ]
    return value


def _build_scan(table: Table, snapshot: int, wanted: Mapping[str, str]) -> DataScan:
    from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, IsNaN, Reference
    from pyiceberg.expressions.literals import literal
    from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType

    condition: BooleanExpression = AlwaysTrue()
    for name, value in wanted.items():
        kind = table.schema().find_field(name, case_sensitive=False).field_type
        try:
            is_nan = isinstance(kind, FloatType | DoubleType) and math.isnan(float(value))
            key = Reference(name)
            if isinstance(kind, IntegerType | LongType) and not _WHOLE_NUMBER.fullmatch(value):
                raise ValueError("pyiceberg would round it")
            is_equal = IsNaN(term=key) if is_nan else EqualTo(term=key, value=literal(value).to(kind))
            condition = And(condition, is_equal)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ConfigError(
                f"{value!r} is not a valid value of the key column `{name}`.",
                expected=f"a value of type {kind}",
            ) from error
    return table.scan(row_filter=condition, snapshot_id=snapshot, case_sensitive=False)


def read_sample_rows(reader: CatalogReader, name: TableName, max_rows: int) -> list[dict[str, Any]]:
    """Reads at most `max_rows` rows of the Iceberg table `name`, each as values by column; empty without a snapshot.

    At the base of an arctic model, changes that are not merged yet are missing. Reads no more files than needed, and of
    a file no more row groups. Raises DataError if there is no such table, ConfigError if a column has a type that only
    Spark can read.
    """
    rows: list[dict[str, Any]] = []
    for batch in _iterate_rows(reader, name, max_rows):
        rows += batch[: max_rows - len(rows)]
        if len(rows) >= max_rows:
            break
    return rows


def _iterate_rows(reader: CatalogReader, name: TableName, batch_rows: int) -> Iterator[list[dict[str, Any]]]:
    table = find_table(reader, name)
    if table is None:
        raise DataError(
            "A table has no rows to show.",
            where=str(name),
            expected="a table that was loaded",
            actual="none",
            fix="wait until it is loaded: `arctic status` says how far it is",
        )
    if table.current_snapshot() is None:
        return
    wanted = table.schema().as_struct()
    files = LogReader(table, wanted, build_arrow_fields(wanted), batch_rows)
    for task in table.scan().plan_files():
        file = LogFile(task.file.file_path, 0, tuple(task.delete_files))
        for batch in files.read_rows(file, 0, sys.maxsize):
            yield batch.drop_columns([COMMIT_VERSION]).to_pylist()
