"""Ingested tables without a primary key: each applicable event appends one row, which no later event can change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.ingest.formats.event_format import Change, EventFormat, SourceSchema
from arctic_runtime.ingest.writing.decode_events import ABSENT, CHANGE, REASON
from arctic_runtime.ingest.writing.fold import select_row_events
from arctic_runtime.ingest.writing.records import CommitNote, DecodedBatch, SourcePosition, read_position
from arctic_runtime.ingest.writing.source_columns import (
    UnfollowedKey,
    clear_columns,
    save_columns,
    to_stored_columns,
)
from arctic_runtime.model.columns import Column
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.shape import INSERT
from arctic_runtime.model.sources.ingestion import advise_reset, advise_resync
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.schema import check_query
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.refresh.prepare import prepare_to_append
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.keyless import append_rows, replace_rows
from arctic_runtime.spark.tables.rows.frames import list_frame_columns, to_column
from arctic_runtime.spark.tables.table_session import TableSession

_NO_KEY_TEXT = "and the table has no primary key that tells which rows: name one in `primary_key`"
_REASONS: Mapping[Change, str] = {
    "update": f"an update changes a row, {_NO_KEY_TEXT}",
    "delete": f"a delete takes a row away, {_NO_KEY_TEXT}",
    "truncate": "a truncate takes away rows that were appended before: `arctic ingest --resync` reads the table again",
}
"""Reasons why events of a kind can't be applied to a table without a primary key."""


def _check_keyless(model: Model, state: TableState) -> None:
    """Raises an error if rows can't be appended to the table.

    ConfigError: another relation has the table's name. CorruptState: the snapshots that stored the table's source
    position have expired.
    """
    relation, table = state.conflicting, state.appended
    if relation is not None and relation.name == model.table.changes:
        raise ConfigError(
            f"{model.table}: its rows are kept by a primary key, and {model.ingested_from} has none now.",
            fix=(
                "name columns that make a row unique in `primary_key` below `meta.arctic` of the table; or let its "
                f"rows be appended: {advise_reset(model.table)}"
            ),
        )
    if relation is not None:
        raise ConfigError(
            f"{model.table}: another relation has its name.",
            actual=f"the {relation.kind} {relation.name}, which ingestion did not create",
            fix="drop or rename it, or give the table of the source another `identifier`",
        )
    if table is not None and not table.begins and find_last_run(table) is None:
        raise CorruptState(
            f"{model.table}: it is not known which events the table has, since its snapshots with `arctic.position` "
            "have expired.",
            fix=advise_resync(model.table),
        )


def build_unfollowed_key_error(model: Model) -> UnfollowedKey:
    """Builds the error for a table whose source got a primary key after rows had been appended to the table."""
    key = ", ".join(model.config.primary_key)
    return UnfollowedKey(
        f"{model.table}: events are appended to it, since {model.ingested_from} had no primary key; now it has {key}.",
        fix=(
            f"`primary_key: null` below `meta.arctic` of the table goes on like that; to keep rows by {key}: "
            f"{advise_reset(model.table)}"
        ),
    )


@dataclass(frozen=True)
class KeylessTable:
    """An ingested table without a primary key, to which each applicable event appends a row."""

    session: TableSession

    def prepare_to_publish(self) -> TableState:
        """Checks that rows can be appended to the table, raises an error if not, and returns the table's state."""
        state = self.session.observe_state()
        _check_keyless(self.session.model, state)
        return state

    def reject_events(self, decoded: DataFrame, form: EventFormat) -> DataFrame:
        """Sets a REASON for all decoded events that do not insert a whole row, so that they become dead letters.

        If the format has no operations, every event counts as an insert.
        """
        absent = F.concat(F.lit("no value was sent of "), F.array_join(ABSENT, ", "))
        reason = F.when(F.col(ABSENT).isNotNull(), absent)
        for change, why in _REASONS.items() if form.operation is not None else ():
            reason = F.when(F.col(CHANGE) == change, F.lit(why)).otherwise(reason)
        return decoded.withColumn(REASON, F.coalesce(REASON, reason))

    def publish_events(self, batch: DecodedBatch) -> dict[str, int]:
        """Appends the rows of a batch's events, without its dead letters, in one commit.

        Returns the number of rows by action.
        """
        stored = to_stored_columns(batch.schema)
        rows = select_row_events(batch.events).select(*[to_column(own.name) for own in stored])
        context = self._prepare_commit(batch.state, stored)
        save_columns(self.session, context.state, batch.schema)
        self._append_rows(context, rows, CommitNote(batch.end, times=batch.times))
        return {INSERT: batch.counts.rows}

    def append_dead_letters(
        self, state: TableState, rows: DataFrame, stored: tuple[Column, ...], dead_letters: str
    ) -> TableState:
        """Appends the rows of dead letters in one commit; returns the table's state after the commit.

        `stored` are the columns that the table then has. `dead_letters` are the ids of the dead letters (`encode_ids`),
        which the commit stores in its summary.
        """
        context = self._prepare_commit(state, stored)
        note = CommitNote(read_position(state), "REPLAYED", dead_letters=dead_letters)
        self._append_rows(context, rows, note)
        return self.session.observe_state()

    def publish_snapshot(
        self, state: TableState, rows: DataFrame | None, schema: SourceSchema | None, position: SourcePosition
    ) -> dict[str, int]:
        """Replaces all rows of the table by those of a snapshot of the source, in one commit.

        `rows` is None for a snapshot without rows. `schema` is that of the snapshot's newest events, None if there were
        none. `position` is the snapshot's position in the source. Returns an empty dict, since the rows are not
        counted.
        """
        if rows is None and state.appended is None:
            return {}
        stored = list_frame_columns(rows) if rows is not None else ()
        context = self._prepare_commit(state, stored or (state.appended.columns if state.appended else ()))
        if rows is not None and schema is not None:
            save_columns(self.session, context.state, schema)
        else:
            clear_columns(self.session, context.state)
        replace_rows(rows, CommitNote(position, "RESYNCED", "full").to_run_summary(context.token), context)
        return {}

    def fill_columns(
        self, state: TableState, stored: tuple[Column, ...], values: Mapping[str, Expression]
    ) -> TableState:
        """Changes the table's columns to `stored`, and sets `values` (by column) in all of its rows, in one commit.

        Returns the table's state after the commit.
        """
        context = self._prepare_commit(state, stored)
        if values:
            rows = replace_values(context.spark.table(quote_name(*self.session.model.table.parts)), values)
            note = CommitNote(read_position(state), "SCHEMA_ONLY", "full")
            replace_rows(rows, note.to_run_summary(context.token), context)
        return self.session.observe_state()

    def _prepare_commit(self, state: TableState, stored: tuple[Column, ...]) -> Context:
        """Prepares the table for a commit of rows with the columns `stored`; returns the context of the commit."""
        check_query(self.session.model, stored, stored)
        return prepare_to_append(self.session, state, stored)

    def _append_rows(self, context: Context, rows: DataFrame, note: CommitNote) -> None:
        note = note.mark_first_run(is_first=find_last_run(context.state.log) is None)
        append_rows(rows, note.to_run_summary(context.token), context)


def replace_values(rows: DataFrame, values: Mapping[str, Expression]) -> DataFrame:
    """Returns `rows` with the same columns, with the expressions in `values`, by column, in place of old values."""
    return rows.select(*[values.get(own, to_column(own)).alias(own) for own in rows.columns])
