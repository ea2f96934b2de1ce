"""What tests read from a transport: its events as Python values, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD, Batch


@dataclass
class Reading:
    """All that was read, in the order of the source."""

    batches: list[Batch] = field(default_factory=list)

    @property
    def position(self) -> str:
        """What goes on after the last batch."""
        return progress(self.batches[-1])

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Table and event, in order."""
        batches = []
        for number, batch in enumerate(self.batches):
            for item in batch.tables:
                rows = zip(item.events[ARRIVAL].to_pylist(), item.events[PAYLOAD].to_pylist(), strict=True)
                batches += [(number, place, item.table, json.loads(payload)) for place, payload in rows]
        return [(table, event) for _, _, table, event in sorted(batches, key=lambda one: one[:2])]

    @property
    def changes(self) -> list[tuple[str, Any]]:
        """Operation and row of each event: the row after, or before for a delete."""
        return [(event["op"], event["after"] or event["before"]) for _, event in self.events]

    @property
    def ids(self) -> list[int]:
        return [row["id"] for _, row in self.changes]

    @property
    def schemas(self) -> list[tuple[str, SourceSchema | None]]:
        return [(table.table, table.schema) for batch in self.batches for table in batch.tables]


def progress(batch: Batch) -> str:
    return batch.progress or batch.position


@contextmanager
def opened(connection: DebeziumConnection, position: str | None = None, **options: Any) -> Iterator[DebeziumTransport]:
    transport = DebeziumTransport(connection, **options)
    try:
        transport.check_source(position)
        transport.open_at(transport.initial if position is None else position)
        yield transport
    finally:
        transport.close_source()


def drain(connection: DebeziumConnection, position: str | None = None, **options: Any) -> Reading:
    """Everything from a position to the end, acknowledged."""
    with opened(connection, position, **options) as transport:
        return drained(transport)


def drained(transport: DebeziumTransport, acknowledge: bool = True) -> Reading:
    reading = Reading()
    for batch in transport.read_batches(until_drained=True):
        reading.batches.append(batch)
        if acknowledge:
            transport.acknowledge_batch(batch)
    return reading
