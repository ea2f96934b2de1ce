"""Reads upstreams for a trail: their rows at both ends of a window, and their change rows of given keys in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from arctic_runtime.model.columns import ACTION, BEFORE, CHANGE_COLUMNS, SEQUENCE, TIMESTAMP, strip_change_columns
from arctic_runtime.model.row_trail import CommittedRun, RowChange, Values
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import DELETE
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.spark.refresh.from_query.images import read_rows_at
from arctic_runtime.spark.tables.rows.frames import (
    COMMIT_ORDER,
    combine_all,
    combine_any,
    conform_frame,
    read_appended_rows,
    read_until,
    to_column,
)
from arctic_runtime.spark.why.engine import ReadableSource
from arctic_runtime.thresholds import Thresholds

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
    thresholds: Thresholds

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
        new = partial(self._read_rows_at, window.end)
        if window.start is None:
            return ReadableSource(self.state.key, None, new)
        return ReadableSource(
            self.state.key, new if window.is_empty else partial(self._read_rows_at, window.start), new
        )

    def _read_rows_at(self, version: Version) -> DataFrame:
        rows = read_rows_at(self.spark, self.state, version, self.thresholds.pruning)
        return conform_frame(rows, strip_change_columns(self.state.columns))

    def read_changes(self, window: Window, keys: Sequence[Key]) -> list[ChangeRow]:
        """Reads the change rows of `keys` in a window, oldest first."""
        rows = (
            read_until(self.spark, self.state, window.end)
            if window.start is None
            else read_appended_rows(self.spark, self.state, window)
        )
        rows = rows.where(_match_keys(self.state.key or (), keys)).select("*", F.col(COMMIT_ORDER).alias(COMMIT_ORDER))
        collected = rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE)).limit(self.thresholds.why.rows).collect()
        return [self._build_change_row(row.asDict(recursive=True), rows.schema) for row in collected]

    def find_key_schema(self, key: Sequence[str]) -> StructType:
        """Returns the types of key columns in the table."""
        frame = self._read_log_columns()
        spelled = {field.name.lower(): field for field in frame.schema.fields}
        return StructType([spelled[part.lower()] for part in key])

    def _read_log_columns(self) -> DataFrame:
        return read_until(self.spark, self.state, self.state.version)

    def read_row_changes(self, texts: Sequence[str], names: Sequence[str]) -> list[ChangeRow]:
        """Reads all change rows of the row whose columns `names` have the values that `texts` are, oldest first."""
        rows = self._read_log_columns()
        kinds = self.find_key_schema(names)
        conditions = [
            to_column(name) == F.lit(text).cast(field.dataType)
            for name, text, field in zip(names, texts, kinds.fields, strict=True)
        ]
        rows = rows.where(combine_all(conditions)).select("*", F.col(COMMIT_ORDER).alias(COMMIT_ORDER))
        ordered = rows.orderBy(F.col(COMMIT_ORDER), F.col(SEQUENCE)).collect()
        return [self._build_change_row(row.asDict(recursive=True), rows.schema) for row in ordered]

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
        times = _list_times(schema)
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


def show_values(values: Values, times: frozenset[str] = frozenset()) -> Values:
    """Converts the values of a row for a trail; the only place through which stored values get into one.

    `times` are the columns with points in time, which PySpark returns without a zone, in that of the machine.
    """
    return {
        name: value.astimezone(timezone.utc) if name in times and isinstance(value, datetime) else value
        for name, value in values.items()
    }


def _list_times(schema: StructType) -> frozenset[str]:
    return frozenset(field.name for field in schema.fields if isinstance(field.dataType, TimestampType))


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
