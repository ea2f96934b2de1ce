"""Heartbeats of a stream: they advance the position of an idle stream, and determine when it has read everything."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer
from arctic_runtime.thresholds import DebeziumThresholds


class LogEnd:
    """The end of a server's log with the time at which it was requested; dropped when the stream has read up to it."""

    def __init__(self, server: SourceServer, thresholds: DebeziumThresholds) -> None:
        self._server = server
        self._idle_seconds = thresholds.idle_seconds
        self._end: tuple[Any, datetime] | None = None
        self._asked_at = -math.inf

    def request_end(self) -> None:
        """Requests and stores the current end of the server's log.

        Errors are ignored, since the reader of the stream notices an unavailable server.
        """
        self._asked_at = time.monotonic()
        with suppress(SourceError):
            now = datetime.now(timezone.utc)
            self._end = self._server.get_log_end(), now

    def request_if_due(self) -> None:
        """Requests the log's end again if the stream has reached the last one, at most every `idle_seconds`."""
        if self._end is None and time.monotonic() - self._asked_at > self._idle_seconds:
            self.request_end()

    def forget_end(self) -> None:
        self._end = None

    def take_caught_up(self, position: Position) -> datetime | None:
        """Returns the time of the last request if at `position` the stream has read up to the log end of that request.

        Otherwise returns None. Each time is returned only once.
        """
        if self._end is None or not self._server.has_reached(position, self._end[0]):
            return None
        at, self._end = self._end[1], None
        return at


class Heartbeat:
    """Times of one reader: of the server's last message, of the last returned batch, and of the last `push_log_end`.

    A reader that `is_draining` reads until the log's end. So it makes the server send its log's end at once and often,
    and returns no batches that only advance the position.
    """

    def __init__(self, thresholds: DebeziumThresholds, is_draining: bool) -> None:
        self.is_draining = is_draining
        self._push_seconds = thresholds.push_seconds
        self._pause = thresholds.push_seconds if is_draining else thresholds.idle_seconds
        self._has_heard = False
        self._heard_at = self._reported_at = time.monotonic()
        self._pushed_at = 0.0 if is_draining else self._heard_at

    def is_silent(self, thresholds: DebeziumThresholds) -> bool:
        """Whether the server's last message is too long ago; the first message after a start may take longer."""
        limit = thresholds.silence_seconds if self._has_heard else thresholds.start_seconds
        return time.monotonic() - self._heard_at > limit

    @property
    def is_batch_due(self) -> bool:
        """Whether it is time to return a batch that advances the position, even if it has no events."""
        return not self.is_draining and self._heard_at - self._reported_at > self._pause

    def is_push_due(self, is_holding: bool) -> bool:
        """Whether it is time to make the server send its log's end (`SourceServer.push_log_end`).

        This is more often if events wait for the end of their transaction (`is_holding`).
        """
        return time.monotonic() - self._pushed_at > (self._push_seconds if is_holding else self._pause)

    def note_server(self) -> None:
        """Stores the current time as that of the server's last message."""
        self._has_heard = True
        self._heard_at = time.monotonic()

    def note_start(self) -> None:
        """Stores the current time as that of a start of the reader."""
        self._has_heard = False
        self._heard_at = time.monotonic()

    def note_batch(self) -> None:
        """Stores the time of the server's last message as that of the last batch, so that the next batch is due later.

        Does nothing if the reader is draining.
        """
        if not self.is_draining:
            self._reported_at = self._pushed_at = self._heard_at

    def note_push(self) -> None:
        """Stores the current time as that of the last call of `SourceServer.push_log_end`."""
        self._pushed_at = time.monotonic()
