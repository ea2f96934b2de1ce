"""Events of tables with their places in the stream, and what batches are made of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from arctic_runtime.ingest.transports.debezium.position import LogOrder, Newest, Position, Source
from arctic_runtime.ingest.transports.debezium.replay_filter import (
    are_new,
    count_events_until,
    find_newest,
    snapshot_rows,
)
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


class GatheredBatch:
    """A batch that others may join until it is taken; `batch` is None until there is one."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self._begun_at = 0.0

    @property
    def age_seconds(self) -> float:
        """The time since the first of its batches was added."""
        return time.monotonic() - self._begun_at

    def add_batch(self, batch: Batch) -> None:
        if self.batch is None:
            self._begun_at = time.monotonic()
        self.batch = batch if self.batch is None else join_batches(self.batch, batch)

    def take_batches(self) -> list[Batch]:
        """The batch, or nothing if there is none."""
        batch, self.batch = self.batch, None
        return [] if batch is None else [batch]


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


def count_bytes(batch: Batch) -> int:
    """Bytes of the JSON of a batch's events, with their places."""
    return sum(int(placed_events.events.nbytes) for placed_events in list_placed_events(batch))


def find_newest_by_table(order: LogOrder, events: Iterable[PlacedEvents]) -> dict[str, Newest]:
    """The newest event of the stream of each table that has one."""
    newest = ((part.table, find_newest(order, part.events[PAYLOAD])) for part in events)
    return {table: event for table, event in newest if event is not None}


def select_new(order: LogOrder, events: PlacedEvents, position: Position) -> PlacedEvents:
    """The events that come after a position; rows of a snapshot always do."""
    is_new = are_new(order, events.table, events.events[PAYLOAD].to_pylist(), position, events.start)
    if all(is_new):
        return events
    return replace(events, events=events.events.filter(pa.array(is_new, pa.bool_())))


def split_snapshot_rows(events: Iterable[PlacedEvents]) -> tuple[list[PlacedEvents], list[PlacedEvents]]:
    """The rows of a snapshot, and the events of the stream after it."""
    rows, stream = [], []
    for table_events in events:
        count = snapshot_rows(table_events.events[PAYLOAD])
        rows.append(replace(table_events, events=table_events.events.slice(0, count)))
        stream.append(replace(table_events, events=table_events.events.slice(count)))
    return _select_with_events(rows), _select_with_events(stream)
