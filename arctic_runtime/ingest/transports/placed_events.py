"""Events of tables with their places in the stream, and what batches are made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from arctic_runtime.ingest.transports.debezium_position import LogOrder, Position, Source
from arctic_runtime.ingest.transports.replayed import events_until, snapshot_rows
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD, Batch, TableEvents


@dataclass(frozen=True)
class PlacedEvents(TableEvents):
    """Events of a table that follow on a position in the stream."""

    events: pa.Table
    start: Position | None = None


def first_source(batch: Batch) -> Source:
    """The source of the first event of a batch."""
    parts: list[pa.Table] = [of.events for of in batch.tables]
    first = min(parts, key=lambda of: of[ARRIVAL][0].as_py())
    source: Source = json.loads(first[PAYLOAD][0].as_py())["source"]
    return source


def batch_of(events: Iterable[PlacedEvents], position: Position) -> Batch:
    """A batch of events up to a position; parts without events are there to tell their table's schema."""
    tables = merged(events)
    count = sum(of.events.num_rows for of in tables)
    return Batch(tables, position.text, count, position.is_snapshot, position.progress)


def merged(events: Iterable[PlacedEvents]) -> tuple[PlacedEvents, ...]:
    """Events of a table that follow on others with an equal schema are put together with them.

    A connector makes a schema anew when it reads the table's definition again, changed or not.
    """
    found: list[PlacedEvents] = []
    for new in events:
        place = next((i for i in reversed(range(len(found))) if found[i].table == new.table), None)
        if place is not None and found[place].schema == new.schema:
            both = pa.concat_tables([found[place].events, new.events])
            found[place] = replace(found[place], events=both)
        else:
            found.append(new)
    return tuple(found)


def gathered_with(before: Batch | None, batch: Batch, ends_snapshot: bool) -> tuple[list[Batch], Batch | None]:
    """The batches that are complete, and the one that others may join. A batch that ends a snapshot stands alone."""
    if ends_snapshot:
        return [batch] if before is None else [before, batch], None
    return [], batch if before is None else joined(before, batch)


def joined(batch: Batch, later: Batch) -> Batch:
    """A batch and the one that follows on it as one; `later` has the events that come later."""
    before = placed(batch)
    moved = max((pc.max(of.events[ARRIVAL]).as_py() for of in before), default=-1) + 1
    behind = [replace(of, events=_moved(of.events, moved)) for of in placed(later)]
    caught_up = later.caught_up or batch.caught_up
    return replace(later, tables=merged([*before, *behind]), count=batch.count + later.count, caught_up=caught_up)


def divided(order: LogOrder, batch: Batch, begin: Position) -> tuple[Batch, Batch]:
    """The events of a batch up to a position where a transaction begins, and those of this one."""
    before, after = [], []
    for of in placed(batch):
        count = events_until(order, of.table, of.events[PAYLOAD], begin)
        before.append(replace(of, events=of.events.slice(0, count)))
        after.append(replace(of, events=of.events.slice(count), start=begin))
    return batch_of(_with_events(before), begin), batch_of(_with_events(after), begin)


def without_last_delete(batch: Batch) -> tuple[list[PlacedEvents], PlacedEvents | None]:
    """The events of a batch without its last one where that is a delete, and this one; None where it is another."""
    events = placed(batch)
    place = max(range(len(events)), key=lambda i: events[i].events[ARRIVAL][-1].as_py())
    end = events[place]
    if json.loads(end.events[PAYLOAD][-1].as_py())["op"] != "d":
        return events, None
    count = end.events.num_rows - 1
    events[place] = replace(end, events=end.events.slice(0, count))
    return _with_events(events), replace(end, events=end.events.slice(count))


def _with_events(parts: Iterable[PlacedEvents]) -> list[PlacedEvents]:
    return [of for of in parts if of.events.num_rows]


def placed(batch: Batch) -> list[PlacedEvents]:
    return [of for of in batch.tables if isinstance(of, PlacedEvents)]


def _moved(events: pa.Table, by: int) -> pa.Table:
    return events.set_column(events.schema.get_field_index(ARRIVAL), ARRIVAL, pc.add(events[ARRIVAL], by))


def of_snapshot(events: Iterable[PlacedEvents]) -> tuple[list[PlacedEvents], list[PlacedEvents]]:
    """The rows of a snapshot, and the events of the stream after it."""
    rows, stream = [], []
    for of in events:
        count = snapshot_rows(of.events[PAYLOAD])
        rows.append(replace(of, events=of.events.slice(0, count)))
        stream.append(replace(of, events=of.events.slice(count)))
    return _with_events(rows), _with_events(stream)
