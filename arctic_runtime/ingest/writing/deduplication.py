"""Leaves out the events that a table already has, according to the source position stored with the table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decoding.event_frames import to_dataframe
from arctic_runtime.ingest.writing.records import EventPart, EventsAfter, NewEvents
from arctic_runtime.ingest.writing.source_position import SourcePosition


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
