"""Determines which events of a stream come before a position, by their log positions, to leave out repeated events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from arctic_runtime.ingest.transports.debezium.position import LogOrder, Newest, Position

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
