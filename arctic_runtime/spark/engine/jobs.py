"""Runs Spark jobs of a session: with temporary settings, described for the web UI, cancellable, or in parallel."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from arctic_runtime.spark.engine.connection import is_remote
from arctic_runtime.thresholds import EngineThresholds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_INTERRUPTS_OF_PY4J = ("KeyboardInterrupt while sending command", "Exception occurred while shutting down connection")


@contextmanager
def override_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets the settings `wanted` of a session until the block ends, then restores the earlier values.

    Other threads are not affected, since each has a session of its own.
    """
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, earlier in before.items():
            spark.conf.unset(key) if earlier is None else spark.conf.set(key, earlier)


def describe_jobs(session: SparkSession, text: str) -> None:
    """Sets the description of all Spark jobs that this thread starts from now on.

    Does nothing with Spark Connect, since the server describes its jobs itself.
    """
    if not is_remote(session):
        session.sparkContext.setJobDescription(text)


@contextmanager
def make_cancellable(session: SparkSession, tag: str) -> Iterator[Callable[[], None]]:
    """Yields a function that cancels the Spark jobs that this thread starts within the block.

    The function may be called from any thread. `tag` marks the jobs, and must not be used for other work.
    """
    session.addTag(tag)
    try:
        yield lambda: _ignore_result(session.interruptTag(tag))
    finally:
        session.removeTag(tag)


def handle_interrupts(cancel_jobs: Callable[[], object], before: object, thresholds: EngineThresholds) -> None:
    """Makes Ctrl-C call `cancel_jobs` and raise KeyboardInterrupt; keeps `before` if it is a handler of the program.

    It takes the place of pyspark's handler, which calls Java in the interrupted thread, in the middle of another call:
    that fails, and cancels nothing. Does nothing outside of the main thread, which alone can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def cancel_and_raise(*_: object) -> None:
        for name in (None, "py4j.clientserver"):
            logging.getLogger(name).addFilter(_is_no_interrupt_of_py4j)
        cancelling = threading.Thread(target=cancel_jobs, daemon=True)
        cancelling.start()
        cancelling.join(thresholds.cancel_seconds)
        raise KeyboardInterrupt

    is_own = before is not None and before is not signal.default_int_handler
    signal.signal(signal.SIGINT, cast(Any, before) if is_own else cancel_and_raise)


def _is_no_interrupt_of_py4j(record: logging.LogRecord) -> bool:
    """Leaves out the stack traces that py4j logs of each call that Ctrl-C interrupts, and of its connection."""
    message = record.getMessage()
    return not any(text in message for text in _INTERRUPTS_OF_PY4J)


def _ignore_result(_: object) -> None:
    """Discards the ids of the cancelled operations, which Spark returns."""


class Parallel:
    """Runs Spark actions in background threads of one session, which inherit its settings; used as a `with` block."""

    def __init__(self, spark: SparkSession, thresholds: EngineThresholds) -> None:
        self._spark = spark
        self._pool = ThreadPoolExecutor(thresholds.parallel_actions)
        self._begun: list[Future[object]] = []

    def __enter__(self) -> Parallel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Waits for all actions; raises the error of the first that failed, unless the block itself raised an error."""
        self._pool.shutdown()
        if error is None:
            self.wait_for_all()

    def submit_action(self, action: Callable[[], object]) -> None:
        """Starts an action in a background thread."""
        from pyspark import inheritable_thread_target

        self._begun.append(self._pool.submit(inheritable_thread_target(self._spark)(action)))

    def wait_for_all(self) -> None:
        """Waits for all actions submitted so far; raises the error of the first that failed."""
        while self._begun:
            self._begun.pop(0).result()
