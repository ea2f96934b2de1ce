"""Change events of a database, by Debezium's engine in this process. All that lasts is in positions."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.connect_schema import source_schema
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.debezium_connection import DebeziumConnection, engine_properties
from arctic_runtime.ingest.transports.debezium_position import Position, is_after, read_position
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, TableEvents
from arctic_runtime.thresholds import SHIPPED, DebeziumThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium_engine import Engine, Receipt, Records, SchemaEvents
    from arctic_runtime.ingest.transports.postgresql import PostgreSQL


@dataclass
class _Open:
    """What there is while a transport is open. `position` is that of the last batch, or the one that was opened at."""

    server: PostgreSQL
    engine: Engine
    folder: tempfile.TemporaryDirectory[str]
    position: Position


class DebeziumTransport:
    """Events of the tables of a connection: a snapshot where there is no position, then the stream.

    A position is the JSON of the partition and offset of Debezium's record; one order holds for all tables. Batches are
    taken by one thread; `acknowledge` and `close` may be called by others.
    """

    def __init__(self, connection: DebeziumConnection, thresholds: DebeziumThresholds = SHIPPED.debezium) -> None:
        self._connection = connection
        self._thresholds = thresholds
        self._now: _Open | None = None
        self._receipts: dict[str, Receipt] = {}
        self._tables: dict[int, tuple[str, SourceSchema | None]] = {}
        self._schemas: dict[tuple[str, str], SourceSchema] = {}
        self._acknowledged_at = 0.0

    initial = Position({}, {"snapshot": "start"}).text

    def check(self, position: str | None) -> None:
        known = None if position is None else read_position(position)
        server = self._server()
        try:
            if known is None or not known.is_snapshot:
                server.prepare(known)
        finally:
            server.close()

    def snapshots(self, position: str) -> bool:
        return read_position(position).is_snapshot

    def _server(self) -> PostgreSQL:
        """The server of the source; raises ConfigError where Debezium is not installed."""
        try:
            from arctic_runtime.ingest.transports.postgresql import PostgreSQL
        except ImportError as error:
            raise ConfigError(
                f"connector {self._connection.connector} needs Debezium, which is not installed ({error}).\n"
                "  what to do: pip install 'dbt-arctic[cdc]'"
            ) from error
        return PostgreSQL(self._connection, self._thresholds)

    def open(self, position: str) -> None:
        server = self._server()
        from arctic_runtime.ingest.transports.debezium_engine import Engine, write_offsets

        known = read_position(position)
        server.prepare(known)
        folder = tempfile.TemporaryDirectory(prefix="arctic-debezium-")
        offsets = Path(folder.name) / "offsets"
        if not known.is_snapshot:
            write_offsets(offsets, self._connection.slot, known)
        engine = Engine(engine_properties(self._connection, offsets, self._thresholds), self._thresholds)
        self._now = _Open(server, engine, folder, known)
        engine.start()

    def batches(self, until_drained: bool) -> Iterator[Batch]:
        now = self._opened()
        end = now.server.end() if until_drained else None
        pushed = time.monotonic() - self._thresholds.push_seconds
        while not now.engine.is_closed:
            if end is not None and now.server.reached(now.position, end):
                return
            records = self._take(now)
            if records is not None:
                now.position = records.position
                yield self._batch(records)
            elif end is not None and time.monotonic() - pushed > self._thresholds.push_seconds:
                now.server.push()
                pushed = time.monotonic()

    def after(self, events: TableEvents, position: str) -> TableEvents:
        known = read_position(position)
        if known.is_snapshot:
            return events
        assert isinstance(events.events, pa.Table)
        payloads = (json.loads(payload) for payload in events.events[PAYLOAD].to_pylist())
        kept = [event["op"] == "r" or is_after(event["source"], known.offset) for event in payloads]
        return replace(events, events=events.events.filter(pa.array(kept, pa.bool_())))

    def acknowledge(self, batch: Batch) -> None:
        if batch.position not in self._receipts:
            return
        receipt = self._receipts[batch.position]
        for position in list(self._receipts):
            del self._receipts[position]
            if position == batch.position:
                break
        if self._now is not None:
            self._now.engine.acknowledge(receipt)
            self._acknowledged_at = time.monotonic()

    def close(self) -> None:
        if self._now is None:
            return
        now, self._now = self._now, None
        # The engine passes on what was acknowledged when it polls next, and its close interrupts that.
        time.sleep(max(0.0, self._acknowledged_at + self._thresholds.flush_seconds - time.monotonic()))
        try:
            now.engine.close()
            now.server.finish(now.position)
        finally:
            now.folder.cleanup()

    def _opened(self) -> _Open:
        if self._now is None:
            raise SourceError(f"{self._connection.place}: the transport is not open")
        return self._now

    def _take(self, now: _Open) -> Records | None:
        from arctic_runtime.ingest.transports.debezium_engine import EngineEnded

        try:
            return now.engine.take()
        except EngineEnded as ended:
            raise now.server.failure(ended.cause, str(ended)) from None

    def _batch(self, records: Records) -> Batch:
        tables = merged(self._events(events) for events in records.events)
        self._receipts[records.position.text] = records.receipt
        count = sum(len(events.places) for events in records.events)
        return Batch(tables, records.position.text, count, records.position.is_snapshot)

    def _events(self, events: SchemaEvents) -> TableEvents:
        known = self._tables.get(events.schema_id)
        if known is None or known[1] is None:
            known = self._tables[events.schema_id] = self._read(events)
        places = events.places
        columns = {PAYLOAD: events.payload, ORIGIN: pa.nulls(len(places), pa.string()), ARRIVAL: places}
        return TableEvents(*known, pa.table(columns))

    def _read(self, events: SchemaEvents) -> tuple[str, SourceSchema | None]:
        """The table of events, and its columns; these are not known where nothing but truncations ever came."""
        source = json.loads(events.payload[0].as_py())["source"]
        table = ".".join(source[part] for part in ("schema", "table") if source.get(part))
        text = events.schema.value
        if events.schema.has_key is not None:
            key = json.loads(events.schema.key) if events.schema.key else None
            self._schemas[table, text] = source_schema(table, json.loads(text), key)
        return table, self._schemas.get((table, text))


def merged(events: Iterable[TableEvents]) -> tuple[TableEvents, ...]:
    """Events of a table that follow on others with an equal schema are put together with them.

    A connector makes a schema anew when it reads the table's definition again, changed or not.
    """
    found: list[TableEvents] = []
    for new in events:
        place = next((i for i in reversed(range(len(found))) if found[i].table == new.table), None)
        if place is not None and found[place].schema == new.schema:
            both = pa.concat_tables([found[place].events, new.events])
            found[place] = TableEvents(new.table, new.schema, both)
        else:
            found.append(new)
    return tuple(found)
