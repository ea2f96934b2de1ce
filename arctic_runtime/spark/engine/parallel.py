"""Actions that Spark performs side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from arctic_runtime.thresholds import EngineThresholds


class Parallel:
    """Actions that a session does while its thread continues. Nothing that was begun outlives the `with` of it."""

    def __init__(self, spark: SparkSession, thresholds: EngineThresholds) -> None:
        self._spark = spark
        self._pool = ThreadPoolExecutor(thresholds.parallel_actions)
        self._begun: list[Future[object]] = []

    def __enter__(self) -> Parallel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Waits for all; raises what an action raised, unless the block raised something itself."""
        self._pool.shutdown()
        if error is None:
            self.wait_for_all()

    def submit_action(self, action: Callable[[], object]) -> None:
        """Does an action beside what follows."""
        self._begun.append(self._pool.submit(inheritable_thread_target(self._spark)(action)))

    def wait_for_all(self) -> None:
        """Returns when all is done; raises what the first action that failed raised."""
        while self._begun:
            self._begun.pop(0).result()
