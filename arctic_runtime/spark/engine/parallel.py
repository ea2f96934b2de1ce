"""Runs Spark actions in parallel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from arctic_runtime.thresholds import EngineThresholds


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
        self._begun.append(self._pool.submit(inheritable_thread_target(self._spark)(action)))

    def wait_for_all(self) -> None:
        """Waits for all actions submitted so far; raises the error of the first that failed."""
        while self._begun:
            self._begun.pop(0).result()
