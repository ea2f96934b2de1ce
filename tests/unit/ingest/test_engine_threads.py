"""An engine of Debezium whose thread is gone."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace

import pytest

from arctic_runtime.ingest.transports.debezium.engine import EmbeddedEngine, EngineEnded
from arctic_runtime.thresholds import DebeziumThresholds


def engine(state: str) -> EmbeddedEngine:
    """An engine without batches, whose thread of Java's is in a state."""
    made = object.__new__(EmbeddedEngine)
    made._thresholds = DebeziumThresholds(take_seconds=0.01)
    made._waiting, made._changed, made._closed, made._ended = deque(), threading.Condition(), False, None
    made._thread = SimpleNamespace(getState=lambda: state)
    return made


def test_a_thread_that_ended_without_a_word_ends_the_engine() -> None:
    assert engine("RUNNABLE").take_records() is None
    with pytest.raises(EngineEnded, match="its thread ended without a word"):
        engine("TERMINATED").take_records()
