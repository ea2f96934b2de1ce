"""The pipeline of events to one table: deduplicate → decode → count → change columns → fold → publish.

Before the pipeline, the events of a batch are split by schema (`TableSchemas.split_by_schema`). The events that can be
applied are published in one commit, which stores the table's source position. Events that are not committed before the
process ends are read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.errors import CommitConflict
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD
from arctic_runtime.ingest.writing.decode_events import REASON, decode_events, is_change, is_read
from arctic_runtime.ingest.writing.event_frames import cache_rows, to_dataframe
from arctic_runtime.ingest.writing.fold import KeptForReplay, count_events
from arctic_runtime.ingest.writing.records import (
    DeadLetters,
    DecodedBatch,
    EventPart,
    EventsAfter,
    KeepDeadLetters,
    NewEvents,
    SourcePosition,
    SourceTimes,
    TableResult,
    WriteMode,
    read_position,
)
from arctic_runtime.ingest.writing.table_schemas import evolve_schema
from arctic_runtime.ingest.writing.table_target import TableStorage, TableTarget
from arctic_runtime.model.state import TableState


def take_all_events(spark: SparkSession, part: EventPart, start: SourcePosition) -> NewEvents:
    """Returns all events of `part`; to be used only if the table has none of them.

    `start` is the source position of the table.
    """
    preceding = sum(to_dataframe(spark, events).count() for events in part.before)
    return NewEvents(to_dataframe(spark, part.events), start, preceding)


def find_new_events(spark: SparkSession, part: EventPart, start: SourcePosition, after: EventsAfter) -> NewEvents:
    """Returns the events of `part` that come after `start`, the source position of the table.

    `after` selects the events after a position of the source. Counts events, so it runs Spark jobs.
    """
    known, read = start.position, to_dataframe(spark, part.events)
    new = read if known is None else to_dataframe(spark, after(part.events, known))
    before = part.before if known is None else [after(events, known) for events in part.before]
    preceding = sum(to_dataframe(spark, events).count() for events in before)
    had = max(0, start.events - preceding)
    if not had:
        return NewEvents(new, start, preceding, replayed=_count_missing(read, new))
    arrivals = sorted(row[0] for row in new.select(ARRIVAL).collect())
    if had >= len(arrivals):
        new, ahead = new.limit(0), had - len(arrivals)
        return NewEvents(new, start, preceding + len(arrivals), ahead, _count_missing(read, new))
    new = new.where(F.col(ARRIVAL) >= arrivals[had])
    return NewEvents(new, start, preceding + had, replayed=_count_missing(read, new))


def _count_missing(read: DataFrame, new: DataFrame) -> int:
    return 0 if new is read else read.count() - new.count()


@dataclass(frozen=True)
class EventPipeline:
    """Publishes one part of a batch, with one schema, to a table.

    `known` is the source position that this process stored with its last commit to the table, None before its first. If
    the table still has this position, the part contains no repeated events.
    """

    target: TableTarget
    part: EventPart
    schema: SourceSchema
    mode: WriteMode
    known: SourcePosition | None

    def run(self, keep: KeepDeadLetters) -> tuple[TableResult, SourcePosition | None]:
        """Publishes the events that the table does not have yet; returns the result and the table's new position.

        `keep` saves the dead letters among the events. The position is None if nothing was committed.
        """
        storage = self.target.open_by_key(self.schema.key)
        state = storage.prepare_to_publish()
        new = self._deduplicate(storage, read_position(state))
        with self._decode(storage, state, new) as batch:
            self._keep_dead_letters(batch, keep)
            is_committed = self._is_due(batch, new)
            rows = _publish(storage, batch) if is_committed else {}
        counts = batch.counts
        read = counts.rows + counts.dead + new.replayed
        name = self.target.table.name
        result = TableResult(name, rows, read, counts.rows, new.replayed, counts.dead, counts.newest)
        return result, batch.end if is_committed else None

    def _deduplicate(self, storage: TableStorage, start: SourcePosition) -> NewEvents:
        """Returns the events that the table does not have yet; `start` is the table's source position.

        Raises CommitConflict if another process has loaded a table without a primary key.
        """
        spark = storage.session.spark()
        if storage.session.model.is_appended and self.mode.is_load and start != (self.known or SourcePosition()):
            raise CommitConflict(
                f"Another process committed first.\n  while: load {self.target.table.table}",
                expected=str(self.known),
                actual=str(start),
                fix="run again, when the other process has ended",
            )
        if start == self.known:
            return take_all_events(spark, self.part, start)
        return find_new_events(spark, self.part, start, self.mode.after)

    @contextmanager
    def _decode(self, storage: TableStorage, state: TableState, new: NewEvents) -> Iterator[DecodedBatch]:
        form = self.target.form.events
        decoding = _drop_payloads(storage.reject_events(decode_events(new.events, form, self.schema), form))
        wanted = is_change() if self.mode.includes_snapshot_rows else is_change() & ~is_read()
        with cache_rows(decoding, wanted) as decoded:
            counts = count_events(decoded)
            has_dead_letters = bool(counts.dead or self.part.before)
            kept = KeptForReplay(
                arrival=has_dead_letters and not form.order,
                unchanged=has_dead_letters or self.mode.has_dead_letters,
            )
            end = new.find_end(self.part.position)
            times = SourceTimes(None if self.mode.is_partial else counts.newest, self.mode.shown)
            yield DecodedBatch(state, self.schema, decoded, counts, new.start, end, times, kept)

    def _keep_dead_letters(self, batch: DecodedBatch, keep: KeepDeadLetters) -> None:
        truncated_at = batch.counts.truncated_at
        if batch.counts.dead or truncated_at is not None:
            keep(to_dead_letters(batch.events, batch.state, self.part.events.schema, truncated_at))

    def _is_due(self, batch: DecodedBatch, new: NewEvents) -> bool:
        """Whether a commit is needed: to write rows, to empty or create the table, or to store its source position."""
        counts = batch.counts
        is_behind = self.part.position is not None and new.ahead > 0
        is_created = batch.state.log is None and not (counts.rows or counts.dead or new.replayed)
        return bool(counts.rows) or counts.truncated_at is not None or is_behind or is_created


def to_dead_letters(
    decoded: DataFrame, state: TableState, schema: SourceSchema | None, truncated_at: int | None = None
) -> DeadLetters:
    """Builds DeadLetters from decoded events; `state` is the state of the table before the events.

    `truncated_at` is the ARRIVAL of the last truncate, None if there is none.
    """
    return DeadLetters(decoded, state.log.head if state.log else None, schema, truncated_at)


def _publish(storage: TableStorage, batch: DecodedBatch) -> dict[str, int]:
    state = evolve_schema(storage, batch.state, batch.schema) if batch.counts.rows else batch.state
    return storage.publish_events(replace(batch, state=state))


def _drop_payloads(decoded: DataFrame) -> DataFrame:
    """Sets PAYLOAD and ORIGIN to null except for dead letters, since only dead letters need them."""
    return decoded.withColumns({own: F.when(F.col(REASON).isNotNull(), F.col(own)) for own in (PAYLOAD, ORIGIN)})
