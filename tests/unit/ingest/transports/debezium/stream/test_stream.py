"""A stream gathers what waits, ends where the source ends, and goes on after a lost connection."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.engine import EngineEnded
from arctic_runtime.ingest.transports.debezium.position import Position
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost
from arctic_runtime.ingest.transports.debezium.stream import stream as stream_module
from arctic_runtime.ingest.transports.debezium.stream.reading import Reading, ReadingEvent, ReadingState
from arctic_runtime.ingest.transports.debezium.stream.run import EngineRun
from arctic_runtime.ingest.transports.debezium.stream.stream import DebeziumStream, Receipts, StreamSettings
from arctic_runtime.ingest.transports.transport import Batch
from arctic_runtime.thresholds import SHIPPED
from tests.unit.ingest.transports.debezium.stream.test_run import STREAM, Server, after, records

CONNECTION = DebeziumConnection("mysql", "db", 3306, "shop", "reader", "", (r"shop\.a",))
LIMITS = replace(SHIPPED.debezium, reconnect_poll_seconds=0.001, push_seconds=60, idle_seconds=60)


class Engine:
    """Gives records or raises errors, one at each call; None when there are no more."""

    def __init__(self, script: Sequence[Any]) -> None:
        self.script = list(script)
        self.acknowledged: list[Any] = []
        self.is_stopped = False

    @property
    def has_waiting(self) -> bool:
        return bool(self.script) and not isinstance(self.script[0], Exception)

    def take_records(self) -> Any:
        step = self.script.pop(0) if self.script else None
        if isinstance(step, Exception):
            raise step
        return step

    def acknowledge_receipt(self, receipt: Any) -> None:
        self.acknowledged.append(receipt)

    def stop_engine(self) -> None:
        self.is_stopped = True


class Database(Server):
    """A server whose log ends at a place, and that is away for some attempts to reach it."""

    gives_signs_of_life = False

    def __init__(self, end: int = 500, attempts: int = 0) -> None:
        self.end = end
        self.attempts = attempts

    def identify_log(self) -> None:
        return None

    def get_log_end(self) -> int:
        return self.end

    def has_reached(self, position: Position, end: int) -> bool:
        return bool(position.offset["pos"] >= end)

    def push_log_end(self) -> None:
        """Nothing is marked."""

    def prepare_server(self, position: Position) -> None:
        self.attempts -= 1
        if self.attempts > 0:
            raise ConnectionLost("still away")

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        return ConnectionLost(reason) if error is None else SourceError(str(error))


Made = tuple[DebeziumStream, list[Engine]]
Opened = Callable[..., Made]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    def open_stream(
        *scripts: Sequence[Any], server: Any = None, **settings: Any
    ) -> tuple[DebeziumStream, list[Engine]]:
        engines = [Engine(script) for script in scripts]
        left = iter(engines)

        def start_run(_: Any, __: Any, own: Any, position: Position) -> EngineRun:
            engine: Any = next(left)
            return EngineRun(engine, tempfile.TemporaryDirectory(), own, position, 1 << 20)

        monkeypatch.setattr(stream_module, "start_run", start_run)
        reading = Reading(ReadingState.STREAMING)
        wanted = StreamSettings(CONNECTION, LIMITS, **settings)
        return DebeziumStream(wanted, server or Database(), STREAM, reading, Receipts(0)), engines

    return open_stream


def counts(batches: Iterator[Batch]) -> list[int]:
    return [batch.count for batch in batches]


def test_batches_that_wait_are_gathered_up_to_the_end_of_the_source(opened: Opened) -> None:
    stream, _ = opened([records([(4, 0, "c")], after(100)), records([(100, 1, "c")], after(500)), "never taken"])
    assert counts(stream.read_batches(until_drained=True)) == [2]
    assert stream.position.offset == after(500)


def test_a_drained_source_is_no_batch(opened: Opened) -> None:
    stream, _ = opened([], server=Database(end=4))
    assert counts(stream.read_batches(until_drained=True)) == []


def test_a_lost_connection_is_reported_and_made_anew(opened: Opened) -> None:
    first = [records([(4, 0, "c")], after(100)), None, EngineEnded("gone")]
    stream, engines = opened(first, [records([(100, 1, "c")], after(500))], server=Database(attempts=3))
    batches = list(stream.read_batches(until_drained=True))
    assert [(batch.count, batch.failure) for batch in batches] == [(1, ""), (0, "gone"), (1, "")]
    assert [engine.is_stopped for engine in engines] == [True, False]


def test_a_stream_that_does_not_reconnect_fails(opened: Opened) -> None:
    stream, _ = opened([EngineEnded("gone")], reconnects=False)
    with pytest.raises(ConnectionLost, match="gone"):
        list(stream.read_batches(until_drained=False))


def test_an_error_of_the_engine_is_no_lost_connection(opened: Opened) -> None:
    stream, _ = opened([EngineEnded("stopped", cause="wrong password")])
    with pytest.raises(SourceError, match="wrong password"):
        list(stream.read_batches(until_drained=False))


def test_a_snapshot_in_the_middle_of_a_stream_is_refused(opened: Opened) -> None:
    stream, _ = opened([records([(4, 0, "r")], {"snapshot": "initial", **after(4)})])
    with pytest.raises(SourceError, match="began another snapshot"):
        list(stream.read_batches(until_drained=False))


def test_a_stream_that_is_closed_while_it_reconnects_leaves_no_engine_running(opened: Opened) -> None:
    """Its engine would keep the replication slot, and the next reader could not have it."""

    class Slow(Database):
        def prepare_server(self, position: Position) -> None:
            """The stream is closed by another thread as soon as the next engine is about to start."""
            start_run = stream._start_run

            def start_late(position: Position) -> EngineRun:
                run = start_run(position)
                stream._reading.apply_event(ReadingEvent.CLOSE)
                stream.close_stream()
                return run

            stream._start_run = start_late  # type: ignore[method-assign]

        def close_connection(self) -> None:
            """Nothing is open."""

    stream, engines = opened([EngineEnded("gone")], [], server=Slow())
    assert [batch.failure for batch in stream.read_batches(until_drained=False)] == ["gone"]
    assert [engine.is_stopped for engine in engines] == [True, True]
