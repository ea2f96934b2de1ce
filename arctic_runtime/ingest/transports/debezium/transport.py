"""Reads and loads tables of a database by Debezium's engines in this process; all durable state is in the positions."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import explain_java_errors
from arctic_runtime.ingest.transports.debezium.position import INITIAL, read_position
from arctic_runtime.ingest.transports.debezium.servers import source_server
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost, SourceServer
from arctic_runtime.ingest.transports.debezium.stream.batches import (
    StreamEvents,
    build_unreadable,
    get_first_source,
    select_new_events,
)
from arctic_runtime.ingest.transports.debezium.stream.joining import add_joining
from arctic_runtime.ingest.transports.debezium.stream.reading import Reading, ReadingEvent
from arctic_runtime.ingest.transports.debezium.stream.stream import DebeziumStream, Receipts, StreamSettings
from arctic_runtime.ingest.transports.transport import Batch, CatalogTable, Probe, TableEvents, UnreadableTables
from arctic_runtime.thresholds import SHIPPED, DebeziumThresholds

LOG = logging.getLogger(__name__)


class DebeziumLoad:
    """A `TableLoad` of `tables` by a second engine.

    `reader` creates a transport that reads only these tables, without those that are its argument.
    That transport keeps no slot or other state at the server. If the connection is lost, the load starts again, since
    the server no longer knows the position of the snapshot. So it does without tables that turn out to be unreadable.
    """

    def __init__(
        self,
        reader: Callable[[Collection[str]], DebeziumTransport],
        tables: Collection[str],
        thresholds: DebeziumThresholds,
    ) -> None:
        self._reader = reader
        self._tables = frozenset(tables)
        self._unreadable: frozenset[str] = frozenset()
        self._thresholds = thresholds
        self._now: DebeziumTransport | None = None
        self._finishing = threading.Event()
        self._closed = threading.Event()

    def read_batches(self) -> Generator[Batch]:
        lost_at: float | None = None
        failure = ""
        while not self._closed.is_set():
            try:
                for batch in self._read():
                    lost_at = None
                    yield batch
                return
            except UnreadableTables as error:
                self._unreadable |= frozenset(error.reasons)
                yield _build_rewound_batch(error)
                if not self._tables - self._unreadable:
                    return
                continue
            except ConnectionLost as lost:
                lost_at = time.monotonic() if lost_at is None else lost_at
                is_late = time.monotonic() - lost_at > self._thresholds.reconnect_seconds
                if self._finishing.is_set() or is_late:
                    raise
                LOG.warning("%s\nThe load starts again when the server answers.", lost)
                failure = str(lost)
            self._closed.wait(self._thresholds.reconnect_poll_seconds)
            yield Batch((), INITIAL.text, 0, is_snapshot=True, is_rewound=True, failure=failure)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        return self._require_transport().select_after(events, position)

    def acknowledge_batch(self, batch: Batch) -> None:
        self._require_transport().acknowledge_batch(batch)

    def finish_load(self) -> None:
        self._finishing.set()

    def close_source(self) -> None:
        self._closed.set()
        if self._now is not None:
            self._now.close_source()

    def _read(self) -> Iterator[Batch]:
        self._now = reader = self._reader(self._unreadable)
        try:
            reader.open_at(INITIAL.text)
            if not self._closed.is_set():
                yield from read_load(reader.server, reader.read_batches(until_drained=False), self._finishing)
        finally:
            reader.close_source()

    def _require_transport(self) -> DebeziumTransport:
        if self._now is None:
            raise SourceError("the load has not begun")
        return self._now


def _build_rewound_batch(error: UnreadableTables) -> Batch:
    """Builds the batch that announces that a load starts again without the tables of `error`."""
    tables = tuple(build_unreadable(table, SourceError(reason)) for table, reason in error.reasons.items())
    return Batch(tables, INITIAL.text, 0, is_snapshot=True, is_rewound=True)


def read_load(server: SourceServer, batches: Iterator[Batch], finishing: threading.Event) -> Iterator[Batch]:
    """Yields the batches of a snapshot and then of its stream, from a transport opened at the initial position.

    The batch that ends the snapshot has the position of the loaded rows, comparable with positions of other streams.
    Ends when everything was read that was committed before `finishing` was set.
    """
    order = server.order
    end: Batch | None = None
    begin = rows = INITIAL
    until = server.get_log_end() if finishing.is_set() else None
    for batch in batches:
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
            rows = order.build_snapshot_position(begin, first)
            yield replace(end, position=rows.text)
        if batch is end:
            at = rows
        else:
            # Until something is committed, the position is the begin, which other streams do not have.
            at = replace(at, offset=rows.offset) if at.offset == begin.offset else at
            yield replace(batch, position=at.text)
        if until is not None and server.has_reached(at, until):
            return


class DebeziumTransport:
    """Reads the events of a connection's tables: a snapshot if there is no position yet, then the stream.

    The events of all tables are in one order. A lost connection is restored, unless `reconnects` is False. Debezium
    then sends events again, which are left out. Batches are read by one thread; `acknowledge_batch` and `close_source`
    may be called by others.
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
        self._stream: DebeziumStream | None = None
        self._reading = Reading()
        self._receipts = Receipts(thresholds.flush_seconds)

    @property
    def server(self) -> SourceServer:
        """The SourceServer of the open transport; raises SourceError if the transport is not open."""
        return self._require_stream().server

    def list_catalog(self) -> list[CatalogTable]:
        with self._ask_server() as server:
            return server.list_catalog()

    def estimate_rows(self, tables: Collection[str]) -> Mapping[str, int]:
        with self._ask_server() as server:
            estimates = server.estimate_rows()
        return {table: rows for table, rows in estimates.items() if table in tables and rows}

    def find_unsent(self, tables: Collection[str], streamed: Collection[str]) -> Mapping[str, SourceError | None]:
        with self._ask_server() as server:
            return server.find_unsent(tables, streamed)

    def find_unreadable(self, tables: Collection[str]) -> Mapping[str, str]:
        with self._ask_server() as server:
            return server.find_unreadable(tables)

    def follow_tables(self, tables: Collection[str]) -> None:
        self._connection = self._connection.select_tables(tables)
        if self._stream is not None:
            self._stream.connection = self._connection

    def check_source(self, position: str | None) -> None:
        with self._ask_server() as server:
            server.check_server(None if position is None else read_position(position))

    def begins_with_snapshot(self, position: str) -> bool:
        return read_position(position).is_snapshot

    def open_at(self, position: str) -> None:
        known = read_position(position)
        settings = StreamSettings(self._connection, self._thresholds, self._reconnects)
        with explain_java_errors(self._connection):
            server = self._connect_server()
            self._reading.apply_event(ReadingEvent.OPEN)
            try:
                server.prepare_server(known)
                if not self._reading.state.is_loading:
                    server.withdraw_tables()
                self._stream = DebeziumStream(settings, server, known, self._reading, self._receipts)
            except BaseException:
                server.close_connection()
                raise

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        stream = self._require_stream()
        with explain_java_errors(self._connection):
            yield from stream.read_batches(until_drained)

    def load_tables(self, tables: Collection[str], position: str) -> DebeziumLoad:
        with self._ask_server() as server:
            server.check_server(read_position(position))
            server.publish_tables(tables)
        self._reading.apply_event(ReadingEvent.LOAD)
        often = replace(self._thresholds, idle_seconds=self._thresholds.push_seconds)
        load_connection = self._connection.for_load(tables)

        def open_reader(unreadable: Collection[str]) -> DebeziumTransport:
            return DebeziumTransport(load_connection.exclude_tables(unreadable), often, reconnects=False)

        return DebeziumLoad(open_reader, tables, self._thresholds)

    def join_tables(self, tables: Collection[str], position: str, end: Batch) -> str:
        self._connection = self._connection.with_tables(tables)
        self._reading.apply_event(ReadingEvent.JOIN)
        if end.progress is None:
            return position
        joined = add_joining(read_position(position), tables, read_position(end.progress))
        return joined.progress or joined.text

    @property
    def probe_seconds(self) -> float:
        return self._thresholds.probe_seconds

    def open_probe(self) -> Probe:
        with explain_java_errors(self._connection), self._explain_missing_packages():
            from arctic_runtime.ingest.transports.debezium.probe import DebeziumProbe

            return DebeziumProbe(self._connection, self._thresholds)

    def pause_reading(self) -> None:
        self._reading.apply_event(ReadingEvent.PAUSE)

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        known = read_position(position)
        if known.is_snapshot:
            return events
        rows: pa.Table = events.events
        stream_events = events if isinstance(events, StreamEvents) else StreamEvents(events.table, events.schema, rows)
        return select_new_events(self.server.order, stream_events, known)

    def acknowledge_batch(self, batch: Batch) -> None:
        with explain_java_errors(self._connection):
            self._receipts.acknowledge_until(batch.position)

    def close_source(self) -> None:
        self._reading.apply_event(ReadingEvent.CLOSE)
        if self._stream is None:
            return
        stream, self._stream = self._stream, None
        self._receipts.wait_for_flush()
        with explain_java_errors(self._connection):
            stream.close_stream()

    @contextmanager
    def _ask_server(self) -> Iterator[SourceServer]:
        """Yields a separate connection to the server, which is closed at the end of the context."""
        with explain_java_errors(self._connection):
            server = self._connect_server()
            try:
                yield server
            finally:
                server.close_connection()

    def _connect_server(self) -> SourceServer:
        """Connects to the source's server; raises ConfigError if Debezium is not installed."""
        with self._explain_missing_packages():
            return source_server.connect_server(self._connection, self._thresholds)

    @contextmanager
    def _explain_missing_packages(self) -> Iterator[None]:
        """Raises ConfigError if an import in the context fails because Debezium is not installed."""
        try:
            yield
        except ImportError as error:
            raise ConfigError(
                f"connector {self._connection.connector} needs Debezium, which is not installed ({error}).",
                fix="pip install 'dbt-arctic[cdc]'",
            ) from error

    def _require_stream(self) -> DebeziumStream:
        if self._stream is None:
            raise SourceError(f"{self._connection.address}: the transport is not open")
        return self._stream
