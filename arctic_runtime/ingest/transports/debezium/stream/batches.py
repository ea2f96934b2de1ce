"""Builds batches of a stream from the events of its tables, without repeated ones, concatenates and divides them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arctic_runtime.errors import ArcticError
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.debezium.position import LogOrder, Newest, Position, Source
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, TableEvents

SNAPSHOT_ROW = "r"
"""Debezium's operation of events that are rows of a snapshot, which have no log position."""


def flag_new_events(
    order: LogOrder, table: str, payloads: Iterable[str], position: Position, start: Position | None
) -> list[bool]:
    """Returns for each event of a table whether it comes after `position`; rows of a snapshot always do.

    `payloads` are the JSON of consecutive events in the stream; the first one comes directly after the position
    `start`.
    """
    new: list[bool] = []
    last: Any = None
    number = 0
    for payload in payloads:
        event = json.loads(payload)
        source = event["source"]
        if event["op"] == SNAPSHOT_ROW:
            new.append(True)
            continue
        if last is not None and order.is_same(last, source):
            number += 1
        else:
            number = 1 + (order.count_events_at(start, table, source) if start is not None else 0)
        last = source
        new.append(order.is_after(source, number, table, position))
    return new


def find_newest_event(order: LogOrder, payloads: Sequence[Any]) -> Newest | None:
    """Returns the last stream event of a table, with the number of last events that have the same log position.

    `payloads` are the JSON of the table's events. None if all of them are rows of a snapshot.
    """
    last = json.loads(str(payloads[len(payloads) - 1]))
    if last["op"] == SNAPSHOT_ROW:
        return None
    count = 1
    while count < len(payloads):
        event = json.loads(str(payloads[len(payloads) - 1 - count]))
        if event["op"] == SNAPSHOT_ROW or not order.is_same(event["source"], last["source"]):
            break
        count += 1
    return Newest(last["source"], count)


def count_snapshot_rows(payloads: Sequence[Any]) -> int:
    """Number of a table's events that are rows of a snapshot; these come first."""
    return _count_leading(payloads, lambda event: bool(event["op"] == SNAPSHOT_ROW))


def count_events_until(order: LogOrder, table: str, payloads: Sequence[Any], position: Position) -> int:
    """Number of a table's stream events before `position`, at which a transaction begins."""
    return _count_leading(payloads, lambda event: not order.is_after(event["source"], 1, table, position))


def _count_leading(payloads: Sequence[Any], is_counted: Callable[[Any], bool]) -> int:
    """Number of leading events for which `is_counted` is true, by binary search.

    `is_counted` has to be false for all events after the first one for which it is false.
    """
    low, high = 0, len(payloads)
    while low < high:
        middle = (low + high) // 2
        if is_counted(json.loads(str(payloads[middle]))):
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(frozen=True)
class StreamEvents(TableEvents):
    """Events of one table in the stream; the first event directly follows the position `start`."""

    events: pa.Table
    start: Position | None = None


_NO_EVENTS = pa.table(
    {PAYLOAD: pa.array([], pa.string()), ORIGIN: pa.array([], pa.string()), ARRIVAL: pa.array([], pa.int64())}
)


def build_empty(table: str, schema: SourceSchema | None, start: Position | None = None) -> StreamEvents:
    """Builds StreamEvents without events, by which a table without rows gets its columns."""
    return StreamEvents(table, schema, _NO_EVENTS, start=start)


def build_unreadable(table: str, error: ArcticError) -> StreamEvents:
    """Builds StreamEvents without events for a table that can't be read because of `error`."""
    return StreamEvents(table, None, _NO_EVENTS, error)


def get_first_source(batch: Batch) -> Source:
    """Returns the part `source`, with the log position, of the first event of a batch."""
    parts: list[pa.Table] = [part.events for part in batch.tables]
    first = min(parts, key=lambda part: part[ARRIVAL][0].as_py())
    source: Source = json.loads(first[PAYLOAD][0].as_py())["source"]
    return source


def build_batch(events: Iterable[StreamEvents], position: Position) -> Batch:
    """Builds a batch of `events` whose end is `position`.

    Tables without events are kept in the batch, since they have the schema of the table.
    """
    tables = merge_events(events)
    count = sum(part.events.num_rows for part in tables)
    return Batch(tables, position.text, count, position.is_snapshot, position.progress)


def merge_events(events: Iterable[StreamEvents]) -> tuple[StreamEvents, ...]:
    """Concatenates events of a table if the later ones follow the earlier ones with an equal schema.

    A connector creates a new schema whenever it reads the table's definition, even if that is unchanged.
    """
    groups: list[StreamEvents] = []
    for new in events:
        place = next((i for i in reversed(range(len(groups))) if groups[i].table == new.table), None)
        if place is not None and groups[place].schema == new.schema:
            both = pa.concat_tables([groups[place].events, new.events])
            groups[place] = replace(groups[place], events=both)
        else:
            groups.append(new)
    return tuple(groups)


class GatheredBatch:
    """A batch to which further batches are appended until it is taken; `batch` is None if it is empty."""

    def __init__(self) -> None:
        self.batch: Batch | None = None
        self._begun_at = 0.0

    @property
    def age_seconds(self) -> float:
        """Seconds since the first batch was added; meaningful only if there is a batch."""
        return time.monotonic() - self._begun_at

    def add_batch(self, batch: Batch) -> None:
        if self.batch is None:
            self._begun_at = time.monotonic()
        self.batch = batch if self.batch is None else join_batches(self.batch, batch)

    def take_batches(self) -> list[Batch]:
        """Removes the gathered batch and returns it in a list; an empty list if there is none."""
        batch, self.batch = self.batch, None
        return [] if batch is None else [batch]


def join_batches(batch: Batch, later: Batch) -> Batch:
    """Returns one batch with the events of `batch` and then those of `later`, which directly follows it."""
    before = list_stream_events(batch)
    offset = max((pc.max(part.events[ARRIVAL]).as_py() for part in before), default=-1) + 1
    after = [replace(part, events=_shift_arrival(part.events, offset)) for part in list_stream_events(later)]
    caught_up = later.caught_up or batch.caught_up
    return replace(later, tables=merge_events([*before, *after]), count=batch.count + later.count, caught_up=caught_up)


def divide_batch(order: LogOrder, batch: Batch, begin: Position) -> tuple[Batch, Batch]:
    """Divides a batch at the position `begin`, where a transaction begins, into the events before and after it.

    Both returned batches have the position `begin`.
    """
    before, after = [], []
    for part in list_stream_events(batch):
        count = count_events_until(order, part.table, part.events[PAYLOAD], begin)
        before.append(replace(part, events=part.events.slice(0, count)))
        after.append(replace(part, events=part.events.slice(count), start=begin))
    return build_batch(_select_with_events(before), begin), build_batch(_select_with_events(after), begin)


def split_off_last_delete(batch: Batch) -> tuple[list[StreamEvents], StreamEvents | None]:
    """Removes the last event of a batch if it is a delete.

    Returns the events without the delete, and the delete itself. If the last event is not a delete, returns all events,
    and None.
    """
    events = list_stream_events(batch)
    place = max(range(len(events)), key=lambda i: events[i].events[ARRIVAL][-1].as_py())
    end = events[place]
    if json.loads(end.events[PAYLOAD][-1].as_py())["op"] != "d":
        return events, None
    count = end.events.num_rows - 1
    events[place] = replace(end, events=end.events.slice(0, count))
    return _select_with_events(events), replace(end, events=end.events.slice(count))


def _select_with_events(parts: Iterable[StreamEvents]) -> list[StreamEvents]:
    return [part for part in parts if part.events.num_rows]


def list_stream_events(batch: Batch) -> list[StreamEvents]:
    return [part for part in batch.tables if isinstance(part, StreamEvents)]


def _shift_arrival(events: pa.Table, by: int) -> pa.Table:
    return events.set_column(events.schema.get_field_index(ARRIVAL), ARRIVAL, pc.add(events[ARRIVAL], by))


def count_bytes(batch: Batch) -> int:
    """Number of bytes of a batch's events in memory: their JSON and their columns."""
    return sum(int(part.events.nbytes) for part in list_stream_events(batch))


def find_newest_events(order: LogOrder, events: Iterable[StreamEvents]) -> dict[str, Newest]:
    """Maps each table to its newest stream event in `events`; `order` compares log positions."""
    newest = ((part.table, find_newest_event(order, part.events[PAYLOAD])) for part in events)
    return {table: event for table, event in newest if event is not None}


def select_new_events(order: LogOrder, events: StreamEvents, position: Position) -> StreamEvents:
    """Selects the events that come after a position; rows of a snapshot are always selected."""
    is_new = flag_new_events(order, events.table, events.events[PAYLOAD].to_pylist(), position, events.start)
    if all(is_new):
        return events
    return replace(events, events=events.events.filter(pa.array(is_new, pa.bool_())))


def split_snapshot_rows(events: Iterable[StreamEvents]) -> tuple[list[StreamEvents], list[StreamEvents]]:
    """Splits events into the rows of a snapshot, and the stream's events that follow them."""
    rows, stream = [], []
    for part in events:
        count = count_snapshot_rows(part.events[PAYLOAD])
        rows.append(replace(part, events=part.events.slice(0, count)))
        stream.append(replace(part, events=part.events.slice(count)))
    return _select_with_events(rows), _select_with_events(stream)
