"""Publishes batches of change events to one arctic table, each exactly once."""

from __future__ import annotations

from contextlib import suppress

from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import CommitConflict
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.decoding.decode_events import decode_events, is_change
from arctic_runtime.ingest.writing.decoding.event_frames import cache_rows, to_dataframe
from arctic_runtime.ingest.writing.fold import count_events
from arctic_runtime.ingest.writing.pipeline import EventPipeline, to_dead_letters
from arctic_runtime.ingest.writing.records import EventPart, KeepDeadLetters, TableResult, WriteMode
from arctic_runtime.ingest.writing.schema.table_schemas import TableSchemas
from arctic_runtime.ingest.writing.snapshot_writer import SnapshotWriter
from arctic_runtime.ingest.writing.source_position import SourcePosition
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.model.state import TableState


class TableWriter:
    """Writes batches to one table; leaves out events that the table already has, by the source position that it stores.

    `snapshot` stores rows of snapshots, and `schemas` determines the schemas of events.
    """

    def __init__(self, target: TableTarget) -> None:
        self.table = target.table
        self.schemas = TableSchemas(target)
        self.snapshot = SnapshotWriter(target, self.schemas)
        self._target = target
        self._position: SourcePosition | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the table exists. Needs no Spark."""
        return self._target.find_stored_key() is not None

    def write_events(self, part: EventPart, mode: WriteMode, keep: KeepDeadLetters) -> TableResult:
        """Publishes the events that the table does not have yet, and stores the table's new source position.

        `keep` gets the decoded events that can't be applied, before the table's commit. Raises ConfigError if the
        source changed the primary key, SourceError if it changed columns in an unknown way, and CommitConflict if other
        writers always commit first.
        """
        if part.events.schema is None and self._target.form.read_event_schema is not None:
            return self._keep_without_schema(part.events, keep)
        schema = self.schemas.find_schema(part.events)

        def write_once() -> TableResult:
            result, position = EventPipeline(self._target, part, schema, mode, self._position).run(keep)
            self._position = position or self._position
            return result

        return retry_on_conflict(write_once, self._target.attempts)

    def invalidate_position(self) -> None:
        """Drops the cached source position, since events will be read again; the next batch reads it from the table."""
        self._position = None

    def merge_base(self) -> None:
        """Merges unmerged changes into the base of a table with `merge: on_read`, if that is worth its cost.

        Runs alongside `write_events`, which does not merge: a merge may take as long as many batches. If another writer
        commits first, nothing is merged.
        """
        if not self.is_loaded:
            return
        session = self._target.open_by_key(self.schemas.find_key()).session
        with suppress(CommitConflict):
            session.reconcile_until_done(session.observe_state())

    def _keep_without_schema(self, events: TableEvents, keep: KeepDeadLetters) -> TableResult:
        """Passes the dead letters among events without a schema to `keep`, and counts the events; writes no rows."""
        rows = to_dataframe(self._target.spark(), events)
        with cache_rows(decode_events(rows, self._target.form.events, SourceSchema(())), is_change()) as decoded:
            counts = count_events(decoded)
            if counts.dead:
                keep(to_dead_letters(decoded, TableState(), events.schema))
        return TableResult(self.table.name, {}, counts.rows + counts.dead, counts.rows, 0, counts.dead, None)
