"""Limits the time in which the head of an HTTP request has to arrive; later, the connection is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


def build_limited_protocol(head_seconds: float) -> type[asyncio.Protocol]:
    """Builds a protocol class for uvicorn that closes a connection whose request head takes over `head_seconds`.

    Without this limit, uvicorn waits forever for the rest of a head that has begun.
    """

    class LimitedProtocol(H11Protocol):
        _drop: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._limit()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._unlimit()
            elif self._drop is None and self.conn.trailing_data[0]:
                self._limit()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unlimit()
            super().connection_lost(exc)

        def _limit(self) -> None:
            self._drop = self.loop.call_later(head_seconds, self.transport.close)

        def _unlimit(self) -> None:
            if self._drop is not None:
                self._drop.cancel()
                self._drop = None

    return LimitedProtocol
