"""A pause belongs to the load that asks for it, whenever it comes: it ends one stream, and never the next one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers import source_server
from arctic_runtime.ingest.transports.debezium.stream import stream as stream_module
from arctic_runtime.ingest.transports.debezium.stream.reading import (
    Reading,
    ReadingEvent,
    ReadingState,
    find_next_reading,
)
from arctic_runtime.ingest.transports.debezium.transport import DebeziumTransport
from tests.unit.ingest.transports.debezium.test_transport import CONNECTION

OPEN, CLOSE, LOAD, PAUSE, JOIN = ReadingEvent
EVENTS = st.lists(st.sampled_from(ReadingEvent))


def after(*events: ReadingEvent, state: ReadingState = ReadingState.CLOSED) -> ReadingState:
    for event in events:
        state = find_next_reading(state, event)
    return state


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], ReadingState.CLOSED),
        ([OPEN], ReadingState.STREAMING),
        ([OPEN, PAUSE], ReadingState.STREAMING),
        ([LOAD], ReadingState.LOADING),
        ([OPEN, LOAD], ReadingState.STREAMING_AND_LOADING),
        ([LOAD, PAUSE, OPEN], ReadingState.PAUSED),
        ([OPEN, LOAD, PAUSE], ReadingState.PAUSED),
        ([OPEN, LOAD, PAUSE, CLOSE], ReadingState.FINISHING),
        ([OPEN, LOAD, PAUSE, CLOSE, PAUSE, JOIN], ReadingState.CLOSED),
        ([OPEN, LOAD, PAUSE, CLOSE, PAUSE, JOIN, PAUSE, OPEN], ReadingState.STREAMING),
    ],
)
def test_events_lead_to_a_state(events: Sequence[ReadingEvent], state: ReadingState) -> None:
    assert after(*events) is state


@given(EVENTS)
def test_a_stream_that_is_opened_after_a_join_reads(events: Sequence[ReadingEvent]) -> None:
    """Whatever came before, and although the load asks again at any place until it has joined."""
    assert after(*events, CLOSE, JOIN, PAUSE, OPEN).is_reading


@given(EVENTS)
def test_a_closed_stream_reads_nothing_until_it_is_opened(events: Sequence[ReadingEvent]) -> None:
    state = after(*events, CLOSE)
    assert not state.is_open
    assert not after(LOAD, PAUSE, JOIN, PAUSE, state=state).is_reading


@given(EVENTS, EVENTS)
def test_a_pause_outlives_its_stream_until_the_load_is_over(
    before: Sequence[ReadingEvent], events: Sequence[ReadingEvent]
) -> None:
    state = after(*before, LOAD, PAUSE, *(event for event in events if event is not JOIN))
    assert state.is_loading
    assert not state.is_reading


def test_a_wait_for_a_close_ends_with_it() -> None:
    reading = Reading(ReadingState.STREAMING)
    threading.Thread(target=reading.apply_event, args=[CLOSE]).start()
    assert reading.wait_for_close(10)


class Run:
    """A run of an engine without records, whose end takes until `may_end`."""

    engine = None
    is_holding = False

    def __init__(self, position: Position) -> None:
        self.position = self.read = position
        self.is_ending, self.may_end = threading.Event(), threading.Event()

    def take_records(self) -> None:
        return None

    def end_run(self) -> None:
        self.is_ending.set()
        assert self.may_end.wait(10)


class Server:
    gives_signs_of_life = False

    def _answer(self, *_: Any) -> None:
        """Everything is there."""

    check_server = prepare_server = publish_tables = withdraw_tables = close_connection = _answer


def test_a_load_that_asks_while_the_stream_closes_does_not_end_the_next_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[Run] = []
    monkeypatch.setattr(stream_module, "start_run", lambda *given: runs.append(Run(given[-1])) or runs[-1])
    monkeypatch.setattr(source_server, "connect_server", lambda *_: Server())
    transport, position = DebeziumTransport(CONNECTION), Position({}, {"lsn": 5}).text
    transport.open_at(position)
    transport.load_tables(["public.b"], position)
    transport.pause_reading()
    assert list(transport.read_batches(until_drained=False)) == []
    closing = threading.Thread(target=transport.close_source)
    closing.start()
    assert runs[0].is_ending.wait(10)
    transport.pause_reading()
    runs[0].may_end.set()
    closing.join()
    transport.pause_reading()
    end: Any = type("End", (), {"progress": None})
    transport.open_at(transport.join_tables(["public.b"], position, end))
    assert transport._reading.state is ReadingState.STREAMING
    runs[1].may_end.set()
    transport.close_source()
