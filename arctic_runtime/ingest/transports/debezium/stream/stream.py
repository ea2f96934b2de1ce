"""An open stream of a database: returns and acknowledges the batches of its engine's runs, and reconnects if lost."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import find_unreadable_table
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost, SourceServer
from arctic_runtime.ingest.transports.debezium.stream.batches import GatheredBatch, count_bytes
from arctic_runtime.ingest.transports.debezium.stream.heartbeat import Heartbeat, LogEnd
from arctic_runtime.ingest.transports.debezium.stream.joining import join_due_tables, join_first_tables
from arctic_runtime.ingest.transports.debezium.stream.reading import Reading
from arctic_runtime.ingest.transports.debezium.stream.run import EngineRun, start_run
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.thresholds import DebeziumThresholds

if TYPE_CHECKING:
    from arctic_runtime.ingest.transports.debezium.engine import EmbeddedEngine, Receipt, Records


class Receipts:
    """The receipts of batches that are not acknowledged yet, by the batch's position, in the order of the stream."""

    def __init__(self, flush_seconds: float) -> None:
        self._flush_seconds = flush_seconds
        self._receipts: dict[str, tuple[EmbeddedEngine, Receipt]] = {}
        self._acknowledged_at = 0.0

    def add_receipt(self, position: str, engine: EmbeddedEngine, receipt: Receipt) -> None:
        self._receipts[position] = engine, receipt

    def acknowledge_until(self, position: str) -> None:
        """Acknowledges the batch at `position` and all earlier ones; does nothing if no batch has that position."""
        if position not in self._receipts:
            return
        engine, receipt = self._receipts[position]
        for earlier in list(self._receipts):
            del self._receipts[earlier]
            if earlier == position:
                break
        engine.acknowledge_receipt(receipt)
        self._acknowledged_at = time.monotonic()

    def wait_for_flush(self) -> None:
        """Waits until the engine has sent the last acknowledgement to the source, which it does at its next poll."""
        time.sleep(max(0.0, self._acknowledged_at + self._flush_seconds - time.monotonic()))


LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamSettings:
    """The connection of a stream, and its time and size limits.

    If `reconnects` is False, a lost connection is an error.
    """

    connection: DebeziumConnection
    thresholds: DebeziumThresholds
    reconnects: bool = True


class DebeziumStream:
    """Reads batches after a position, with a new engine after each lost connection; used by one thread.

    `connection` has the tables of the next engine. `_lost` is the error of a lost connection, None unless the
    connection is lost.
    """

    def __init__(
        self,
        settings: StreamSettings,
        server: SourceServer,
        position: Position,
        reading: Reading,
        receipts: Receipts,
    ) -> None:
        self.server = server
        self.connection = settings.connection
        self._thresholds = settings.thresholds
        self._reconnects = settings.reconnects
        self._reading = reading
        self._receipts = receipts
        self._log_end = LogEnd(server, settings.thresholds)
        self._lost: SourceError | None = None
        self._run = self._start_run(join_due_tables(server, self.connection, position))

    @property
    def position(self) -> Position:
        """The position of the last batch, or the one at which the stream was opened."""
        return self._run.position

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        end = self.server.get_log_end() if until_drained else None
        heartbeat, gathered = Heartbeat(self._thresholds, until_drained), GatheredBatch()
        while self._reading.state.is_reading:
            is_end = until_drained and self.server.has_reached(self.position, end)
            if gathered.batch is not None and (is_end or not self._can_grow(gathered)):
                yield from gathered.take_batches()
            elif is_end:
                return
            elif self._lost is not None:
                yield Batch((), self.position.text, 0, failure=str(self._lost))
                self._reconnect()
                heartbeat.note_start()
            elif (records := self._take_records()) is None:
                self._attend_server(heartbeat)
            else:
                heartbeat.note_server()
                yield from self._read_records(records, gathered, heartbeat, end)
                self._log_end.request_if_due()
                if self._is_joining():
                    yield from gathered.take_batches()
                    yield self._rejoin_stream()

    def close_stream(self) -> None:
        try:
            self._run.end_run()
        finally:
            self.server.close_connection()

    def _read_records(
        self, records: Records, gathered: GatheredBatch, heartbeat: Heartbeat, end: Any
    ) -> Iterator[Batch]:
        """Adds the batches of `records` to `gathered`.

        Yields the batch that ends a snapshot on its own, after the gathered one. A batch without events is added only
        if one is due, or if a reader that drains the source has reached `end`.
        """
        self._check_no_snapshot(records)
        for piece in self._run.split_records(records):
            position, batch = self.position, piece.batch
            is_due = self.server.has_reached(position, end) if heartbeat.is_draining else heartbeat.is_batch_due
            if not (batch.count or piece.ends_snapshot or is_due):
                continue
            if piece.receipt is not None:
                self._receipts.add_receipt(batch.position, self._run.engine, piece.receipt)
            heartbeat.note_batch()
            if not position.joining:
                batch = replace(batch, caught_up=self._log_end.take_caught_up(position))
            if piece.ends_snapshot:
                yield from gathered.take_batches()
                yield batch
            else:
                gathered.add_batch(batch)

    def _check_no_snapshot(self, records: Records) -> None:
        """Raises SourceError if Debezium begins a snapshot after the stream has begun, which would lose deletes."""
        if "snapshot" in records.offset and not self.position.is_snapshot:
            raise SourceError(
                f"{self.connection.address}: Debezium did not go on after the position of the last commit, and began "
                "another snapshot; nothing of it was written.",
                fix=(
                    "run again; if it happens again, `arctic ingest --resync` reads the tables once more and writes "
                    "what differs"
                ),
            )

    def _can_grow(self, gathered: GatheredBatch) -> bool:
        """Whether to wait for more events before the gathered batch is returned.

        One commit of a large batch costs less than many small ones.
        """
        if gathered.batch is None or count_bytes(gathered.batch) >= self._thresholds.batch_bytes:
            return False
        is_loading = self.position.is_snapshot and gathered.age_seconds < self._thresholds.gather_seconds
        return is_loading or self._run.engine.has_waiting

    def _attend_server(self, heartbeat: Heartbeat) -> None:
        """Makes an idle server send its log's end if that is due.

        Drops the connection to a server that is silent for too long.
        """
        if self._lost is not None:
            return
        if self._is_silent(heartbeat):
            self._drop_connection(self.server.explain_failure(None, "the server gave no sign of life"))
        elif heartbeat.is_push_due(self._run.is_holding):
            heartbeat.note_push()
            self._log_end.request_end()
            self._push_log_end(heartbeat.is_draining)

    def _push_log_end(self, must: bool) -> None:
        """Makes the server send its log's end to the stream; raises an error only with `must`.

        A lost connection is always ignored, since the reader of the stream notices it.
        """
        try:
            self.server.push_log_end()
        except SourceError as error:
            if must and not isinstance(error, ConnectionLost):
                raise

    def _is_silent(self, heartbeat: Heartbeat) -> bool:
        can_tell = self.server.gives_signs_of_life and not self._run.read.is_snapshot
        return can_tell and heartbeat.is_silent(self._thresholds)

    def _take_records(self) -> Records | None:
        from arctic_runtime.ingest.transports.debezium.engine import EngineEnded

        try:
            return self._run.take_records()
        except EngineEnded as ended:
            unreadable = find_unreadable_table(self.connection, ended.cause)
            self._drop_connection(unreadable or self.server.explain_failure(ended.cause, str(ended)))
        except ConnectionLost as lost:  # if the server was asked for columns
            self._drop_connection(lost)
        return None

    def _drop_connection(self, error: SourceError) -> None:
        """Notes a lost connection, which `_reconnect` restores after it was reported; raises any other error.

        A lost connection is raised too if the stream does not reconnect, or during a snapshot.
        """
        if self.position.is_snapshot or not self._reconnects or not isinstance(error, ConnectionLost):
            raise error
        LOG.warning("%s\nReading goes on when the server answers again.", error)
        self._log_end.forget_end()
        self._lost = error

    def _reconnect(self) -> None:
        """Stops the engine and restores the connection; retries until a time limit, then raises ConnectionLost."""
        self._run.end_run()
        until = time.monotonic() + self._thresholds.reconnect_seconds
        while not self._reading.wait_for_close(self._thresholds.reconnect_poll_seconds):
            try:
                self.server.prepare_server(self.position)
                break
            except ConnectionLost:
                if time.monotonic() > until:
                    raise
        if self._reading.state.is_open:
            self._replace_run(self.position)

    def _is_joining(self) -> bool:
        """Whether the stream has reached the position from which it reads loaded tables too (`Position.joining`)."""
        joining = self.position.joining
        return (
            bool(joining)
            and self._reading.state.is_open
            and self.server.order.has_come_to(self._run.read, joining[0].offset)
        )

    def _rejoin_stream(self) -> Batch:
        """Restarts the stream at the position of the first joining tables, with these tables.

        Events after that position are read again. Returns an empty batch that announces this (`is_rewound`).
        """
        position = join_first_tables(self.server, replace(self.position, history=self._run.read_history()))
        self._run.end_run()
        self._replace_run(position)
        self._log_end.forget_end()
        return Batch((), position.text, 0, progress=position.progress, is_rewound=True)

    def _replace_run(self, position: Position) -> None:
        """Starts the next run, and ends it at once if the stream was closed meanwhile by another thread."""
        self._run, self._lost = self._start_run(position), None
        if not self._reading.state.is_open:
            self._run.end_run()

    def _start_run(self, position: Position) -> EngineRun:
        return start_run(self.connection, self._thresholds, self.server, position)
