"""The state of a transport: whether its stream is open, and how far a load of tables beside it is, as one value."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from enum import Enum


class ReadingState(Enum):
    """State of a transport; the stream returns batches only while it `is_reading`."""

    CLOSED = "the stream is closed"
    STREAMING = "the stream is open"
    LOADING = "the stream is closed, and a load runs"
    STREAMING_AND_LOADING = "the stream is open, and a load runs beside it"
    PAUSED = "the stream is open, and ends before its next batch, so that the load can be finished"
    FINISHING = "the stream is closed, and the load can be finished"

    @property
    def is_open(self) -> bool:
        return self in (ReadingState.STREAMING, ReadingState.STREAMING_AND_LOADING, ReadingState.PAUSED)

    @property
    def is_loading(self) -> bool:
        """Whether tables are loaded that have not joined the stream."""
        return self not in (ReadingState.CLOSED, ReadingState.STREAMING)

    @property
    def is_reading(self) -> bool:
        return self in (ReadingState.STREAMING, ReadingState.STREAMING_AND_LOADING)


class ReadingEvent(Enum):
    """An event that changes the state of a transport."""

    OPEN = "the stream is opened"
    CLOSE = "the stream is closed, which is for good if nobody opens it again"
    LOAD = "a load of tables begins"
    PAUSE = "the load asks the stream to end, so that it can be finished"
    JOIN = "the loaded tables join the stream, and the load is over"


_TRANSITIONS: Mapping[ReadingEvent, Mapping[ReadingState, ReadingState]] = {
    ReadingEvent.OPEN: {
        ReadingState.CLOSED: ReadingState.STREAMING,
        ReadingState.LOADING: ReadingState.STREAMING_AND_LOADING,
        ReadingState.FINISHING: ReadingState.PAUSED,
    },
    ReadingEvent.CLOSE: {
        ReadingState.STREAMING: ReadingState.CLOSED,
        ReadingState.STREAMING_AND_LOADING: ReadingState.LOADING,
        ReadingState.PAUSED: ReadingState.FINISHING,
    },
    ReadingEvent.LOAD: {
        ReadingState.CLOSED: ReadingState.LOADING,
        ReadingState.STREAMING: ReadingState.STREAMING_AND_LOADING,
    },
    ReadingEvent.PAUSE: {
        ReadingState.LOADING: ReadingState.FINISHING,
        ReadingState.STREAMING_AND_LOADING: ReadingState.PAUSED,
    },
    ReadingEvent.JOIN: {
        ReadingState.LOADING: ReadingState.CLOSED,
        ReadingState.FINISHING: ReadingState.CLOSED,
        ReadingState.STREAMING_AND_LOADING: ReadingState.STREAMING,
        ReadingState.PAUSED: ReadingState.STREAMING,
    },
}


def find_next_reading(state: ReadingState, event: ReadingEvent) -> ReadingState:
    """Returns the state after `event`; an event that a state does not list does not change it.

    A pause belongs to the load that asks for it: it has no effect without a load, outlives the stream that it ends, and
    is over when the loaded tables join.
    """
    return _TRANSITIONS[event].get(state, state)


class Reading:
    """The state of one transport, which any thread may change."""

    def __init__(self, state: ReadingState = ReadingState.CLOSED) -> None:
        self._state = state
        self._changed = threading.Condition()

    @property
    def state(self) -> ReadingState:
        return self._state

    def apply_event(self, event: ReadingEvent) -> None:
        with self._changed:
            self._state = find_next_reading(self._state, event)
            self._changed.notify_all()

    def wait_for_close(self, seconds: float) -> bool:
        """Waits until the stream is closed, at most for so long; returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._state.is_open, seconds)
