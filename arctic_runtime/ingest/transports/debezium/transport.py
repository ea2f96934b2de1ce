"""Change events of a database, by Debezium's engine in this process. All that lasts is in positions."""

from __future__ import annotations

import itertools
import json
import logging
import math
import tempfile
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.connect_schema import build_source_schema
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.debezium.batches import (
    PlacedEvents,
    build_batch,
    divide_batch,
    gather_batches,
    get_first_source,
    join_batches,
    list_placed_events,
    split_off_last_delete,
    split_snapshot_rows,
)
from arctic_runtime.ingest.transports.debezium.connection import (
    HISTORY,
    OFFSETS,
    DebeziumConnection,
    build_engine_properties,
)
from arctic_runtime.ingest.transports.debezium.load import DebeziumLoad
from arctic_runtime.ingest.transports.debezium.position import INITIAL, Joining, Position, read_position
from arctic_runtime.ingest.transports.debezium.replay_filter import are_new, find_newest
from arctic_runtime.ingest.transports.debezium.schema_history import select_tables, select_until
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, CatalogTable, TableEvents
from arctic_runtime.thresholds import SHIPPED, DebeziumThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium.engine import Engine, Receipt, Records, SchemaEvents
    from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer

    _Receipt = tuple[Engine, Receipt]

LOG = logging.getLogger(__name__)

_RUNS = itertools.count(1)
_NO_PLACES = pa.array([], pa.int64())


@dataclass
class _Run:
    """One run of the engine. `read` is how far it has read, `resume` up to where its events are known already.

    `held` are the events of a transaction of which more may come, after the position of the last batch.
    """

    engine: Engine
    folder: tempfile.TemporaryDirectory[str]
    read: Position
    resume: Position | None
    held: Batch | None = None

    def read_history(self) -> str | None:
        """The definitions of tables over time up to now; None for connectors that need none."""
        file = Path(self.folder.name) / HISTORY
        return file.read_text(encoding="utf-8") if file.exists() else None

    def remove_folder(self) -> None:
        self.engine.stop_engine()
        self.folder.cleanup()


@dataclass
class _Open:
    """State of an open transport. `position` is that of the last batch, or the one that was opened at.

    `end` is where the log ended when the server was last asked, and when that was; None after reading came there.
    `asked` is when that was by a clock that never goes back. `lost` is why the connection was lost,
    until it is made anew.
    """

    server: SourceServer
    run: _Run
    position: Position
    end: tuple[Any, datetime] | None = None
    asked: float = -math.inf
    lost: SourceError | None = None

    def ask_end(self) -> None:
        """Asks where the log ends; a server that is away is noticed by reading."""
        self.asked = time.monotonic()
        with suppress(SourceError):
            now = datetime.now(timezone.utc)
            self.end = self.server.get_log_end(), now

    def get_caught_up(self) -> datetime | None:
        """Time at which the log's end was requested, once reading has reached it."""
        if self.end is None or not self.server.has_reached(self.position, self.end[0]):
            return None
        at, self.end = self.end[1], None
        return at


class DebeziumTransport:
    """Events of the tables of a connection: a snapshot where there is no position, then the stream.

    One order holds for all tables. A connection that is lost is made anew, unless not `reconnects`; events
    come again then in Debezium, and are left out here. Batches are taken by one thread; `acknowledge` and `close` may
    be called by others.
    """

    initial = INITIAL.text

    def __init__(
        self,
        connection: DebeziumConnection,
        thresholds: DebeziumThresholds = SHIPPED.debezium,
        reconnects: bool = True,
    ) -> None:
        self._connection = connection
        self._thresholds = thresholds
        self._reconnects = reconnects
        self._now: _Open | None = None
        self._is_loading = False
        self._closed = threading.Event()
        self._paused = threading.Event()
        self._receipts: dict[str, _Receipt] = {}
        self._tables: dict[int, tuple[str, SourceSchema]] = {}
        self._acknowledged_at = 0.0

    def list_catalog(self) -> list[CatalogTable]:
        server = self._connect_server()
        try:
            return server.list_catalog()
        finally:
            server.close_connection()

    def follow_tables(self, tables: Collection[str]) -> None:
        self._connection = self._connection.select_tables(tables)

    def check_source(self, position: str | None) -> None:
        server = self._connect_server()
        try:
            server.check_server(None if position is None else read_position(position))
        finally:
            server.close_connection()

    def begins_with_snapshot(self, position: str) -> bool:
        return read_position(position).is_snapshot

    def open_at(self, position: str) -> None:
        known = read_position(position)
        server = self._connect_server()
        self._closed.clear()
        try:
            server.prepare_server(known)
            if not self._is_loading:
                server.withdraw_tables()
            self._now = self._begin_at(server, known)
        except BaseException:
            server.close_connection()
            raise

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        now = self._require_open()
        end = now.server.get_log_end() if until_drained else None
        pause = self._thresholds.push_seconds if until_drained else self._thresholds.idle_seconds
        heard = reported = gathering = time.monotonic()
        pushed = 0.0 if until_drained else heard
        gathered: Batch | None = None
        while not (self._closed.is_set() or self._paused.is_set()):
            is_end = until_drained and now.server.has_reached(now.position, end)
            if gathered is not None and (is_end or self._is_full(gathered) or not self._can_grow(now, gathering)):
                yield gathered
                gathered = None
                continue
            if is_end:
                return
            if now.lost is not None:
                yield Batch((), now.position.text, 0, failure=str(now.lost))
                self._reconnect(now)
                heard = time.monotonic()
                continue
            records = self._take_records(now)
            if records is not None:
                heard = time.monotonic()
                for piece, position, receipt in self._split_records(now, records):
                    self._check_no_snapshot(now.position, position)
                    ends_snapshot = now.position.is_snapshot and not position.is_snapshot
                    now.position = position
                    is_due = now.server.has_reached(position, end) if until_drained else heard - reported > pause
                    if piece.count or ends_snapshot or is_due:
                        if receipt is not None:
                            self._receipts[piece.position] = receipt
                        reported = pushed = pushed if until_drained else heard
                        batch = replace(piece, caught_up=None if position.joining else now.get_caught_up())
                        gathering = gathering if gathered is not None else time.monotonic()
                        ready, gathered = gather_batches(gathered, batch, ends_snapshot)
                        yield from ready
                if now.end is None and time.monotonic() - now.asked > self._thresholds.idle_seconds:
                    now.ask_end()
                if self._is_joining(now):
                    yield from self._rejoin_stream(now, gathered)
                    gathered = None
            else:
                pushed = self._attend_server(now, until_drained, heard, pushed, pause)

    def _attend_server(self, now: _Open, until_drained: bool, heard: float, pushed: float, pause: float) -> float:
        """Has a server without events move its log's end, and notices one that is silent; when it last did the former.

        The times are those of the last events and of the last such message; `pause` lies between two messages.
        """
        if now.lost is not None:
            return pushed
        if time.monotonic() - pushed > (pause if now.run.held is None else self._thresholds.push_seconds):
            pushed = time.monotonic()
            now.ask_end()
            self._push_log_end(now, until_drained)
        elif self._is_silent(now, time.monotonic() - heard):
            self._drop_connection(now, now.server.explain_failure(None, "the server gave no sign of life"))
        return pushed

    def _can_grow(self, now: _Open, since: float) -> bool:
        """Whether more may join a batch that was begun then. A commit takes as long for the first rows as for many."""
        is_loading = now.position.is_snapshot and time.monotonic() - since < self._thresholds.gather_seconds
        return is_loading or now.run.engine.has_waiting

    def _is_full(self, batch: Batch) -> bool:
        return (
            sum(int(placed_events.events.nbytes) for placed_events in list_placed_events(batch))
            >= self._thresholds.batch_bytes
        )

    def _check_no_snapshot(self, before: Position, position: Position) -> None:
        """Raises SourceError if Debezium begins a snapshot in the middle of the stream, which would lose deletes."""
        if position.is_snapshot and not before.is_snapshot:
            raise SourceError(
                f"{self._connection.place}: Debezium did not go on after the position of the last commit, and began "
                "another snapshot; nothing of it was written.",
                fix=(
                    "run again; if it happens again, `arctic ingest --resync` reads the tables once more and writes "
                    "what differs"
                ),
            )

    def load_tables(self, tables: Collection[str], position: str) -> DebeziumLoad:
        server = self._connect_server()
        self._is_loading = True
        try:
            server.check_server(read_position(position))
            server.publish_tables(tables)
        finally:
            server.close_connection()
        often = replace(self._thresholds, idle_seconds=self._thresholds.push_seconds)
        load_connection = self._connection.for_load(tables)
        return DebeziumLoad(lambda: DebeziumTransport(load_connection, often, reconnects=False), self._thresholds)

    def join_tables(self, tables: Collection[str], position: str, end: Batch) -> str:
        self._connection = self._connection.with_tables(tables)
        self._is_loading = False
        if end.progress is None:
            return position
        known, at = read_position(position), read_position(end.progress)
        left = [replace(joining, tables=tuple(sorted({*joining.tables} - {*tables}))) for joining in known.joining]
        new = Joining(tuple(tables), at.offset, select_tables(at.history or "", tables))
        known = replace(known, joining=(*(joining for joining in left if joining.tables), new))
        return known.progress or known.text

    def pause_reading(self) -> None:
        self._paused.set()

    def read_load(self, finishing: threading.Event) -> Iterator[Batch]:
        """The snapshot of a transport that was just opened at the initial position, and the stream after it.

        The batch that ends the snapshot has as its position that of the rows among the events of all streams. Ends when
        all was read that was committed before `finishing` was set.
        """
        server, order = self._require_open().server, self._require_open().server.order
        end: Batch | None = None
        begin = rows = INITIAL
        until = server.get_log_end() if finishing.is_set() else None
        for batch in self.read_batches(until_drained=False):
            until = server.get_log_end() if until is None and finishing.is_set() else until
            if batch.is_snapshot:
                yield batch
                continue
            if end is None:
                end, begin = batch, read_position(batch.position)
                server.commit_marker()
            at = read_position(batch.position)
            if rows.is_snapshot:
                first = get_first_source(batch) if batch is not end and batch.count else None
                if first is None and not order.has_come_to(at, begin.offset):
                    continue
                rows = order.as_of(begin, first)
                yield replace(end, position=rows.text)
            if batch is end:
                at = rows
            else:
                # Until something is committed, the position is the begin, which other streams do not have.
                at = replace(at, offset=rows.offset) if at.offset == begin.offset else at
                yield replace(batch, position=at.text)
            if until is not None and server.has_reached(at, until):
                return

    def _is_joining(self, now: _Open) -> bool:
        """Whether the stream has come to the place from which on it has more tables."""
        joining = now.position.joining
        return (
            bool(joining)
            and not self._closed.is_set()
            and now.server.order.has_come_to(now.run.read, joining[0].offset)
        )

    def _rejoin_stream(self, now: _Open, gathered: Batch | None) -> Iterator[Batch]:
        """Goes back to that place. What was read after it comes again, with the events of the new tables among it.

        `gathered` is what was read up to now and not given yet.
        """
        if gathered is not None:
            yield gathered
        position = _with_joined(now.server, replace(now.position, history=now.run.read_history()))
        now.run.remove_folder()
        now.run, now.position, now.end = self._start_engine(now.server, position), position, None
        yield Batch((), position.text, 0, progress=position.progress, comes_again=True)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        known = read_position(position)
        if known.is_snapshot:
            return events
        start = events.start if isinstance(events, PlacedEvents) else None
        rows: pa.Table = events.events
        is_new = are_new(self._require_open().server.order, events.table, rows[PAYLOAD].to_pylist(), known, start)
        return events if all(is_new) else replace(events, events=rows.filter(pa.array(is_new, pa.bool_())))

    def acknowledge_batch(self, batch: Batch) -> None:
        if batch.position not in self._receipts:
            return
        engine, receipt = self._receipts[batch.position]
        for position in list(self._receipts):
            del self._receipts[position]
            if position == batch.position:
                break
        engine.acknowledge_receipt(receipt)
        self._acknowledged_at = time.monotonic()

    def close_source(self) -> None:
        self._closed.set()
        self._paused.clear()
        if self._now is None:
            return
        now, self._now = self._now, None
        # The engine passes on what was acknowledged when it polls next, and its close interrupts that.
        time.sleep(max(0.0, self._acknowledged_at + self._thresholds.flush_seconds - time.monotonic()))
        try:
            now.run.remove_folder()
        finally:
            now.server.close_connection()

    def _connect_server(self) -> SourceServer:
        """The server of the source; raises ConfigError if Debezium is not installed."""
        try:
            from arctic_runtime.ingest.transports.debezium.servers.database_kinds import connect_server
        except ImportError as error:
            raise ConfigError(
                f"connector {self._connection.connector} needs Debezium, which is not installed ({error}).",
                fix="pip install 'dbt-arctic[cdc]'",
            ) from error
        return connect_server(self._connection, self._thresholds)

    def _require_open(self) -> _Open:
        if self._now is None:
            raise SourceError(f"{self._connection.place}: the transport is not open")
        return self._now

    def _begin_at(self, server: SourceServer, position: Position) -> _Open:
        """Opens a position, or the place where tables join a stream that has nothing to read before."""
        connection = self._build_connection_at(position)
        while position.joining and (
            not connection.tables or server.order.has_come_to(position, position.joining[0].offset)
        ):
            position = _with_joined(server, position)
            connection = self._build_connection_at(position)
        return _Open(server, self._start_engine(server, position), position)

    def _build_connection_at(self, position: Position) -> DebeziumConnection:
        """The connection with the tables that the stream has at a position."""
        return self._connection.exclude_tables([table for joining in position.joining for table in joining.tables])

    def _start_engine(self, server: SourceServer, position: Position) -> _Run:
        """An engine that goes on after a position, or begins with a snapshot."""
        from arctic_runtime.ingest.transports.debezium.engine import Engine, write_offsets

        folder = tempfile.TemporaryDirectory(prefix="arctic-debezium-")
        inside = Path(folder.name)
        connection = self._build_connection_at(position)
        properties = build_engine_properties(connection, inside, self._thresholds, server.build_properties())
        # Java has one register of metrics for all engines, and an engine waits for a name that another still has.
        engine = Engine({**properties, "custom.metric.tags": f"run={next(_RUNS)}"}, self._thresholds)
        self._tables.clear()
        if not position.is_snapshot:
            write_offsets(inside / OFFSETS, self._connection.slot, position)
            if position.history is not None:
                (inside / HISTORY).write_text(position.history, encoding="utf-8")
        engine.start_engine()
        begun = replace(position, seen=None, history=None, joining=())
        return _Run(engine, folder, begun, None if position.seen is None else position)

    def _is_silent(self, now: _Open, seconds: float) -> bool:
        is_late = seconds > self._thresholds.silence_seconds
        return is_late and now.server.gives_signs_of_life and not now.run.read.is_snapshot

    def _push_log_end(self, now: _Open, must: bool) -> None:
        """Has the server mark the end of its log; while a server is away, reading notices that by itself."""
        try:
            now.server.push_log_end()
        except SourceError as error:
            if must and not isinstance(error, ConnectionLost):
                raise

    def _take_records(self, now: _Open) -> Records | None:
        from arctic_runtime.ingest.transports.debezium.engine import EngineEnded

        try:
            records = now.run.engine.take_records()
            for events in records.events if records is not None else ():
                if events.schema_id not in self._tables:
                    self._tables[events.schema_id] = self._read_schema(now, events)
            return records
        except EngineEnded as ended:
            self._drop_connection(now, now.server.explain_failure(ended.cause, str(ended)))
        except ConnectionLost as lost:  # where the server is asked about columns
            self._drop_connection(now, lost)
        return None

    def _drop_connection(self, now: _Open, error: SourceError) -> None:
        """Gives up a lost connection, which is to be made anew; raises other errors."""
        if now.position.is_snapshot or not self._reconnects or not isinstance(error, ConnectionLost):
            raise error
        LOG.warning("%s\nReading goes on when the server answers again.", error)
        now.run.remove_folder()
        now.end, now.lost = None, error

    def _reconnect(self, now: _Open) -> None:
        """Makes a lost connection anew, however long that takes within reason."""
        until = time.monotonic() + self._thresholds.reconnect_seconds
        while not self._closed.wait(self._thresholds.reconnect_poll_seconds):
            try:
                now.server.prepare_server(now.position)
                break
            except ConnectionLost:
                if time.monotonic() > until:
                    raise
        if not self._closed.is_set():
            now.run, now.lost = self._start_engine(now.server, now.position), None

    def _split_records(self, now: _Open, records: Records) -> Iterator[tuple[Batch, Position, _Receipt | None]]:
        """The batches that records make: those that end a snapshot and begin the stream make one of each."""
        start, order, receipt = now.run.read, now.server.order, (now.run.engine, records.receipt)
        events = [self._place_events(one, start) for one in records.events]
        if "snapshot" in records.offset:
            now.run.read = Position(records.partition, records.offset)
            yield build_batch(events, now.run.read), now.run.read, receipt
            return
        if start.is_snapshot:
            rows, events = split_snapshot_rows(events)
            start = Position(records.partition, now.server.get_stream_start(records.first))
            start = replace(start, history=now.run.read_history())
            yield build_batch([*rows, *self._build_empty_tables(now, start)], start), start, None
        last = {
            placed_events.table: newest_event
            for placed_events in events
            if (newest_event := find_newest(order, placed_events.events[PAYLOAD])) is not None
        }
        now.run.read = order.build_position(records.partition, records.offset, last, start)
        if now.run.resume is not None:
            events = [
                new
                for placed_events in events
                if (new := self._select_new(now, placed_events, now.run.resume)).events.num_rows
            ]
            if not events and not order.is_past(now.run.read, now.run.resume):
                return
            now.run.resume = None
        position = replace(now.run.read, history=now.run.read_history(), joining=now.position.joining)
        whole, position = self._take_whole_transactions(now, build_batch(events, position), position)
        yield whole, position, receipt

    def _take_whole_transactions(self, now: _Open, batch: Batch, position: Position) -> tuple[Batch, Position]:
        """Whole transactions among what was read up to a position, which ends with the last of them.

        The events of one of which more may come are held back, unless they are too many to wait for its end.
        """
        read = batch if now.run.held is None else join_batches(now.run.held, batch)
        now.run.held = None
        if position.seen is None:
            return read, position
        begin = replace(position, seen=None)
        whole, begun = divide_batch(now.server.order, read, begin)
        if self._is_full(begun):
            return self._take_part(now, read, position)
        now.run.held = begun
        return whole, begin

    def _take_part(self, now: _Open, read: Batch, position: Position) -> tuple[Batch, Position]:
        """The part of a transaction that was read. A delete at its end waits for the insert that may belong to it."""
        events, last = split_off_last_delete(read)
        if last is None:
            return read, position
        if not events:
            now.run.held = read
            return build_batch((), now.position), now.position
        order, offset = now.server.order, {**position.offset, "lsn": position.reached}
        ends = {
            placed_events.table: end
            for placed_events in events
            if (end := find_newest(order, placed_events.events[PAYLOAD])) is not None
        }
        before = order.build_position(position.partition, offset, ends, now.position)
        before = replace(before, history=position.history, joining=position.joining)
        now.run.held = build_batch([replace(last, start=before)], position)
        return build_batch(events, before), before

    def _select_new(self, now: _Open, placed_events: PlacedEvents, resume: Position) -> PlacedEvents:
        """The events that come after a position up to which all were read."""
        is_new = are_new(
            now.server.order,
            placed_events.table,
            placed_events.events[PAYLOAD].to_pylist(),
            resume,
            placed_events.start,
        )
        return replace(placed_events, events=placed_events.events.filter(pa.array(is_new, pa.bool_())), start=resume)

    def _place_events(self, events: SchemaEvents, start: Position) -> PlacedEvents:
        table, schema = self._tables[events.schema_id]
        places = events.places
        columns = {PAYLOAD: events.payload, ORIGIN: pa.nulls(len(places), pa.string()), ARRIVAL: places}
        return PlacedEvents(table, schema, pa.table(columns), start)

    def _build_empty_tables(self, now: _Open, start: Position) -> list[PlacedEvents]:
        """No events, with their schema, of each table of which a snapshot had none."""
        known = {table for table, _ in self._tables.values()}
        nothing = pa.table({PAYLOAD: pa.array([], pa.string()), ORIGIN: pa.array([], pa.string()), ARRIVAL: _NO_PLACES})
        empty_tables = []
        for table, record_schema in now.run.engine.list_tables().items():
            if table not in known:
                schema = build_source_schema(
                    table, json.loads(record_schema.value), json.loads(record_schema.key) if record_schema.key else None
                )
                empty_tables.append(PlacedEvents(table, schema, nothing, start))
        return empty_tables

    def _read_schema(self, now: _Open, events: SchemaEvents) -> tuple[str, SourceSchema]:
        """The table of events, and its columns. Truncations do not tell the primary key, so the server is asked."""
        source = json.loads(events.payload[0].as_py())["source"]
        schema = source.get("schema") or source["db"]
        table = f"{schema}.{source['table']}"
        key = json.loads(events.schema.key) if events.schema.key else None
        table_schema = build_source_schema(table, json.loads(events.schema.value), key)
        if events.schema.has_key is None:
            table_schema = replace(table_schema, key=now.server.get_primary_key(schema, source["table"]))
        columns = now.server.list_columns(schema, source["table"], table_schema.columns, now.run.read_history())
        return table, replace(table_schema, columns=columns)


def _with_joined(server: SourceServer, position: Position) -> Position:
    """The place at which the first of the joining tables join, with their definitions."""
    first, *others = position.joining
    place = server.order.as_of(Position(position.partition, first.offset), None)
    history = select_until(position.history or "", first.offset) + first.history
    return replace(place, history=history, joining=tuple(others))
