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
from arctic_runtime.ingest.formats.connect_schema import source_schema
from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.debezium_connection import HISTORY, OFFSETS, DebeziumConnection, engine_properties
from arctic_runtime.ingest.transports.debezium_load import DebeziumLoad
from arctic_runtime.ingest.transports.debezium_position import (
    INITIAL,
    Joining,
    Position,
    read_position,
)
from arctic_runtime.ingest.transports.placed_events import (
    PlacedEvents,
    batch_of,
    divided,
    first_source,
    gathered_with,
    joined,
    of_snapshot,
    placed,
    without_last_delete,
)
from arctic_runtime.ingest.transports.replayed import are_new, newest
from arctic_runtime.ingest.transports.schema_history import of_tables, until
from arctic_runtime.ingest.transports.source_server import ConnectionLost
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, Batch, CatalogTable, TableEvents
from arctic_runtime.thresholds import SHIPPED, DebeziumThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium_engine import Engine, Receipt, Records, SchemaEvents
    from arctic_runtime.ingest.transports.source_server import SourceServer

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

    def history(self) -> str | None:
        """The definitions of tables over time up to now; None for connectors that need none."""
        file = Path(self.folder.name) / HISTORY
        return file.read_text(encoding="utf-8") if file.exists() else None

    def close(self) -> None:
        self.engine.close()
        self.folder.cleanup()


@dataclass
class _Open:
    """What there is while a transport is open. `position` is that of the last batch, or the one that was opened at.

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
            self.end = self.server.end(), now

    def caught_up(self) -> datetime | None:
        """When the log ended where it was asked for, once reading has come there."""
        if self.end is None or not self.server.reached(self.position, self.end[0]):
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

    def catalog(self) -> list[CatalogTable]:
        server = self._server()
        try:
            return server.catalog()
        finally:
            server.close()

    def follow(self, tables: Collection[str]) -> None:
        self._connection = self._connection.of_tables(tables)

    def check(self, position: str | None) -> None:
        server = self._server()
        try:
            server.check(None if position is None else read_position(position))
        finally:
            server.close()

    def snapshots(self, position: str) -> bool:
        return read_position(position).is_snapshot

    def open(self, position: str) -> None:
        known = read_position(position)
        server = self._server()
        self._closed.clear()
        try:
            server.prepare(known)
            if not self._is_loading:
                server.withdraw()
            self._now = self._begun(server, known)
        except BaseException:
            server.close()
            raise

    def batches(self, until_drained: bool) -> Iterator[Batch]:
        now = self._opened()
        end = now.server.end() if until_drained else None
        pause = self._thresholds.push_seconds if until_drained else self._thresholds.idle_seconds
        heard = told = gathering = time.monotonic()
        pushed = 0.0 if until_drained else heard
        gathered: Batch | None = None
        while not (self._closed.is_set() or self._paused.is_set()):
            is_end = until_drained and now.server.reached(now.position, end)
            if gathered is not None and (is_end or self._is_full(gathered) or not self._may_grow(now, gathering)):
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
            records = self._taken(now)
            if records is not None:
                heard = time.monotonic()
                for piece, position, receipt in self._batches(now, records):
                    self._check_no_snapshot(now.position, position)
                    ends_snapshot = now.position.is_snapshot and not position.is_snapshot
                    now.position = position
                    is_due = now.server.reached(position, end) if until_drained else heard - told > pause
                    if piece.count or ends_snapshot or is_due:
                        if receipt is not None:
                            self._receipts[piece.position] = receipt
                        told = pushed = pushed if until_drained else heard
                        batch = replace(piece, caught_up=None if position.joining else now.caught_up())
                        gathering = gathering if gathered is not None else time.monotonic()
                        ready, gathered = gathered_with(gathered, batch, ends_snapshot)
                        yield from ready
                if now.end is None and time.monotonic() - now.asked > self._thresholds.idle_seconds:
                    now.ask_end()
                if self._is_joining(now):
                    yield from self._rejoined(now, gathered)
                    gathered = None
            else:
                pushed = self._attend(now, until_drained, heard, pushed, pause)

    def _attend(self, now: _Open, until_drained: bool, heard: float, pushed: float, pause: float) -> float:
        """Has a server without events move its log's end, and notices one that is silent; when it last did the former.

        The times are those of the last events and of the last such message; `pause` lies between two messages.
        """
        if now.lost is not None:
            return pushed
        if time.monotonic() - pushed > (pause if now.run.held is None else self._thresholds.push_seconds):
            pushed = time.monotonic()
            now.ask_end()
            self._push(now, until_drained)
        elif self._is_silent(now, time.monotonic() - heard):
            self._lose(now, now.server.failure(None, "the server gave no sign of life"))
        return pushed

    def _may_grow(self, now: _Open, since: float) -> bool:
        """Whether more may join a batch that was begun then. A commit takes as long for the first rows as for many."""
        is_loading = now.position.is_snapshot and time.monotonic() - since < self._thresholds.gather_seconds
        return is_loading or now.run.engine.has_waiting

    def _is_full(self, batch: Batch) -> bool:
        return sum(int(of.events.nbytes) for of in placed(batch)) >= self._thresholds.batch_bytes

    def _check_no_snapshot(self, before: Position, position: Position) -> None:
        """Raises SourceError where Debezium begins a snapshot in the middle of the stream, which would lose deletes."""
        if position.is_snapshot and not before.is_snapshot:
            raise SourceError(
                f"{self._connection.place}: Debezium did not go on after the position of the last commit, and began "
                "another snapshot; nothing of it was written.\n  what to do: run again; if it happens again, "
                "`arctic ingest --resync` reads the tables once more and writes what differs"
            )

    def load(self, tables: Collection[str], position: str) -> DebeziumLoad:
        server = self._server()
        self._is_loading = True
        try:
            server.check(read_position(position))
            server.publish(tables)
        finally:
            server.close()
        often = replace(self._thresholds, idle_seconds=self._thresholds.push_seconds)
        beside = self._connection.beside(tables)
        return DebeziumLoad(lambda: DebeziumTransport(beside, often, reconnects=False), self._thresholds)

    def join(self, tables: Collection[str], position: str, end: Batch) -> str:
        self._connection = self._connection.with_tables(tables)
        self._is_loading = False
        if end.progress is None:
            return position
        known, at = read_position(position), read_position(end.progress)
        left = [replace(of, tables=tuple(sorted({*of.tables} - {*tables}))) for of in known.joining]
        new = Joining(tuple(tables), at.offset, of_tables(at.history or "", tables))
        known = replace(known, joining=(*(of for of in left if of.tables), new))
        return known.progress or known.text

    def pause(self) -> None:
        self._paused.set()

    def loading(self, finishing: threading.Event) -> Iterator[Batch]:
        """The snapshot of a transport that was just opened at the initial position, and the stream after it.

        The batch that ends the snapshot has as its position that of the rows among the events of all streams. Ends when
        all was read that was committed before `finishing` was set.
        """
        server, order = self._opened().server, self._opened().server.order
        end: Batch | None = None
        begin = rows = INITIAL
        until = server.end() if finishing.is_set() else None
        for batch in self.batches(until_drained=False):
            until = server.end() if until is None and finishing.is_set() else until
            if batch.is_snapshot:
                yield batch
                continue
            if end is None:
                end, begin = batch, read_position(batch.position)
                server.mark()
            at = read_position(batch.position)
            if rows.is_snapshot:
                first = first_source(batch) if batch is not end and batch.count else None
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
            if until is not None and server.reached(at, until):
                return

    def _is_joining(self, now: _Open) -> bool:
        """Whether the stream has come to the place from which on it has more tables."""
        joining = now.position.joining
        return (
            bool(joining)
            and not self._closed.is_set()
            and now.server.order.has_come_to(now.run.read, joining[0].offset)
        )

    def _rejoined(self, now: _Open, gathered: Batch | None) -> Iterator[Batch]:
        """Goes back to that place. What was read after it comes again, with the events of the new tables among it.

        `gathered` is what was read up to now and not given yet.
        """
        if gathered is not None:
            yield gathered
        position = _with_joined(now.server, replace(now.position, history=now.run.history()))
        now.run.close()
        now.run, now.position, now.end = self._started(now.server, position), position, None
        yield Batch((), position.text, 0, progress=position.progress, comes_again=True)

    def after(self, events: TableEvents, position: str) -> TableEvents:
        known = read_position(position)
        if known.is_snapshot:
            return events
        start = events.start if isinstance(events, PlacedEvents) else None
        rows: pa.Table = events.events
        kept = are_new(self._opened().server.order, events.table, rows[PAYLOAD].to_pylist(), known, start)
        return events if all(kept) else replace(events, events=rows.filter(pa.array(kept, pa.bool_())))

    def acknowledge(self, batch: Batch) -> None:
        if batch.position not in self._receipts:
            return
        engine, receipt = self._receipts[batch.position]
        for position in list(self._receipts):
            del self._receipts[position]
            if position == batch.position:
                break
        engine.acknowledge(receipt)
        self._acknowledged_at = time.monotonic()

    def close(self) -> None:
        self._closed.set()
        self._paused.clear()
        if self._now is None:
            return
        now, self._now = self._now, None
        # The engine passes on what was acknowledged when it polls next, and its close interrupts that.
        time.sleep(max(0.0, self._acknowledged_at + self._thresholds.flush_seconds - time.monotonic()))
        try:
            now.run.close()
        finally:
            now.server.close()

    def _server(self) -> SourceServer:
        """The server of the source; raises ConfigError where Debezium is not installed."""
        try:
            from arctic_runtime.ingest.transports.databases import server
        except ImportError as error:
            raise ConfigError(
                f"connector {self._connection.connector} needs Debezium, which is not installed ({error}).\n"
                "  what to do: pip install 'dbt-arctic[cdc]'"
            ) from error
        return server(self._connection, self._thresholds)

    def _opened(self) -> _Open:
        if self._now is None:
            raise SourceError(f"{self._connection.place}: the transport is not open")
        return self._now

    def _begun(self, server: SourceServer, position: Position) -> _Open:
        """What is open at a position, or where tables join the stream that would have nothing to read before."""
        connection = self._connection_at(position)
        while position.joining and (
            not connection.tables or server.order.has_come_to(position, position.joining[0].offset)
        ):
            position = _with_joined(server, position)
            connection = self._connection_at(position)
        return _Open(server, self._started(server, position), position)

    def _connection_at(self, position: Position) -> DebeziumConnection:
        """The connection with the tables that the stream has at a position."""
        return self._connection.without_tables([table for of in position.joining for table in of.tables])

    def _started(self, server: SourceServer, position: Position) -> _Run:
        """An engine that goes on after a position, or begins with a snapshot."""
        from arctic_runtime.ingest.transports.debezium_engine import Engine, write_offsets

        folder = tempfile.TemporaryDirectory(prefix="arctic-debezium-")
        inside = Path(folder.name)
        connection = self._connection_at(position)
        properties = engine_properties(connection, inside, self._thresholds, server.properties())
        # Java has one register of metrics for all engines, and an engine waits for a name that another still has.
        engine = Engine({**properties, "custom.metric.tags": f"run={next(_RUNS)}"}, self._thresholds)
        self._tables.clear()
        if not position.is_snapshot:
            write_offsets(inside / OFFSETS, self._connection.slot, position)
            if position.history is not None:
                (inside / HISTORY).write_text(position.history, encoding="utf-8")
        engine.start()
        begun = replace(position, seen=None, history=None, joining=())
        return _Run(engine, folder, begun, None if position.seen is None else position)

    def _is_silent(self, now: _Open, seconds: float) -> bool:
        is_late = seconds > self._thresholds.silence_seconds
        return is_late and now.server.gives_signs_of_life and not now.run.read.is_snapshot

    def _push(self, now: _Open, must: bool) -> None:
        """Has the server mark the end of its log; while a server is away, reading notices that by itself."""
        try:
            now.server.push()
        except SourceError as error:
            if must and not isinstance(error, ConnectionLost):
                raise

    def _taken(self, now: _Open) -> Records | None:
        from arctic_runtime.ingest.transports.debezium_engine import EngineEnded

        try:
            records = now.run.engine.take()
            for events in records.events if records is not None else ():
                if events.schema_id not in self._tables:
                    self._tables[events.schema_id] = self._read(now, events)
            return records
        except EngineEnded as ended:
            self._lose(now, now.server.failure(ended.cause, str(ended)))
        except ConnectionLost as lost:  # where the server is asked about columns
            self._lose(now, lost)
        return None

    def _lose(self, now: _Open, error: SourceError) -> None:
        """Gives up a lost connection, which is to be made anew; raises other errors."""
        if now.position.is_snapshot or not self._reconnects or not isinstance(error, ConnectionLost):
            raise error
        LOG.warning("%s\nReading goes on when the server answers again.", error)
        now.run.close()
        now.end, now.lost = None, error

    def _reconnect(self, now: _Open) -> None:
        """Makes a lost connection anew, however long that takes within reason."""
        until = time.monotonic() + self._thresholds.reconnect_seconds
        while not self._closed.wait(self._thresholds.reconnect_poll_seconds):
            try:
                now.server.prepare(now.position)
                break
            except ConnectionLost:
                if time.monotonic() > until:
                    raise
        if not self._closed.is_set():
            now.run, now.lost = self._started(now.server, now.position), None

    def _batches(self, now: _Open, records: Records) -> Iterator[tuple[Batch, Position, _Receipt | None]]:
        """The batches that records make: those that end a snapshot and begin the stream make one of each."""
        start, order, receipt = now.run.read, now.server.order, (now.run.engine, records.receipt)
        events = [self._events(one, start) for one in records.events]
        if "snapshot" in records.offset:
            now.run.read = Position(records.partition, records.offset)
            yield batch_of(events, now.run.read), now.run.read, receipt
            return
        if start.is_snapshot:
            rows, events = of_snapshot(events)
            start = Position(records.partition, now.server.begin(records.first))
            start = replace(start, history=now.run.history())
            yield batch_of([*rows, *self._without_rows(now, start)], start), start, None
        last = {of.table: found for of in events if (found := newest(order, of.events[PAYLOAD])) is not None}
        now.run.read = order.position(records.partition, records.offset, last, start)
        if now.run.resume is not None:
            events = [new for of in events if (new := self._new(now, of, now.run.resume)).events.num_rows]
            if not events and not order.is_past(now.run.read, now.run.resume):
                return
            now.run.resume = None
        position = replace(now.run.read, history=now.run.history(), joining=now.position.joining)
        whole, position = self._whole(now, batch_of(events, position), position)
        yield whole, position, receipt

    def _whole(self, now: _Open, batch: Batch, position: Position) -> tuple[Batch, Position]:
        """Whole transactions among what was read up to a position, which ends with the last of them.

        The events of one of which more may come are held back, unless they are too many to wait for its end.
        """
        read = batch if now.run.held is None else joined(now.run.held, batch)
        now.run.held = None
        if position.seen is None:
            return read, position
        begin = replace(position, seen=None)
        whole, begun = divided(now.server.order, read, begin)
        if self._is_full(begun):
            return self._part(now, read, position)
        now.run.held = begun
        return whole, begin

    def _part(self, now: _Open, read: Batch, position: Position) -> tuple[Batch, Position]:
        """The part of a transaction that was read. A delete at its end waits for the insert that may belong to it."""
        events, last = without_last_delete(read)
        if last is None:
            return read, position
        if not events:
            now.run.held = read
            return batch_of((), now.position), now.position
        order, offset = now.server.order, {**position.offset, "lsn": position.reached}
        ends = {of.table: end for of in events if (end := newest(order, of.events[PAYLOAD])) is not None}
        before = order.position(position.partition, offset, ends, now.position)
        before = replace(before, history=position.history, joining=position.joining)
        now.run.held = batch_of([replace(last, start=before)], position)
        return batch_of(events, before), before

    def _new(self, now: _Open, of: PlacedEvents, resume: Position) -> PlacedEvents:
        """The events that come after a position up to which all were read."""
        kept = are_new(now.server.order, of.table, of.events[PAYLOAD].to_pylist(), resume, of.start)
        return replace(of, events=of.events.filter(pa.array(kept, pa.bool_())), start=resume)

    def _events(self, events: SchemaEvents, start: Position) -> PlacedEvents:
        table, schema = self._tables[events.schema_id]
        places = events.places
        columns = {PAYLOAD: events.payload, ORIGIN: pa.nulls(len(places), pa.string()), ARRIVAL: places}
        return PlacedEvents(table, schema, pa.table(columns), start)

    def _without_rows(self, now: _Open, start: Position) -> list[PlacedEvents]:
        """No events, with their schema, of each table of which a snapshot had none."""
        known = {table for table, _ in self._tables.values()}
        nothing = pa.table({PAYLOAD: pa.array([], pa.string()), ORIGIN: pa.array([], pa.string()), ARRIVAL: _NO_PLACES})
        found = []
        for table, of in now.run.engine.tables().items():
            if table not in known:
                schema = source_schema(table, json.loads(of.value), json.loads(of.key) if of.key else None)
                found.append(PlacedEvents(table, schema, nothing, start))
        return found

    def _read(self, now: _Open, events: SchemaEvents) -> tuple[str, SourceSchema]:
        """The table of events, and its columns. Truncations do not tell the primary key, so the server is asked."""
        source = json.loads(events.payload[0].as_py())["source"]
        schema = source.get("schema") or source["db"]
        table = f"{schema}.{source['table']}"
        key = json.loads(events.schema.key) if events.schema.key else None
        found = source_schema(table, json.loads(events.schema.value), key)
        if events.schema.has_key is None:
            found = replace(found, key=now.server.primary_key(schema, source["table"]))
        columns = now.server.columns(schema, source["table"], found.columns, now.run.history())
        return table, replace(found, columns=columns)


def _with_joined(server: SourceServer, position: Position) -> Position:
    """The place at which the first of the joining tables join, with their definitions."""
    first, *others = position.joining
    place = server.order.as_of(Position(position.partition, first.offset), None)
    history = until(position.history or "", first.offset) + first.history
    return replace(place, history=history, joining=tuple(others))
