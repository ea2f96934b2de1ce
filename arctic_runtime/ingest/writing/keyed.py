"""Tables with a primary key: events are folded to change rows, and each commit stores the table's source position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame

from arctic_runtime.catalog.observation.tables import observe_key
from arctic_runtime.errors import CommitConflict
from arctic_runtime.ingest.formats.event_format import EventFormat, SourceSchema
from arctic_runtime.ingest.writing.fold import change_rows
from arctic_runtime.ingest.writing.keyless import build_unfollowed_key_error, replace_values
from arctic_runtime.ingest.writing.records import CommitNote, DecodedBatch, SourcePosition, read_position
from arctic_runtime.ingest.writing.source_columns import (
    UnfollowedKey,
    clear_columns,
    save_columns,
    to_stored_columns,
)
from arctic_runtime.model.columns import Column, format_key, strip_change_columns
from arctic_runtime.model.properties import PRIMARY_KEY
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.shape import ChangeSet, Shape, build_shape
from arctic_runtime.model.sources.ingestion import advise_reset
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.existing_tables import check_table
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.plan.refresh.schema import check_query
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.refresh.prepare import prepare_tables
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.frames import conform_frame, list_frame_columns, read_current_rows
from arctic_runtime.spark.tables.table_session import TableSession


@dataclass(frozen=True)
class KeyedChanges:
    """Change rows of a table, with the table's columns and primary key (`shape`).

    `is_gathered` is whether the rows are already partitioned as `ChangeSet` requires.
    """

    rows: DataFrame
    shape: Shape
    is_gathered: bool = False


@dataclass(frozen=True)
class KeyedTable:
    """An ingested table with a primary key, to which events are applied as inserts, updates and deletes."""

    session: TableSession

    def prepare_to_publish(self) -> TableState:
        """Finishes the merges and view changes that earlier commits left to do; returns the table's state after them.

        Raises ConfigError if the table has another primary key than the model.
        """
        session = self.session
        state = session.reconcile_until_done(session.observe_state(), defer=True)
        if state.conflicting is not None and observe_key(session.reader, session.model.table) == ():
            raise build_unfollowed_key_error(session.model)
        _check_key(session.model, state)
        check_table(session.model, state, Request())
        return state

    def reject_events(self, decoded: DataFrame, _: EventFormat) -> DataFrame:
        """Returns `decoded` unchanged, since a table with a primary key can apply events of all kinds."""
        return decoded

    def publish_events(self, batch: DecodedBatch) -> dict[str, int]:
        """Publishes the events of a batch, without its dead letters, in one commit.

        Returns the number of change rows by action. Raises CommitConflict if another writer has committed since
        `batch.state` was observed.
        """
        self._check_position(batch.state, batch.start)
        context, shape = self.prepare_commit(batch.state, to_stored_columns(batch.schema))
        save_columns(self.session, context.state, batch.schema)
        rows = change_rows(context, batch.events, batch.counts, shape, batch.kept)
        # Events were just partitioned by key, into as many partitions as their size needs.
        changes = KeyedChanges(rows, shape, is_gathered=batch.counts.truncated_at is None)
        return self.publish_changes(context, changes, CommitNote(batch.end, times=batch.times))[0]

    def publish_snapshot(
        self, state: TableState, rows: DataFrame | None, schema: SourceSchema | None, position: SourcePosition
    ) -> dict[str, int]:
        """Publishes the differences between the table and the rows of a snapshot of the source.

        Returns the number of change rows by action. `rows` is None for a snapshot without rows, which empties the
        table. `schema` is that of the snapshot's newest events, None if there were none. `position` is the snapshot's
        position in the source.
        """
        note = CommitNote(position, "RESYNCED")
        if rows is None:
            clear_columns(self.session, state)
            return self._delete_rows(state, note)
        context, shape = prepare_tables(
            self.session, self.session.build_context(state), list_frame_columns(rows), "bigint"
        )
        if schema is not None:
            save_columns(self.session, context.state, schema)
        old = read_current_rows(context.spark, self.session.model, context.state, context.thresholds.pruning)
        changes = KeyedChanges(diff_states(rows, old, shape, keyed=True), shape)
        return self.publish_changes(context, changes, note)[0]

    def fill_columns(
        self, state: TableState, stored: tuple[Column, ...], values: Mapping[str, Expression]
    ) -> TableState:
        """Changes the table's columns to `stored`, and sets `values` (by column) in all of its rows, in one commit.

        Returns the table's state after the commit.
        """
        context, _ = self.prepare_commit(state, stored)
        changes, pruning = context.state.changes, context.thresholds.pruning
        rows = read_current_rows(context.spark, self.session.model, context.state, pruning) if values else None
        if rows is None or changes is None:
            return context.state
        shape = build_shape(self.session.model, context.state, strip_change_columns(changes.columns))
        old = conform_frame(rows, shape.columns)  # The stored rows may lack added columns.
        new = replace_values(old, values)
        note = CommitNote(read_position(state), "SCHEMA_ONLY")
        return self.publish_changes(context, KeyedChanges(diff_states(new, old, shape, keyed=True), shape), note)[1]

    def prepare_commit(self, state: TableState, stored: tuple[Column, ...]) -> tuple[Context, Shape]:
        """Prepares the table for a commit of rows with the columns `stored`; returns the commit's context and shape."""
        check_query(self.session.model, stored, stored)
        return prepare_tables(self.session, self.session.build_context(state), stored, "bigint")

    def publish_changes(
        self, context: Context, changes: KeyedChanges, note: CommitNote
    ) -> tuple[dict[str, int], TableState]:
        """Publishes change rows as the table's next commit.

        Returns the number of change rows by action, and the table's state after the commit.
        """
        table = context.state.changes
        assert table is not None
        assert table.head is not None
        note = note.mark_first_run(is_first=find_last_run(table) is None)
        step = AppendChanges(self.session.model.table.changes, table.head.snapshot, note.mode, note.reason)
        summary = note.to_run_summary(context.token)
        appended = publish_changes(ChangeSet(step, changes.rows, changes.shape, summary, changes.is_gathered), context)
        return appended.rows, self.session.reconcile_until_done(
            self.session.observe_state(), appended=appended, defer=True
        )

    def _delete_rows(self, state: TableState, note: CommitNote) -> dict[str, int]:
        """Publishes deletes of all rows of the table, if it has any; returns the number of deletes by action."""
        context, changes = self.session.build_context(state), state.changes
        old = (
            read_current_rows(context.spark, self.session.model, state, context.thresholds.pruning) if changes else None
        )
        if changes is None or old is None:
            return {}
        shape = build_shape(self.session.model, state, strip_change_columns(changes.columns))
        rows = diff_states(old.limit(0), old, shape, keyed=True)
        return self.publish_changes(context, KeyedChanges(rows, shape), note)[0]

    def _check_position(self, state: TableState, expected: SourcePosition) -> None:
        """Raises CommitConflict if another writer committed, so that the table's source position is not `expected`."""
        position = read_position(state)
        if position != expected:
            raise CommitConflict(
                f"Another writer committed first.\n  while: publish events to {self.session.model.table}",
                expected=str(expected),
                actual=str(position),
            )


def _check_key(model: Model, state: TableState) -> None:
    """Raises UnfollowedKey if the stored table has another primary key than the model."""
    key = format_key(model.config.primary_key)
    stored_key = key if state.changes is None else state.changes.properties.get(PRIMARY_KEY)
    if stored_key != key:
        raise UnfollowedKey(
            f"{model.table}: its primary key is another one now, and can't be changed in place.\n"
            f"  in the table: {stored_key}\n"
            f"  in {model.ingested_from}: {key}",
            fix=advise_reset(model.table),
        )
