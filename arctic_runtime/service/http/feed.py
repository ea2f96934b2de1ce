"""Event streams for clients: one thread waits for events on behalf of all clients, and each event is encoded once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from arctic_runtime.service.http.encoding import encode_json, format_utc
from arctic_runtime.service.view.event_log import Event, EventLog
from arctic_runtime.thresholds import HttpThresholds


class EventFeed:
    """Sends the events of a service's event log to clients as server-sent events.

    Call `open_feed` in the event loop that serves the streams; `close_streams` ends all of them.
    """

    def __init__(self, log: EventLog, thresholds: HttpThresholds) -> None:
        self._log = log
        self._thresholds = thresholds
        self._texts: dict[int, bytes] = {}
        self._is_closing = threading.Event()
        self._changed: asyncio.Event | None = None
        self.streams = 0
        """Number of clients that follow events at present."""

    def open_feed(self) -> None:
        """Starts the thread that waits for events."""
        self._changed = asyncio.Event()
        self._is_closing = threading.Event()
        arguments = (asyncio.get_running_loop(), self._is_closing)
        threading.Thread(target=self._watch_log, args=arguments, name="event-feed", daemon=True).start()

    def close_streams(self) -> None:
        """Ends all streams; can be called from any thread."""
        self._is_closing.set()

    async def follow_events(self, event_number: int) -> AsyncIterator[bytes]:
        """Yields the events with numbers above `event_number` as they happen, and heartbeat comments in between.

        Each item is one or several server-sent messages. If the log no longer has some of the events, an event `missed`
        with their count is sent first: the client then has to read the whole state again.
        """
        self.streams += 1
        is_closing = self._is_closing
        try:
            yield b"retry: 2000\n\n"
            while not is_closing.is_set():
                changed = self._changed
                events, missed = self._log.wait_after(event_number)
                if missed:
                    yield _format_message(
                        "missed", {"events": missed}, events[0].number - 1 if events else self._log.last
                    )
                if events:
                    event_number = events[-1].number
                    yield b"".join(self._encode_event(event) for event in events)
                elif not await self._wait_for_change(changed):
                    yield b": alive\n\n"
        finally:
            self.streams -= 1

    async def _wait_for_change(self, changed: asyncio.Event | None) -> bool:
        """Waits until `changed` is set, at most for the heartbeat interval; returns whether it was set."""
        assert changed is not None
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(changed.wait(), self._thresholds.heartbeat_seconds)
            return True
        return False

    def _encode_event(self, event: Event) -> bytes:
        """Encodes an event as a server-sent message; the newest messages are cached for other streams."""
        text = self._texts.get(event.number)
        if text is None:
            text = self._texts[event.number] = _format_message(
                event.kind, {"at": format_utc(event.at), "data": event.data}, event.number
            )
            while len(self._texts) > self._thresholds.encoded_events:
                del self._texts[next(iter(self._texts))]
        return text

    def _watch_log(self, loop: asyncio.AbstractEventLoop, is_closing: threading.Event) -> None:
        number = self._log.last
        while not is_closing.is_set():
            events, _ = self._log.wait_after(number, self._thresholds.event_wait_seconds)
            if events:
                number = events[-1].number
                with suppress(RuntimeError):  # The loop has ended.
                    loop.call_soon_threadsafe(self._wake_streams)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._wake_streams)

    def _wake_streams(self) -> None:
        """Wakes all waiting streams, and creates a new signal for later waits."""
        woken, self._changed = self._changed, asyncio.Event()
        if woken is not None:
            woken.set()


def _format_message(kind: str, data: Mapping[str, object], event_number: int) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event_number, kind.encode(), encode_json(data))
