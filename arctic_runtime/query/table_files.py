"""Plans which files of a table a query reads, without those that can't have a row that it asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from arctic_runtime.catalog.change_rows.log_files import LogFile, list_appended_files
from arctic_runtime.catalog.damaged_files import explain_damage
from arctic_runtime.catalog.deleted_positions import read_deleted_positions
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.state import Commit
from arctic_runtime.model.version import Version
from arctic_runtime.query.refusal import NotAnswered

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType, NestedField


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ReadFile:
    """A data file with the positions of its deleted rows, and the sequence number of the commit that added it."""

    file: LogFile
    deleted: tuple[int, ...] = ()


@dataclass(frozen=True)
class SnapshotRows:
    """The rows of a table in one snapshot, None for a table without one, with the columns of `schema`."""

    table: Table
    schema: Schema
    snapshot: int | None

    def list_files(self, row_filter: BooleanExpression) -> list[ReadFile]:
        """Lists the data files that may have rows for which the filter is true."""
        if self.snapshot is None:
            return []
        with explain_damage(self.table, f"a manifest of snapshot {self.snapshot}"):
            tasks = self._plan_files(row_filter)
        files: list[ReadFile] = []
        for task in tasks:
            check_format(str(task.file.file_format.name), self.table)
            path = task.file.file_path
            deleted = [place for part in task.delete_files for place in read_deleted_positions(self.table, part, path)]
            files.append(ReadFile(LogFile(path, 0), tuple(deleted)))
        return files

    def _plan_files(self, row_filter: BooleanExpression) -> list[FileScanTask]:
        try:
            return list(self.table.scan(row_filter=row_filter, snapshot_id=self.snapshot).plan_files())
        except (ValueError, NotImplementedError) as error:
            if "equality deletes" not in str(error):
                raise
            raise NotAnswered(f"{'.'.join(self.table.name())} has equality deletes") from error


@dataclass(frozen=True)
class AppendedRows:
    """The rows that appends to a table added after the snapshot `start` and up to `end`."""

    table: Table
    schema: Schema
    start: int
    end: int

    def list_files(self, _: BooleanExpression | None = None) -> list[ReadFile]:
        """Lists the data files of the appends, whatever rows are asked for, since they are few."""
        with explain_damage(self.table, f"a manifest of snapshot {self.end}"):
            return [ReadFile(file) for file in list_appended_files(self.table, self._commits)]

    @cached_property
    def _commits(self) -> list[Commit]:
        commits = [_build_commit(self.table, snapshot) for snapshot in walk_back(self.table, self.start, self.end)]
        return [commit for commit in reversed(commits) if commit.operation == "append"]


def _build_commit(table: Table, snapshot: Snapshot) -> Commit:
    version = Version(str(table.metadata.table_uuid), snapshot.snapshot_id, snapshot.sequence_number or 0)
    operation = snapshot.summary.operation.value if snapshot.summary else "append"
    return Commit(version, snapshot.parent_snapshot_id, operation, 0, 0, {}, snapshot.timestamp_ms)


def walk_back(table: Table, start: int, end: int) -> Iterator[Snapshot]:
    """Yields the snapshots from `end` back to the one after `start`; raises ConfigError if `start` is not before it."""
    at: int | None = end
    while at != start:
        snapshot = None if at is None else table.snapshot_by_id(at)
        if snapshot is None:
            raise ConfigError(
                f"{'.'.join(table.name())}: the window can't be read.",
                expected=f"snapshot {start} before snapshot {end}, and none between them expired",
                actual="the end of the history" if at is None else f"no snapshot {at}",
                fix="`arctic history` shows the versions that are kept",
            )
        yield snapshot
        at = snapshot.parent_snapshot_id


def check_format(file_format: str, table: Table) -> None:
    """Raises NotAnswered for data files that are not Parquet."""
    if file_format.upper() != "PARQUET":
        raise NotAnswered(f"{'.'.join(table.name())} has files of the format {file_format.lower()}")


def keeps_nested_fields(table: Table, fields: Sequence[NestedField]) -> bool:
    """Whether nested columns have had the same names and ids of fields in all schemas of a table.

    If not, or if names of columns are mapped to ids, its files have to be read by Iceberg's ids at each level. The same
    holds for names that files have in another spelling, such as `a_x20b` for `a b`.
    """
    nested = [field for field in fields if not field.field_type.is_primitive]
    if table.name_mapping() is not None or not all(
        _PLAIN_NAME.fullmatch(name) for part in nested for name in _list_names(part.field_type)
    ):
        return False
    known: Mapping[int, list[str]] = {field.field_id: [] for field in nested}
    for schema in table.schemas().values():
        for field in schema.fields:
            if field.field_id in known:
                known[field.field_id].append(repr(field.field_type))
    return all(len(set(forms)) == 1 for forms in known.values())


def _list_names(kind: IcebergType) -> Iterator[str]:
    """Yields the names of the fields of structs in a type, at each level."""
    from pyiceberg.types import ListType, MapType, StructType

    match kind:
        case StructType(fields=fields):
            for part in fields:
                yield part.name
                yield from _list_names(part.field_type)
        case ListType(element_type=element):
            yield from _list_names(element)
        case MapType(key_type=key, value_type=value):
            yield from (*_list_names(key), *_list_names(value))
