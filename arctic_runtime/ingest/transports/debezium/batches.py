"""Events of tables with their places in the stream, and what batches are made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from arctic_runtime.ingest.transports.debezium.position import LogOrder, Position, Source
from arctic_runtime.ingest.transports.debezium.replay_filter import count_events_until, snapshot_rows
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD, Batch, TableEvents


@dataclass(frozen=True)
class PlacedEvents(TableEvents):
    """Events of a table that follow on a position in the stream."""

    events: pa.Table
    start: Position | None = None


def get_first_source(batch: Batch) -> Source:
    """The source of the first event of a batch."""
    parts: list[pa.Table] = [table_events.events for table_events in batch.tables]
    first = min(parts, key=lambda table_events: table_events[ARRIVAL][0].as_py())
    source: Source = json.loads(first[PAYLOAD][0].as_py())["source"]
    return source


def build_batch(events: Iterable[PlacedEvents], position: Position) -> Batch:
    """A batch of events up to a position; parts without events are there to tell their table's schema."""
    tables = merge_events(events)
    count = sum(table_events.events.num_rows for table_events in tables)
    return Batch(tables, position.text, count, position.is_snapshot, position.progress)


def merge_events(events: Iterable[PlacedEvents]) -> tuple[PlacedEvents, ...]:
    """Events of a table that follow on others with an equal schema are put together with them.

    A connector makes a schema anew when it reads the table's definition again, changed or not.
    """
    groups: list[PlacedEvents] = []
    for new in events:
        place = next((i for i in reversed(range(len(groups))) if groups[i].table == new.table), None)
        if place is not None and groups[place].schema == new.schema:
            both = pa.concat_tables([groups[place].events, new.events])
            groups[place] = replace(groups[place], events=both)
        else:
            groups.append(new)
    return tuple(groups)


def gather_batches(before: Batch | None, batch: Batch, ends_snapshot: bool) -> tuple[list[Batch], Batch | None]:
    """The batches that are complete, and the one that others may join. A batch that ends a snapshot stands alone."""
    if ends_snapshot:
        return [batch] if before is None else [before, batch], None
    return [], batch if before is None else join_batches(before, batch)


def join_batches(batch: Batch, later: Batch) -> Batch:
    """A batch and the one that follows on it as one; `later` has the events that come later."""
    before = list_placed_events(batch)
    moved = max((pc.max(table_events.events[ARRIVAL]).as_py() for table_events in before), default=-1) + 1
    behind = [
        replace(table_events, events=_shift_arrival(table_events.events, moved))
        for table_events in list_placed_events(later)
    ]
    caught_up = later.caught_up or batch.caught_up
    return replace(later, tables=merge_events([*before, *behind]), count=batch.count + later.count, caught_up=caught_up)


def divide_batch(order: LogOrder, batch: Batch, begin: Position) -> tuple[Batch, Batch]:
    """The events of a batch up to a position where a transaction begins, and those of this one."""
    before, after = [], []
    for table_events in list_placed_events(batch):
        count = count_events_until(order, table_events.table, table_events.events[PAYLOAD], begin)
        before.append(replace(table_events, events=table_events.events.slice(0, count)))
        after.append(replace(table_events, events=table_events.events.slice(count), start=begin))
    return build_batch(_select_with_events(before), begin), build_batch(_select_with_events(after), begin)


def split_off_last_delete(batch: Batch) -> tuple[list[PlacedEvents], PlacedEvents | None]:
    """The events of a batch without its last one where that is a delete, and this one; None if it is another."""
    events = list_placed_events(batch)
    place = max(range(len(events)), key=lambda i: events[i].events[ARRIVAL][-1].as_py())
    end = events[place]
    if json.loads(end.events[PAYLOAD][-1].as_py())["op"] != "d":
        return events, None
    count = end.events.num_rows - 1
    events[place] = replace(end, events=end.events.slice(0, count))
    return _select_with_events(events), replace(end, events=end.events.slice(count))


def _select_with_events(parts: Iterable[PlacedEvents]) -> list[PlacedEvents]:
    return [table_events for table_events in parts if table_events.events.num_rows]


def list_placed_events(batch: Batch) -> list[PlacedEvents]:
    return [table_events for table_events in batch.tables if isinstance(table_events, PlacedEvents)]


def _shift_arrival(events: pa.Table, by: int) -> pa.Table:
    return events.set_column(events.schema.get_field_index(ARRIVAL), ARRIVAL, pc.add(events[ARRIVAL], by))


def split_snapshot_rows(events: Iterable[PlacedEvents]) -> tuple[list[PlacedEvents], list[PlacedEvents]]:
    """The rows of a snapshot, and the events of the stream after it."""
    rows, stream = [], []
    for table_events in events:
        count = snapshot_rows(table_events.events[PAYLOAD])
        rows.append(replace(table_events, events=table_events.events.slice(0, count)))
        stream.append(replace(table_events, events=table_events.events.slice(count)))
    return _select_with_events(rows), _select_with_events(stream)
