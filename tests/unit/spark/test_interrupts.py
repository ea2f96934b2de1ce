"""Ctrl-C while Spark works."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator

import pytest

from arctic_runtime.spark.engine.jobs import handle_interrupts
from arctic_runtime.thresholds import EngineThresholds

LIMITS = EngineThresholds()


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    loggers = [logging.getLogger(name) for name in (None, "py4j.clientserver")]
    filters = [[*logger.filters] for logger in loggers]
    yield
    signal.signal(signal.SIGINT, before)
    for logger, earlier in zip(loggers, filters, strict=True):
        logger.filters = earlier


def test_jobs_are_cancelled_in_a_thread_that_is_not_in_the_middle_of_a_call_of_java() -> None:
    threads: list[threading.Thread] = []
    handle_interrupts(lambda: threads.append(threading.current_thread()), signal.default_int_handler, LIMITS)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_py4j_shows_no_trace_of_the_call_that_was_interrupted(caplog: pytest.LogCaptureFixture) -> None:
    handle_interrupts(lambda: None, signal.default_int_handler, LIMITS)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    logging.error("KeyboardInterrupt while sending command.")
    logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down connection")
    logging.error("something else")
    assert caplog.messages == ["something else"]


def test_a_handler_of_the_program_stays() -> None:
    calls: list[int] = []
    handle_interrupts(lambda: calls.append(0), lambda number, _: calls.append(number), LIMITS)
    signal.raise_signal(signal.SIGINT)
    assert calls == [signal.SIGINT]


def test_a_thread_changes_no_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=handle_interrupts, args=(lambda: None, before, LIMITS))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
