"""The change rows of a few rows of a table, and these rows as of any version, read by Arrow and without Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from arctic_runtime.catalog.change_rows.log_search import LogSearch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import ACTION
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.window_rows import has_before_images
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, type_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row

Wanted = Mapping[str, tuple[Any, ...]]
"""The values that rows may have, by the name of a column; None stands for null."""


@dataclass(frozen=True)
class RowHistory:
    """The change rows that have wanted values, in the order of their commits, with the numbers of these.

    They include each change by which a row got the values or lost them.
    """

    key: tuple[str, ...]
    wanted: Wanted
    schema: StructType
    changes: Sequence[Row]

    def list_changes_in(self, window: Window) -> list[Row]:
        """Lists the change rows of a window of versions, oldest first."""
        start = window.start.sequence if window.start else -1
        return [row for row in self.changes if start < row[COMMIT_ORDER] <= window.end.sequence]

    def list_rows_at(self, version: Version) -> list[Row]:
        """Lists the rows with wanted values as of a version, as the change rows that made them."""
        newest = {
            repr([row[part] for part in self._key_names]): row
            for row in self.changes
            if row[COMMIT_ORDER] <= version.sequence
        }
        return [row for row in newest.values() if row[ACTION] != DELETE and self.has_wanted(row)]

    @cached_property
    def _key_names(self) -> list[str]:
        spelled = self.spelled
        return [spelled[part.lower()] for part in self.key]

    @cached_property
    def spelled(self) -> Mapping[str, str]:
        """Names of the columns as change rows have them, by their names in lower case."""
        return {name.lower(): name for row in self.changes[:1] for name in row.__fields__}

    def has_wanted(self, row: Row) -> bool:
        """Whether a change row has the wanted values itself, not only in the row before."""
        return all(row[self.spelled[name.lower()]] in values for name, values in self.wanted.items())


class RowHistoryReader:
    """Reads histories of the rows of an arctic model, at most `most` change rows each, and keeps them."""

    def __init__(self, reader: CatalogReader, state: SourceState) -> None:
        limits = reader.thresholds.why
        self._state = state
        self._most = limits.kept_changes
        self._search = LogSearch(reader, state.log, state.version, state.key or (), limits.kept_changes)
        self.schema = from_arrow_schema(_rename_sequence(self._search.schema.empty_table()).schema)
        self._known: dict[str, RowHistory | None] = {}

    @classmethod
    def open_history(cls, reader: CatalogReader, state: SourceState) -> RowHistoryReader | None:
        """Opens the history of a table; None if only Spark can read it, or not all of it is in the change table."""
        is_whole = not state.is_compacted and not state.may_have_deleted_rows and state.baseline is None
        is_plain = (
            not state.reassigned_columns and not state.missing_defaults and not any(state.old_column_names.values())
        )
        if not is_whole or not is_plain:
            return None
        try:
            history = cls(reader, state)
        except (ConfigError, TypeError):
            return None
        kinds = {field.name.lower(): type_of(field.dataType) for field in history.schema.fields}
        return history if all(kinds.get(part.name.lower()) == part.type for part in state.columns) else None

    @cached_property
    def has_rows(self) -> bool:
        """Whether change rows have the rows before, so that they tell which rows had other values at a time."""
        return has_before_images(self._state, Window(str(self._state.name), None, self._state.version))

    def can_find(self, columns: Collection[str]) -> bool:
        """Whether rows can be found by the values of these columns."""
        return bool(columns) and self._search.can_compare(columns)

    def find_history(self, wanted: Wanted) -> RowHistory | None:
        """Finds the changes of the rows that ever had one of the wanted values in each column; None if too many."""
        name = repr(sorted(wanted.items()))
        if name not in self._known:
            self._known[name] = self._read_history(wanted)
        return self._known[name]

    def _read_history(self, wanted: Wanted) -> RowHistory | None:
        table = self._search.find_rows(wanted, self._most)
        if table is None:
            return None
        rows = ArrowTableToRowsConversion.convert(_rename_sequence(table), self.schema)
        return RowHistory(self._state.key or (), wanted, self.schema, rows)


def _rename_sequence(rows: pa.Table) -> pa.Table:
    """Gives the last column, a commit's sequence number, the name that it has in frames of Spark."""
    return rows.rename_columns([*rows.column_names[:-1], COMMIT_ORDER])
