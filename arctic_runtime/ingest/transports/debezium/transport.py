"""Reads change events of a database by Debezium's engine in this process; all durable state is in the positions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import explain_java_errors
from arctic_runtime.ingest.transports.debezium.load import DebeziumLoad
from arctic_runtime.ingest.transports.debezium.position import INITIAL, read_position
from arctic_runtime.ingest.transports.debezium.servers import server_classes
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer
from arctic_runtime.ingest.transports.debezium.stream.batches import StreamEvents, select_new_events
from arctic_runtime.ingest.transports.debezium.stream.joining import add_joining
from arctic_runtime.ingest.transports.debezium.stream.reading import Reading, ReadingEvent
from arctic_runtime.ingest.transports.debezium.stream.receipts import Receipts
from arctic_runtime.ingest.transports.debezium.stream.stream import DebeziumStream, StreamSettings
from arctic_runtime.ingest.transports.transport import Batch, CatalogTable, Probe, TableEvents
from arctic_runtime.thresholds import SHIPPED, DebeziumThresholds


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
            return server_classes.connect_server(self._connection, self._thresholds)

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
