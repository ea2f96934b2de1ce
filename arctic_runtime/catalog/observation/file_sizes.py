"""Observes the sizes of a table's files and columns from its manifests; no data file is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.observation.manifests import walk_live_files
from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_filter import ColumnLimit, Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyiceberg.expressions.literals import Literal
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField


def observe_file_sizes(
    reader: CatalogReader, name: TableName, limits: Collection[ColumnLimit] = ()
) -> FileSizes | None:
    """Returns the sizes of the files of a table's newest snapshot; None if there is no table.

    Files that can't have a row within all of `limits`, by their bounds of columns, are left out.
    """
    table = find_table(reader, name)
    if table is None:
        return None
    snapshot = table.current_snapshot()
    if snapshot is None:
        return FileSizes()
    may_match = _build_file_filter(table, limits)
    rows = files = size = 0
    columns: Counter[int] = Counter()
    for _, file in walk_live_files(table, snapshot):
        if file.content.name != "DATA":
            size += _count_delete_bytes(file)
            rows -= file.record_count if file.content.name == "POSITION_DELETES" else 0
        elif may_match(file):
            rows, files, size = rows + file.record_count, files + 1, size + file.file_size_in_bytes
            columns.update(file.column_sizes or {})
    return FileSizes(max(0, rows), files, size, _name_columns(table.schema(), columns))


def _count_delete_bytes(file: Any) -> int:
    """Number of bytes that a file of deleted positions takes: of a deletion vector, those of its part of the file."""
    from pyiceberg.manifest import DATA_FILE_TYPE

    names = [field.name for field in DATA_FILE_TYPE[3].fields]
    part: int | None = file[names.index("content_size_in_bytes")]
    return int(file.file_size_in_bytes if part is None else part)


def _name_columns(schema: Schema, sizes: Counter[int]) -> dict[str, int]:
    """Maps sizes by the column's id to sizes by its name in lower case; a dropped column keeps its id as its name."""
    return {(schema.find_column_name(number) or str(number)).lower(): size for number, size in sizes.items()}


def _build_file_filter(table: Table, limits: Collection[ColumnLimit]) -> Callable[[Any], bool]:
    """Builds a function that returns whether a file may have a row within all of `limits`."""
    bounds = [bound for limit in limits if (bound := _build_bound(table.schema(), limit)) is not None]
    return lambda file: all(bound.may_match(file) for bound in bounds)


@dataclass(frozen=True)
class _ColumnBound:
    """The limit of a column, with its value as files have it."""

    field: NestedField
    operator: Operator
    value: Any

    def may_match(self, file: Any) -> bool:
        """Whether the file's bounds of the column allow a row within the limit; True if the file has no bounds."""
        low, high = (self._read_bound(bounds) for bounds in (file.lower_bounds, file.upper_bounds))
        is_low_enough = low is None or self.operator in (">", ">=") or low <= self.value
        return is_low_enough and (high is None or self.operator in ("<", "<=") or high >= self.value)

    def _read_bound(self, bounds: Mapping[int, bytes] | None) -> Any:
        from pyiceberg.conversions import from_bytes
        from pyiceberg.types import PrimitiveType

        stored = (bounds or {}).get(self.field.field_id)
        kind = self.field.field_type
        return None if stored is None or not isinstance(kind, PrimitiveType) else from_bytes(kind, stored)


def _build_bound(schema: Schema, limit: ColumnLimit) -> _ColumnBound | None:
    """Converts the value of a limit to the column's type; None if there is no such column, or no such value of it."""
    from pyiceberg.expressions.literals import AboveMax, BelowMin, literal
    from pyiceberg.types import PrimitiveType

    convert: Callable[[Any], Literal[Any]] = literal
    try:
        field = schema.find_field(limit.column, case_sensitive=False)
        value = convert(limit.value).to(field.field_type)
    except (TypeError, ValueError, OverflowError):
        return None
    is_comparable = isinstance(field.field_type, PrimitiveType) and not isinstance(value, (AboveMax, BelowMin))
    return _ColumnBound(field, limit.operator, value.value) if is_comparable else None
