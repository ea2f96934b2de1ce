"""Heartbeats of a stream: they advance the position of an idle stream, and find when it has caught up."""

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
    """The end of a server's log when it was last requested; it is dropped when reading has reached it."""

    def __init__(self, server: SourceServer, thresholds: DebeziumThresholds) -> None:
        self._server = server
        self._idle_seconds = thresholds.idle_seconds
        self._end: tuple[Any, datetime] | None = None
        self._asked_at = -math.inf

    def request_end(self) -> None:
        """Requests the current end of the log; errors are ignored, since reading notices an unavailable server."""
        self._asked_at = time.monotonic()
        with suppress(SourceError):
            now = datetime.now(timezone.utc)
            self._end = self._server.get_log_end(), now

    def request_if_due(self) -> None:
        """Requests the end again, some time after reading has reached the last one."""
        if self._end is None and time.monotonic() - self._asked_at > self._idle_seconds:
            self.request_end()

    def forget_end(self) -> None:
        self._end = None

    def take_caught_up(self, position: Position) -> datetime | None:
        """Returns the time at which the log's end was requested, if `position` has reached this end; else None.

        Each time is returned only once.
        """
        if self._end is None or not self._server.has_reached(position, self._end[0]):
            return None
        at, self._end = self._end[1], None
        return at


class Heartbeat:
    """The timing of one reader: when events last arrived, a batch was returned, and the log's end was pushed.

    A reader that `is_draining` waits for the end, so it pushes the log's end at once and often, and returns no idle
    batches.
    """

    def __init__(self, thresholds: DebeziumThresholds, is_draining: bool) -> None:
        self.is_draining = is_draining
        self._push_seconds = thresholds.push_seconds
        self._pause = thresholds.push_seconds if is_draining else thresholds.idle_seconds
        self._heard_at = self._reported_at = time.monotonic()
        self._pushed_at = 0.0 if is_draining else self._heard_at

    @property
    def silent_seconds(self) -> float:
        """Seconds since something was last received from the server."""
        return time.monotonic() - self._heard_at

    @property
    def is_batch_due(self) -> bool:
        """Whether a batch is due that advances the position, with or without events."""
        return not self.is_draining and self._heard_at - self._reported_at > self._pause

    def is_push_due(self, is_holding: bool) -> bool:
        """Whether the log's end is to be pushed; sooner if the end of a transaction is awaited (`is_holding`)."""
        return time.monotonic() - self._pushed_at > (self._push_seconds if is_holding else self._pause)

    def note_server(self) -> None:
        """Records that something was just received from the server."""
        self._heard_at = time.monotonic()

    def note_batch(self) -> None:
        """Records that a batch was made from the data that was last received."""
        if not self.is_draining:
            self._reported_at = self._pushed_at = self._heard_at

    def note_push(self) -> None:
        """Records that the log's end is pushed now."""
        self._pushed_at = time.monotonic()
