"""An idle stream moves on from time to time, and its end is known once it was asked and reached."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.stream import heartbeat
from arctic_runtime.ingest.transports.debezium.stream import stream as stream_module
from arctic_runtime.ingest.transports.debezium.stream.heartbeat import Heartbeat, LogEnd
from arctic_runtime.ingest.transports.debezium.stream.stream import Receipts
from arctic_runtime.thresholds import SHIPPED

LIMITS = replace(SHIPPED.debezium, push_seconds=1, idle_seconds=60)


class Clock:
    """Time that passes when a test says so; `sleep` adds to it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (heartbeat, stream_module):
        monkeypatch.setattr(module, "time", made)
    return made


def test_an_idle_stream_pushes_the_end_of_the_log_once_a_pause(clock: Clock) -> None:
    pulse = Heartbeat(LIMITS, is_draining=False)
    clock.sleep(59)
    assert not pulse.is_push_due(is_holding=False)
    assert pulse.is_push_due(is_holding=True)
    clock.sleep(2)
    assert pulse.is_push_due(is_holding=False)
    pulse.note_push()
    assert not pulse.is_push_due(is_holding=True)
    pulse.note_server()
    assert pulse.is_batch_due
    pulse.note_batch()
    assert not pulse.is_batch_due


def test_silence_is_noticed_sooner_after_a_first_message_than_after_a_start(clock: Clock) -> None:
    pulse = Heartbeat(LIMITS, is_draining=False)
    clock.sleep(LIMITS.start_seconds - 1)
    assert not pulse.is_silent(LIMITS)
    clock.sleep(2)
    assert pulse.is_silent(LIMITS)
    pulse.note_server()
    assert not pulse.is_silent(LIMITS)
    clock.sleep(LIMITS.silence_seconds + 1)
    assert pulse.is_silent(LIMITS)
    pulse.note_start()
    clock.sleep(LIMITS.silence_seconds + 1)
    assert not pulse.is_silent(LIMITS)


def test_who_drains_a_source_pushes_at_once_and_needs_no_idle_batch(clock: Clock) -> None:
    pulse = Heartbeat(LIMITS, is_draining=True)
    assert pulse.is_push_due(is_holding=False)
    pulse.note_push()
    clock.sleep(100)
    pulse.note_server()
    assert not pulse.is_batch_due
    pulse.note_batch()
    assert pulse.is_push_due(is_holding=False)


def test_a_stream_has_caught_up_once_for_each_end_that_it_reaches(clock: Clock) -> None:
    ends = [7, SourceError("down"), 9]

    def get_log_end() -> int:
        end = ends.pop(0)
        if isinstance(end, SourceError):
            raise end
        return end

    server: Any = SimpleNamespace(get_log_end=get_log_end, has_reached=lambda at, end: at.reached >= end)
    log_end = LogEnd(server, LIMITS)
    log_end.request_if_due()
    assert log_end.take_caught_up(Position({}, {}, reached=6)) is None
    assert log_end.take_caught_up(Position({}, {}, reached=7)) is not None
    assert log_end.take_caught_up(Position({}, {}, reached=8)) is None
    log_end.request_if_due()
    assert ends[0] != 9
    clock.sleep(61)
    log_end.request_if_due()
    assert ends == [9]
    log_end.request_end()
    log_end.forget_end()
    assert log_end.take_caught_up(Position({}, {}, reached=9)) is None


def test_a_receipt_stands_for_all_before_it_and_is_passed_on_before_the_end(clock: Clock) -> None:
    given: list[str] = []
    engine: Any = SimpleNamespace(acknowledge_receipt=given.append)
    kept = Receipts(flush_seconds=3)
    for position in ("a", "b", "c"):
        kept.add_receipt(position, engine, f"receipt of {position}")  # type: ignore[arg-type]
    kept.acknowledge_until("b")
    kept.acknowledge_until("a")
    kept.acknowledge_until("of another")
    assert given == ["receipt of b"]
    clock.sleep(1)
    kept.wait_for_flush()
    assert clock.now == 1003
    kept.wait_for_flush()
    assert clock.now == 1003
    kept.acknowledge_until("c")
    assert given == ["receipt of b", "receipt of c"]
