"""Finds change rows, or appended rows, whose columns have given values, by the bounds of files and without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.change_rows.log_files import LogFile, LogReader, list_live_files
from arctic_runtime.catalog.change_rows.projection import build_arrow_fields
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.columns import BEFORE, COMMIT_VERSION, SEQUENCE
from arctic_runtime.model.names import TableName
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile

Wanted = Mapping[str, Collection[Any]]
"""The values that rows may have, by the name of a column; None stands for null."""

_EPOCH = date(1970, 1, 1)


class LogSearch:
    """Finds rows of `log`, a change table or one to which rows are appended, up to a version.

    `key` are the key columns of a change table, whose values a change row has only once.

    A log with at most `kept_rows` rows is read once and kept in memory. In a larger one, each search reads the files
    that may have the values. Raises ConfigError if a column has a type that only Spark can read.
    """

    def __init__(
        self, reader: CatalogReader, log: TableName, until: Version, key: Collection[str], kept_rows: int
    ) -> None:
        table = reader.load_table(log.schema, log.name)
        self._table = table
        self._until = until
        self._keys = {part.lower() for part in key}
        self._fields = build_arrow_fields(table.schema().as_struct())
        self._rows = LogReader(table, table.schema().as_struct(), self._fields, reader.thresholds.exports.batch_rows)
        self._kept_rows = kept_rows

    @property
    def schema(self) -> pa.Schema:
        """Columns of the change rows that a search returns."""
        import pyarrow as pa

        return pa.schema([*self._fields, pa.field(COMMIT_VERSION, pa.int64())])

    def can_compare(self, columns: Iterable[str]) -> bool:
        """Whether Arrow compares the values of these columns as Spark does."""
        from pyiceberg.types import BooleanType, DateType, DecimalType, IntegerType, LongType, StringType

        exact = (BooleanType, DateType, DecimalType, IntegerType, LongType, StringType)
        kinds = {field.name.lower(): field.field_type for field in self._table.schema().fields}
        return all(isinstance(kinds.get(name.lower()), exact) for name in columns)

    def find_rows(self, wanted: Wanted, max_rows: int) -> pa.Table | None:
        """Finds the change rows that have a wanted value in each column, in their row or in the row before.

        Rows are in the order of their commits, whose sequence numbers are in the column COMMIT_VERSION. Returns None if
        there are more than `max_rows`. The columns must be such that `can_compare`.
        """
        import pyarrow as pa

        batches: list[pa.RecordBatch] = []
        count = 0
        for batch in self._iterate_batches(wanted):
            matching = batch.filter(self._select_matching(batch, wanted))
            count += len(matching)
            if count > max_rows:
                return None
            batches.append(matching)
        rows = pa.Table.from_batches(batches, self.schema)
        order = [name for name in (COMMIT_VERSION, SEQUENCE) if name in rows.column_names]
        return rows.sort_by([(name, "ascending") for name in order])

    def _iterate_batches(self, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        if self._cached_batches is not None:
            yield from self._cached_batches
            return
        for file, entry in self._live_files:
            if self._has_possible_match(entry, wanted):
                yield from self._rows.read_rows(file, 0, self._until.sequence)

    @cached_property
    def _cached_batches(self) -> list[pa.RecordBatch] | None:
        """All change rows; None if they are too many to be kept."""
        if sum(entry.record_count for _, entry in self._live_files) > self._kept_rows:
            return None
        return [batch for file, _ in self._live_files for batch in self._rows.read_rows(file, 0, self._until.sequence)]

    @cached_property
    def _live_files(self) -> list[tuple[LogFile, DataFile]]:
        return list_live_files(self._table, self._until.snapshot)

    def _has_possible_match(self, file: DataFile, wanted: Wanted) -> bool:
        """Whether a file may have rows, or rows before a change, with wanted values, by the bounds of its columns."""
        if all(self._has_possible_value(file, name, values) for name, values in wanted.items()):
            return True
        if BEFORE not in self._table.schema().column_names:
            return False
        before = {name if self._is_key(name) else f"{BEFORE}.{name}": values for name, values in wanted.items()}
        return all(self._has_possible_value(file, path, values) for path, values in before.items())

    def _has_possible_value(self, file: DataFile, path: str, values: Collection[Any]) -> bool:
        from pyiceberg.conversions import from_bytes

        field = self._table.schema().find_field(path, case_sensitive=False)
        count, nulls = ((counts or {}).get(field.field_id) for counts in (file.value_counts, file.null_value_counts))
        if count is not None and count == nulls:
            return None in values
        lower, upper = ((bounds or {}).get(field.field_id) for bounds in (file.lower_bounds, file.upper_bounds))
        if lower is None or upper is None or None in values:
            return True
        first, last = (from_bytes(field.field_type, bound) for bound in (lower, upper))  # type: ignore[arg-type]
        return any(first <= _to_bound(value) <= last for value in values)

    def _is_key(self, name: str) -> bool:
        return name.lower() in self._keys

    def _select_matching(self, batch: pa.RecordBatch, wanted: Wanted) -> pa.Array:
        import pyarrow.compute as pc

        places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
        now = {name: batch.column(places[name.lower()]) for name in wanted}
        matches = _match_values(now, wanted)
        if BEFORE not in batch.schema.names:
            return matches
        was = batch.column(BEFORE)
        inside = {field.name.lower(): place for place, field in enumerate(was.type)}
        before = {
            name: column if self._is_key(name) else pc.struct_field(was, inside[name.lower()])
            for name, column in now.items()
        }
        return pc.or_(matches, pc.and_(pc.is_valid(was), _match_values(before, wanted)))


def _to_bound(value: Any) -> Any:
    """Converts a value to the form that pyiceberg gives a bound in; a date is a number of days."""
    return (value - _EPOCH).days if isinstance(value, date) else value


def _match_values(columns: Mapping[str, pa.Array], wanted: Wanted) -> pa.Array:
    """Tells for each row whether each of `columns` has one of its wanted values; nulls equal each other."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [pc.is_in(column, value_set=pa.array(list(wanted[name]), column.type)) for name, column in columns.items()]
    return reduce(pc.and_, parts)
