"""Runs Spark jobs of a session: with temporary settings, described for the web UI, cancellable, or in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from arctic_runtime.spark.engine.connection import is_remote
from arctic_runtime.thresholds import EngineThresholds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
