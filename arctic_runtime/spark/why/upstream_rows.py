"""Reads upstreams for a trail: their rows at both ends of a window, and their change rows of given keys in between.

The change rows of a few keys, and these rows as of any version, are read by Arrow and without Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from arctic_runtime.catalog.change_rows.log_search import LogSearch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.provenance.source_rows import Unit
from arctic_runtime.model.columns import (
    ACTION,
    BEFORE,
    CHANGE_COLUMNS,
    SEQUENCE,
    TIMESTAMP,
    strip_change_columns,
)
from arctic_runtime.model.row_trail import CommittedRun, RowChange, Transaction, Values
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.window_rows import has_before_images
from arctic_runtime.spark.refresh.images import read_rows_at
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    combine_all,
    combine_any,
    conform_frame,
    read_appended_rows,
    read_until,
    to_column,
    type_of,
)
from arctic_runtime.spark.why.engine import FoundRows, ReadableSource
from arctic_runtime.thresholds import Thresholds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row


Wanted = Mapping[str, tuple[Any, ...]]
"""The values that rows may have, by the name of a column; None stands for null."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class ChangeRow:
    """A change row of a table as it is stored, with the sequence number of its commit."""

    key: Key
    sequence: int
    change: RowChange


@dataclass(frozen=True)
class TraceableTable:
    """A table whose rows and change rows a trail reads."""

    spark: SparkSession
    state: SourceState
    reader: CatalogReader

    @property
    def thresholds(self) -> Thresholds:
        return self.reader.thresholds

    @cached_property
    def history(self) -> RowHistoryReader | None:
        """Reads rows and change rows without Spark; None if only Spark can read them."""
        return RowHistoryReader.open_history(self.reader, self.state)

    @cached_property
    def commits(self) -> dict[int, Commit]:
        """Commits that have not expired, by their sequence numbers."""
        return {commit.version.sequence: commit for commit in self.state.commits}

    def find_unreadable(self, window: Window) -> str:
        """Returns why the rows at the ends of a window, or the changes between, can't be read; empty if they can."""
        state = self.state
        if window.end.table != state.version.table or (window.start and window.start.table != window.end.table):
            return f"{state.name} was dropped and created again since"
        versions = [version for version in (window.start, window.end) if version is not None]
        if state.kind != "changes":
            gone = [version.snapshot for version in versions if version.snapshot not in state.snapshots]
            return f"{state.name} no longer keeps version {gone[0]}" if gone else ""
        if not state.can_read_all_after(window.start):
            return f"{state.name} no longer keeps its change rows of that time"
        is_whole = not state.is_compacted
        gone = [v.snapshot for v in versions if state.find_base_before(v) is None and not is_whole]
        return f"{state.name} no longer keeps its rows as of version {gone[0]}" if gone else ""

    def open_rows(self, window: Window) -> ReadableSource:
        """Opens the rows at both ends of a window; without a start, there were none before."""
        new, find = partial(self._read_rows_at, window.end), partial(self._find_rows, window.start, window.end)
        if window.start is None:
            return ReadableSource(self.state.key, None, new, find)
        return ReadableSource(
            self.state.key, new if window.is_empty else partial(self._read_rows_at, window.start), new, find
        )

    def _find_rows(self, start: Version | None, end: Version, wanted: Wanted) -> FoundRows | None:
        """Finds the rows that have wanted values at both ends of a window; None if only Spark can read them."""
        if self.state.kind != "changes" or self.history is None or not self.history.has_rows:
            return None
        history = self._find_history(wanted)
        if history is None:
            return None
        return FoundRows(history.list_rows_at(start) if start else [], history.list_rows_at(end), history.schema)

    def _read_rows_at(self, version: Version) -> DataFrame:
        rows = read_rows_at(self.spark, self.state, version, self.thresholds.pruning)
        return conform_frame(rows, strip_change_columns(self.state.columns))

    def open_current_rows(self) -> ReadableSource:
        """Opens the newest rows, as if they had been the same before."""
        at = self.state.version
        new = partial(self._read_rows_at, at)
        return ReadableSource(self.state.key, new, new, partial(self._find_rows, at, at))

    def open_events(self, window: Window) -> ReadableSource:
        """Opens the change rows, or the appended rows, of a window as events; nothing was there before.

        The key of an event is that of its row and the sequence number of its commit, or in a table that is no arctic
        model, all of its values and that number.
        """
        names = tuple(column.name for column in self.state.columns)
        key = self.state.key if self.state.kind == "changes" and self.state.key is not None else names
        read, find = partial(self._read_events, window), partial(self._find_events, window)
        return ReadableSource((*key, *self._list_lineage()), None, read, find)

    def _find_events(self, window: Window, wanted: Wanted) -> FoundRows | None:
        """Finds the rows of a window that have wanted values; None if only Spark can read them."""
        if not self._list_lineage() or (history := self._find_history(wanted)) is None:
            return None
        rows = [row for row in history.list_changes_in(window) if history.has_wanted(row)]
        return FoundRows([], rows, history.schema)

    def _read_events(self, window: Window) -> DataFrame:
        rows = self._read_log(window)
        return rows.select("*", *[F.col(name).alias(name) for name in self._list_lineage()])

    def _list_lineage(self) -> tuple[str, ...]:
        """Lists the column with the number of a row's commit; none if the table has no row lineage."""
        return (COMMIT_ORDER,) if self.state.format_version >= 3 else ()

    def _read_log(self, window: Window) -> DataFrame:
        if window.start is None:
            return read_until(self.spark, self.state, window.end)
        return read_appended_rows(self.spark, self.state, window)

    def read_changes(self, window: Window, keys: Sequence[Key]) -> list[ChangeRow]:
        """Reads the change rows of `keys` in a window, oldest first."""
        if not keys:
            return []
        if (history := self._find_history(_list_values(self.state.key or (), keys))) is not None:
            known = {repr(tuple(key)) for key in keys}
            changes = self._build_change_rows(history.list_changes_in(window))
            return [row for row in changes if repr(row.key) in known][: self.thresholds.why.rows]
        rows = (
            self._read_log(window)
            .where(_match_keys(self.state.key or (), keys))
            .select("*", F.col(COMMIT_ORDER).alias(COMMIT_ORDER))
        )
        collected = rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE)).limit(self.thresholds.why.rows).collect()
        return [self._build_change_row(row.asDict(recursive=True), rows.schema) for row in collected]

    def _build_change_rows(self, rows: Sequence[Row]) -> list[ChangeRow]:
        """Builds change rows of those of a history."""
        assert self.history is not None
        return [self._build_change_row(row.asDict(recursive=True), self.history.schema) for row in rows]

    def find_key_schema(self, key: Sequence[str]) -> StructType:
        """Returns the types of key columns in the table."""
        schema = self._read_log_columns().schema if self.history is None else self.history.schema
        spelled = {field.name.lower(): field for field in schema.fields}
        return StructType([spelled[part.lower()] for part in key])

    def _read_log_columns(self) -> DataFrame:
        return read_until(self.spark, self.state, self.state.version)

    def read_row_changes(self, texts: Sequence[str], names: Sequence[str]) -> list[ChangeRow]:
        """Reads all change rows of the row whose columns `names` have the values that `texts` are, oldest first.

        Raises ConfigError for a text that is no value of its column.
        """
        key = self._parse_key(texts, self.find_key_schema(names))
        if (history := self._find_history(_list_values(names, [key]))) is not None:
            return self._build_change_rows(history.changes)
        conditions = [to_column(name) == F.lit(value) for name, value in zip(names, key, strict=True)]
        rows = (
            self._read_log_columns().where(combine_all(conditions)).select("*", F.col(COMMIT_ORDER).alias(COMMIT_ORDER))
        )
        ordered = rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE)).collect()
        return [self._build_change_row(row.asDict(recursive=True), rows.schema) for row in ordered]

    def _parse_key(self, texts: Sequence[str], kinds: StructType) -> Key:
        """Reads texts as Spark does; raises ConfigError for one that is no value of its column."""
        values = [F.lit(text).try_cast(field.dataType) for text, field in zip(texts, kinds.fields, strict=True)]
        (key,) = self.spark.range(1).select(*values).collect() if values else ((),)
        for text, field, value in zip(texts, kinds.fields, key, strict=True):
            if value is None:
                raise ConfigError(
                    f"{text!r} is not a valid value of the key column `{field.name}`.",
                    expected=f"a value of type {field.dataType.simpleString()}",
                )
        return tuple(key)

    def _find_history(self, wanted: Wanted) -> RowHistory | None:
        """Finds the change rows, or appended rows, with wanted values; None if only Spark can read them."""
        if self.history is None or not self.history.can_find(wanted):
            return None
        return self.history.find_history(wanted)

    def _build_change_row(self, row: dict[str, Any], schema: StructType) -> ChangeRow:
        spelled = {name.lower(): name for name in row}
        key = [spelled[part.lower()] for part in self.state.key or ()]
        sequence = row[COMMIT_ORDER]
        own = {name: value for name, value in row.items() if name not in (*CHANGE_COLUMNS, COMMIT_ORDER)}
        action, before = row[ACTION], row.get(BEFORE)
        key_values = {name: row[name] for name in key}
        after = None if action == DELETE else own
        was = {name: key_values.get(name, (before or {}).get(name)) for name in own} if before is not None else None
        if before is None and action in ("update", DELETE) and len(own) == len(key):
            was = own
        times = frozenset(field.name for field in schema.fields if isinstance(field.dataType, TimestampType))
        change = RowChange(
            self.state.name,
            show_values(key_values, times),
            action,
            None if was is None else show_values(was, times),
            None if after is None else show_values(after, times),
            at=_format_time(row[TIMESTAMP]),
            run=self.find_run(sequence),
        )
        return ChangeRow(tuple(key_values.values()), sequence, change)

    def build_event(self, window: Window, key: Key) -> RowChange:
        """Describes an event of a landing table, given by its key as of `open_events`."""
        names = [column.name for column in self.state.columns]
        sequence = key[len(names)] if len(key) > len(names) else None
        run = self._find_only_run(window) if sequence is None else self.find_run(sequence)
        return self._build_outside_change(dict(zip(names, key, strict=False)), "event", run)

    def build_plain_change(self, window: Window, fields: Sequence[str], unit: Unit) -> RowChange:
        """Describes a changed row of a table that is no arctic model, by its columns `fields`, which a query reads."""
        action = "update" if unit.was_there and unit.is_there else "delete" if unit.was_there else "insert"
        values = dict(zip(fields, unit.key, strict=True))
        return self._build_outside_change(values, action, self._find_only_run(window))

    def _find_only_run(self, window: Window) -> CommittedRun | None:
        commits = self.state.list_commits_between(window)
        return self.find_run(commits[0].version.sequence) if len(commits) == 1 else None

    def _build_outside_change(self, values: Values, action: str, run: CommittedRun | None) -> RowChange:
        at = "" if run is None else _format_time(run.at)
        row = show_values(values, frozenset(part.name for part in self.state.columns if part.type == "timestamp"))
        before, after = (row, None) if action == "delete" else (None, row)
        transaction = Transaction(str(self.state.name), action, at=at)
        return RowChange(self.state.name, {}, action, before, after, at, run, transaction)

    def find_run(self, sequence: int) -> CommittedRun | None:
        commit = self.commits.get(sequence)
        if commit is None:
            return None
        run = RunSummary.decode(commit.summary)
        return CommittedRun(
            commit.version.snapshot,
            sequence,
            time_of(commit.at_ms),
            run.mode or "",
            run.reason or "",
            run.run or "",
        )


def _list_values(names: Sequence[str], keys: Sequence[Key]) -> Wanted:
    """Lists the values that keys have in each of their columns `names`."""
    return {name: tuple(dict.fromkeys(values)) for name, values in zip(names, zip(*keys, strict=True), strict=True)}


def show_values(values: Values, times: frozenset[str] = frozenset()) -> Values:
    """Converts the values of a row for a trail; the only place through which stored values get into one.

    `times` are the columns with points in time, which PySpark returns without a zone, in that of the machine.
    """
    return {
        name: value.astimezone(timezone.utc) if name in times and isinstance(value, datetime) else value
        for name, value in values.items()
    }


def _format_time(at: Any) -> str:
    if not isinstance(at, datetime):
        return "" if at is None else str(at)
    return at.astimezone(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _match_keys(key: Sequence[str], keys: Sequence[Key]) -> Any:
    if len(key) == 1:
        return to_column(key[0]).isin([value for (value,) in keys])
    return combine_any(
        [combine_all([to_column(part) == F.lit(value) for part, value in zip(key, one, strict=True)]) for one in keys]
    )


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
