"""Loads tables by a second Debezium engine, alongside the engine of the stream."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.position import INITIAL, read_position
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost, SourceServer
from arctic_runtime.ingest.transports.debezium.stream.batches import build_unreadable, get_first_source
from arctic_runtime.ingest.transports.transport import Batch, TableEvents, UnreadableTables
from arctic_runtime.thresholds import DebeziumThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport

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
