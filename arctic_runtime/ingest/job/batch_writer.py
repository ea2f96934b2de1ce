"""Writes a batch of change events to its tables in parallel, by the state of its source, and merges their bases."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

from arctic_runtime.errors import ArcticError, SourceError
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable
from arctic_runtime.ingest.transports.transport import Batch, TableEvents
from arctic_runtime.ingest.writing.records import DeadLetters, EventPart, TableResult, WriteMode
from arctic_runtime.ingest.writing.source_columns import RecreatedTable, UnfollowedColumns, UnfollowedKey
from arctic_runtime.ingest.writing.table_schemas import UnstorableColumns
from arctic_runtime.ingest.writing.table_writer import TableWriter
from arctic_runtime.plan.refresh.schema import TypeConflict

UNFOLLOWED = (UnfollowedColumns, UnfollowedKey, UnstorableColumns, TypeConflict)
"""Errors for definitions of a table at the source that can't be applied to the arctic table."""

Tasks = Iterable[Callable[[], list[TableResult]]]


@dataclass(frozen=True)
class BatchWriter:
    """Writes the batches of one source to its tables; `tables` maps a table's name in the source to its writer.

    The tables are written in the threads of `pool`. Events of `ignored` tables are left out. With `can_wait`, a table
    whose columns can't be applied causes no error: its TableResult has the reason as `wait`.
    """

    name: str
    tables: Mapping[str, TableWriter]
    dead_letters: DeadLetterTable
    pool: Executor
    ignored: frozenset[str] = frozenset()
    can_wait: bool = False

    def leave_out(self, results: Iterable[TableResult]) -> BatchWriter:
        """Returns a writer without the tables whose results have a `wait`; it ignores their events."""
        waiting = {result.table for result in results if result.wait}
        left = {name: writer for name, writer in self.tables.items() if writer.table.name not in waiting}
        return replace(self, tables=left, ignored=self.ignored | {*self.tables} - {*left}) if waiting else self

    def write_batch(self, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Publishes the events of a batch, in one commit for each table and schema.

        Returns the results of the commits.
        """
        mode = replace(mode, has_dead_letters=self.dead_letters.count_dead_letters() > 0)
        parts = self._group_by_table(batch)
        return self._run_all(partial(self._write_table, name, events, batch, mode) for name, events in parts.items())

    def collect_batch(self, batch: Batch) -> tuple[TableResult, ...]:
        """Stores the snapshot rows of a batch, to be published later by `end_snapshot`."""
        parts = self._group_by_table(batch)
        return self._run_all(partial(self._collect_table, name, events, batch) for name, events in parts.items())

    def begin_snapshot(self) -> None:
        """Prepares all tables for a new snapshot: drops the rows that `collect_batch` stored for an earlier one."""
        for writer in self.tables.values():
            writer.snapshot.begin_snapshot()

    def end_snapshot(self, position: str) -> tuple[TableResult, ...]:
        """Publishes the rows that `collect_batch` stored, and saves `position` as the source position of the tables."""
        return self._run_all(partial(self._end_snapshot, writer, position) for writer in self.tables.values())

    def invalidate_positions(self) -> None:
        """Drops the cached positions of all tables, since events will be read again."""
        for writer in self.tables.values():
            writer.invalidate_position()

    def _run_all(self, tasks: Tasks) -> tuple[TableResult, ...]:
        """Runs tasks in parallel and waits for all; returns their results, or raises the first task's error."""
        futures = [self.pool.submit(task) for task in tasks]
        wait(futures)
        return tuple(result for future in futures for result in future.result())

    def _group_by_table(self, batch: Batch) -> dict[str, list[TableEvents]]:
        groups: dict[str, list[TableEvents]] = {}
        for events in batch.tables:
            if events.table in self.ignored:
                continue
            if events.table not in self.tables:
                raise SourceError(
                    f"source {self.name}: events of {events.table} came, which is none of its tables.",
                    expected=", ".join(sorted(self.tables)),
                    fix="declare the table in the source's YAML, or narrow what the connector sends",
                )
            groups.setdefault(events.table, []).append(events)
        return groups

    def _write_table(self, name: str, events: list[TableEvents], batch: Batch, mode: WriteMode) -> list[TableResult]:
        """Publishes the events of a batch for the source's table `name`, in one commit for each schema of the events.

        Only the last commit stores the batch's position, since the table has all events up to that position only then.
        """
        writer, keep = self.tables[name], partial(self._keep_dead_letters, name, batch.position)
        results: list[TableResult] = []
        if (unreadable := _find_unreadable(events)) is not None:
            return [self._wait_or_raise(writer, unreadable)]
        parts = [part for own in events for part in writer.schemas.split_by_schema(own)]
        for index, part in enumerate(parts):
            position = batch.position if index == len(parts) - 1 else None
            try:
                results.append(writer.write_events(EventPart(part, position, tuple(parts[:index])), mode, keep))
            except UNFOLLOWED as error:
                return [*results, self._wait_or_raise(writer, error)]
        return results

    def _collect_table(self, name: str, events: list[TableEvents], batch: Batch) -> list[TableResult]:
        writer, keep = self.tables[name], partial(self._keep_dead_letters, name, batch.position)
        if (unreadable := _find_unreadable(events)) is not None:
            return [self._wait_or_raise(writer, unreadable)]
        parts = [part for own in events for part in writer.schemas.split_by_schema(own)]
        try:
            return [writer.snapshot.collect_rows(part, keep) for part in parts]
        except UNFOLLOWED as error:
            return [self._wait_or_raise(writer, error)]

    def _wait_or_raise(self, writer: TableWriter, error: ArcticError) -> TableResult:
        """Returns the result of a table that has to wait because of `error`; raises the error without `can_wait`."""
        if not self.can_wait:
            raise error
        return TableResult(writer.table.name, {}, 0, 0, 0, 0, None, str(error), isinstance(error, RecreatedTable))

    def _keep_dead_letters(self, name: str, position: str, letters: DeadLetters) -> None:
        self.dead_letters.add_dead_letters(letters, name, position, datetime.now(timezone.utc))

    def _end_snapshot(self, writer: TableWriter, position: str) -> list[TableResult]:
        try:
            return [writer.snapshot.end_snapshot(position)]
        except UNFOLLOWED as error:
            return [self._wait_or_raise(writer, error)]


def _find_unreadable(events: Iterable[TableEvents]) -> ArcticError | None:
    """Returns the first error of a table whose columns can't be read exactly; None if all can."""
    return next((part.unreadable for part in events if part.unreadable is not None), None)


@dataclass(frozen=True)
class Snapshot:
    """State while a snapshot of tables that already have rows is read: its rows are stored apart until it is complete.

    The rows are then published with the position `initial`, which precedes all events, so that all later events are
    applied.
    """

    initial: str

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Stores the snapshot's rows of a batch.

        With the batch that ends the snapshot, publishes all stored rows, and then the batch's other events.
        """
        results = writer.collect_batch(batch)
        if batch.is_snapshot:
            return results
        results += writer.leave_out(results).end_snapshot(self.initial)
        return results + writer.leave_out(results).write_batch(batch, replace(mode, includes_snapshot_rows=False))


@dataclass(frozen=True)
class Load:
    """State while a snapshot of tables that do not exist yet is read: its rows are inserted as they arrive."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Inserts the rows of a batch into new tables, which had no data of the source before."""
        return writer.write_batch(batch, replace(mode, is_load=True, is_partial=batch.is_snapshot, shown=None))


@dataclass(frozen=True)
class Stream:
    """State while the events after a snapshot, or after the saved position, are read."""

    def write_batch(self, writer: BatchWriter, batch: Batch, mode: WriteMode) -> tuple[TableResult, ...]:
        """Publishes the events of a batch."""
        return writer.write_batch(batch, mode)


StreamState = Snapshot | Load | Stream


def find_next_state(state: StreamState, batch: Batch) -> StreamState:
    """Returns the state after `batch`: a snapshot or load ends with the first batch that is not part of a snapshot."""
    return state if batch.is_snapshot else Stream()


class BaseMerges:
    """Merges unmerged changes into the bases of tables with `merge: on_read`, in one thread, one table at a time."""

    def __init__(self, look_seconds: float) -> None:
        self.pool = ThreadPoolExecutor(1, "merge")
        self._look_seconds = look_seconds
        self._look_at = 0.0
        self._unmerged: set[str] = set()
        self._merging: Future[None] | None = None

    def add_tables(self, names: Iterable[str]) -> None:
        """Adds the names of tables that were just written; the next merge checks whether they need merging."""
        self._unmerged |= {*names}

    def start_merge(self, writers: Collection[TableWriter]) -> None:
        """Starts to merge the tables added since the last merge, unless a merge is running.

        Raises the error of the last merge if that failed. Every `look_seconds` it checks all tables of `writers`, since
        changes by other processes may make a merge due too.
        """
        if self._merging is not None and self._merging.done():
            self.wait_for_merge()
        if self._merging is not None:
            return
        if time.monotonic() > self._look_at:
            self._look_at = time.monotonic() + self._look_seconds
            self.add_tables(writer.table.name for writer in writers)
        if self._unmerged:
            due, self._unmerged = self._unmerged, set()
            self._merging = self.pool.submit(_merge_all, [writer for writer in writers if writer.table.name in due])

    def wait_for_merge(self) -> None:
        """Waits for the running merge, if any; raises its error if it failed."""
        merging, self._merging = self._merging, None
        if merging is not None:
            merging.result()


def _merge_all(writers: Iterable[TableWriter]) -> None:
    for writer in writers:
        writer.merge_base()
