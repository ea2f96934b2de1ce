"""Events for clients that follow them: one thread waits for all, and each event is encoded once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from arctic_runtime.service.event_log import Event, EventLog
from arctic_runtime.service.http.encoding import encoded, in_utc
from arctic_runtime.thresholds import HttpThresholds


class EventFeed:
    """Server-sent events of a log; `open` in the loop that serves them, and `close` ends all streams."""

    def __init__(self, log: EventLog, thresholds: HttpThresholds) -> None:
        self._log = log
        self._thresholds = thresholds
        self._texts: dict[int, bytes] = {}
        self._is_closing = threading.Event()
        self._changed: asyncio.Event | None = None
        self.streams = 0
        """How many clients follow events now."""

    def open(self) -> None:
        """Starts the thread that waits for events."""
        self._changed = asyncio.Event()
        self._is_closing = threading.Event()
        given = (asyncio.get_running_loop(), self._is_closing)
        threading.Thread(target=self._watch, args=given, name="event-feed", daemon=True).start()

    def close(self) -> None:
        """Ends all streams; can be called from any thread."""
        self._is_closing.set()

    async def follow(self, number: int) -> AsyncIterator[bytes]:
        """The events after this number, as they come; comments tell that the stream is alive while there are none.

        Where some are no longer kept, an event `missed` with their number comes first: the client has to read
        everything anew.
        """
        self.streams += 1
        is_closing = self._is_closing
        try:
            yield b"retry: 2000\n\n"
            while not is_closing.is_set():
                changed = self._changed
                found, missed = self._log.after(number)
                if missed:
                    yield _message("missed", {"events": missed}, found[0].number - 1 if found else self._log.last)
                if found:
                    number = found[-1].number
                    yield b"".join(self._text(event) for event in found)
                elif not await self._wait(changed):
                    yield b": alive\n\n"
        finally:
            self.streams -= 1

    async def _wait(self, changed: asyncio.Event | None) -> bool:
        """Whether something has happened before the time of a heartbeat is over."""
        assert changed is not None
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(changed.wait(), self._thresholds.heartbeat_seconds)
            return True
        return False

    def _text(self, event: Event) -> bytes:
        """An event as it is sent; the newest ones are kept for the other streams."""
        text = self._texts.get(event.number)
        if text is None:
            text = self._texts[event.number] = _message(
                event.kind, {"at": in_utc(event.at), "data": event.data}, event.number
            )
            while len(self._texts) > self._thresholds.encoded_events:
                del self._texts[next(iter(self._texts))]
        return text

    def _watch(self, loop: asyncio.AbstractEventLoop, is_closing: threading.Event) -> None:
        number = self._log.last
        while not is_closing.is_set():
            found, _ = self._log.after(number, self._thresholds.event_wait_seconds)
            if found:
                number = found[-1].number
                with suppress(RuntimeError):  # The loop has ended.
                    loop.call_soon_threadsafe(self._wake)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        """Wakes all streams; those that wait later wait for what is new then."""
        woken, self._changed = self._changed, asyncio.Event()
        if woken is not None:
            woken.set()


def _message(kind: str, data: Mapping[str, object], number: int) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), encoded(data))
