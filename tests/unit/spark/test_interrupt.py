"""Ctrl-C while Java works for the main thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from arctic_runtime.spark.engine.session import replace_interrupt_handler


class Context:
    """A Spark that notes by which thread it is asked to cancel all jobs."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.by: threading.Thread | None = None

    def cancelAllJobs(self) -> None:  # noqa: N802
        self.by = threading.current_thread()
        self.asked.set()


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_jobs_are_cancelled_by_another_thread_than_the_one_that_waits_for_java() -> None:
    context: Any = Context()
    replace_interrupt_handler(context, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert context.asked.wait(10)
    assert context.by is not threading.main_thread()


def test_a_handler_of_the_program_stays() -> None:
    numbers: list[int] = []
    replace_interrupt_handler(SimpleNamespace(), lambda number, _: numbers.append(number))  # type: ignore[arg-type]
    signal.raise_signal(signal.SIGINT)
    assert numbers == [signal.SIGINT]


def test_no_other_thread_changes_the_handler() -> None:
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=replace_interrupt_handler, args=(Context(), signal.default_int_handler))
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
