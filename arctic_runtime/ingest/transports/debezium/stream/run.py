"""A run of Debezium's engine, whose records are converted to batches of whole transactions."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.database_kinds import HISTORY
from arctic_runtime.ingest.formats.connect_schema import build_source_schema
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.debezium.connection import (
    OFFSETS,
    DebeziumConnection,
    build_engine_properties,
)
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer
from arctic_runtime.ingest.transports.debezium.stream.batches import (
    StreamEvents,
    build_batch,
    build_empty,
    build_unreadable,
    count_bytes,
    divide_batch,
    find_newest_events,
    join_batches,
    select_new_events,
    split_off_last_delete,
    split_snapshot_rows,
)
from arctic_runtime.ingest.transports.debezium.stream.joining import exclude_joining
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch
from arctic_runtime.thresholds import DebeziumThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium.engine import (
        EmbeddedEngine,
        Receipt,
        Records,
        RecordSchema,
        SchemaEvents,
    )

_RUNS = itertools.count(1)


@dataclass(frozen=True)
class Piece:
    """A batch made from the engine's records, with the receipt by which the batch is acknowledged.

    `receipt` is None if the receipt of a later batch acknowledges this one too. `ends_snapshot` is True for the batch
    with the snapshot's last rows.
    """

    batch: Batch
    receipt: Receipt | None = None
    ends_snapshot: bool = False


@dataclass(frozen=True)
class _ReadTable:
    """A table of events, with its schema; `unreadable` is the error if it can't be read exactly."""

    table: str
    schema: SourceSchema | None
    unreadable: ConfigError | None = None


class EngineRun:
    """A running engine whose records are read from a position on, and made into batches of whole transactions.

    Events of all tables are in one order. `position` is that of the last batch, and `read` that up to which the engine
    has read. Events up to `_resume` were returned by an earlier run and are left out. `_held` are the events of an
    unfinished transaction after the last batch. If their size reaches `most_bytes`, they are returned before the
    transaction's end.
    """

    def __init__(
        self,
        engine: EmbeddedEngine,
        folder: tempfile.TemporaryDirectory[str],
        server: SourceServer,
        position: Position,
        most_bytes: int,
    ) -> None:
        self.engine = engine
        self.position = position
        self._log = server.identify_log()
        self.read = replace(position, seen=None, history=None, log=self._log, joining=())
        self._folder = folder
        self._server = server
        self._most_bytes = most_bytes
        self._resume = None if position.seen is None else position
        self._held: Batch | None = None
        self._tables: dict[int, _ReadTable] = {}

    @property
    def is_holding(self) -> bool:
        """Whether events are held back because the end of their transaction was not read yet."""
        return self._held is not None

    def read_history(self) -> str | None:
        """Reads the definitions of tables over time, up to this moment, one JSON object per line.

        None for connectors that need no such history.
        """
        file = Path(self._folder.name) / HISTORY
        return file.read_text(encoding="utf-8") if file.exists() else None

    def take_records(self) -> Records | None:
        """Takes the next records from the engine, and reads the schemas of their tables; None if none arrive in time.

        Raises EngineEnded if the engine has stopped by itself, and ConnectionLost if the server can't be queried for
        columns.
        """
        records = self.engine.take_records()
        for events in records.events if records is not None else ():
            if events.schema_id not in self._tables:
                self._tables[events.schema_id] = self._read_schema(events)
        return records

    def split_records(self, records: Records) -> Iterator[Piece]:
        """Yields the batches made from records: one, or two if a snapshot ends and the stream begins within them.

        Yields no batch if an earlier run returned all of the events.
        """
        events = [self._build_stream_events(part) for part in records.events]
        if "snapshot" in records.offset:
            self.position = self.read = Position(records.partition, records.offset, log=self._log)
            yield Piece(build_batch(events, self.position), records.receipt)
            return
        if self.read.is_snapshot:
            rows, events = split_snapshot_rows(events)
            start = Position(records.partition, self._server.get_stream_start(records.first), log=self._log)
            self.position = self.read = replace(start, history=self.read_history())
            batch = build_batch([*rows, *self._build_empty_tables()], self.position)
            yield Piece(batch, ends_snapshot=True)
        order = self._server.order
        self.read = order.build_position(
            records.partition, records.offset, find_newest_events(order, events), self.read
        )
        events = self._drop_events_before_resume(events)
        if self._resume is not None:
            return
        position = replace(self.read, history=self.read_history(), joining=self.position.joining)
        batch, self.position = self._take_whole_transactions(build_batch(events, position), position)
        yield Piece(batch, records.receipt)

    def end_run(self) -> None:
        """Stops the engine, and deletes its files."""
        self.engine.stop_engine()
        self._folder.cleanup()

    def _drop_events_before_resume(self, events: list[StreamEvents]) -> list[StreamEvents]:
        """Drops events that an earlier run returned, until this run has read past the position `_resume`."""
        resume, order = self._resume, self._server.order
        if resume is None:
            return events
        new = [replace(select_new_events(order, part, resume), start=resume) for part in events]
        new = [part for part in new if part.events.num_rows]
        if new or order.is_past(self.read, resume):
            self._resume = None
        return new

    def _take_whole_transactions(self, batch: Batch, position: Position) -> tuple[Batch, Position]:
        """Returns the whole transactions that were read up to `position`, and the position after the last of them.

        The events of an unfinished transaction are held back; if they are larger than `most_bytes`, they are returned
        too.
        """
        read = batch if self._held is None else join_batches(self._held, batch)
        self._held = None
        if position.seen is None:
            return read, position
        begin = replace(position, seen=None)
        whole, begun = divide_batch(self._server.order, read, begin)
        if count_bytes(begun) >= self._most_bytes:
            return self._take_part(read, position)
        self._held = begun
        return whole, begin

    def _take_part(self, read: Batch, position: Position) -> tuple[Batch, Position]:
        """Returns the events `read` of an unfinished transaction as a batch, and the position after them.

        If the last event is a delete, it is held back, since the next event may be the insert that belongs to it: an
        update of a primary key is sent as a delete and an insert.
        """
        events, last = split_off_last_delete(read)
        if last is None:
            return read, position
        if not events:
            self._held = read
            return build_batch((), self.position), self.position
        order, offset = self._server.order, {**position.offset, "lsn": position.reached}
        before = order.build_position(position.partition, offset, find_newest_events(order, events), self.position)
        before = replace(before, history=position.history, joining=position.joining)
        self._held = build_batch([replace(last, start=before)], position)
        return build_batch(events, before), before

    def _build_stream_events(self, events: SchemaEvents) -> StreamEvents:
        """Converts the engine's events of one schema to StreamEvents of their table, with the `start` `read`."""
        read = self._tables[events.schema_id]
        indexes = events.indexes
        columns = {PAYLOAD: events.payload, ORIGIN: pa.nulls(len(indexes), pa.string()), ARRIVAL: indexes}
        return StreamEvents(read.table, read.schema, pa.table(columns), read.unreadable, self.read)

    def _build_empty_tables(self) -> list[StreamEvents]:
        """Builds StreamEvents without events, but with the schema, for tables without rows in the snapshot."""
        known = {read.table for read in self._tables.values()}
        return [
            _build_empty(table, schema, self.position)
            for table, schema in self.engine.list_tables().items()
            if table not in known
        ]

    def _read_schema(self, events: SchemaEvents) -> _ReadTable:
        """Returns the name of the table, with its schema, and the SourceSchema of events.

        Queries the server for the primary key if the events do not contain it, as truncates do not.
        """
        source = json.loads(events.payload[0].as_py())["source"]
        schema = source.get("schema") or source["db"]
        table = f"{schema}.{source['table']}"
        try:
            table_schema = _build_schema(table, events.schema)
        except ConfigError as error:
            return _ReadTable(table, None, _advise_resync(error))
        if events.schema.has_key is None:
            table_schema = replace(table_schema, key=self._server.get_primary_key(schema, source["table"]))
        known = self._server.list_columns(schema, source["table"], table_schema.columns, self.read_history())
        numbered = replace(table_schema, columns=known.columns, catalog=known.catalog, table_id=known.table_id)
        return _ReadTable(table, numbered)


def _build_empty(table: str, schema: RecordSchema, start: Position) -> StreamEvents:
    try:
        return build_empty(table, _build_schema(table, schema), start)
    except ConfigError as error:
        return build_unreadable(table, _advise_resync(error))


def _advise_resync(error: ConfigError) -> ConfigError:
    return ConfigError(error.message, fix=f"{error.fix}; then load the table anew by `arctic resync`")


def _build_schema(table: str, schema: RecordSchema) -> SourceSchema:
    return build_source_schema(table, json.loads(schema.value), json.loads(schema.key) if schema.key else None)


def start_run(
    connection: DebeziumConnection, thresholds: DebeziumThresholds, server: SourceServer, position: Position
) -> EngineRun:
    """Starts an engine that continues after `position`, or if that is inside a snapshot, reads the snapshot.

    Loaded tables whose position the stream has not reached (`Position.joining`) are not read yet.
    """
    from arctic_runtime.ingest.transports.debezium.engine import EmbeddedEngine, write_offsets

    folder = tempfile.TemporaryDirectory(prefix="arctic-debezium-")
    inside = Path(folder.name)
    properties = build_engine_properties(
        exclude_joining(connection, position), inside, thresholds, server.build_properties()
    )
    # Java has one registry of metrics for all engines, and an engine waits for a name that is still in use.
    engine = EmbeddedEngine({**properties, "custom.metric.tags": f"run={next(_RUNS)}"}, thresholds)
    if not position.is_snapshot:
        write_offsets(inside / OFFSETS, connection.slot, position)
        if position.history is not None:
            (inside / HISTORY).write_text(position.history, encoding="utf-8")
    engine.start_engine()
    return EngineRun(engine, folder, server, position, thresholds.batch_bytes)
