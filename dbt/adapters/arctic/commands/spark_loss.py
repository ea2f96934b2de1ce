"""Ending a command that runs forever when its Spark has ended: its supervisor starts it again."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from arctic_runtime.errors import SparkEnded
from arctic_runtime.spark.engine.spark_loss import watch_spark
from arctic_runtime.thresholds import EngineThresholds

FAILED = 1


@contextmanager
def stop_with_spark(command: str, stop: Callable[[SparkEnded], None], limits: EngineThresholds) -> Iterator[None]:
    """Calls `stop` if Spark ends while this lasts, and raises SparkEnded after it.

    What does not end in time is left behind with the process, which nothing is lost with.
    """
    ends: list[SparkEnded] = []
    timers: list[threading.Timer] = []

    def stop_on_end(error: SparkEnded) -> None:
        ends.append(error)
        timers.append(threading.Timer(limits.spark_end_seconds, _leave_process, (command, error)))
        timers[0].daemon = True
        timers[0].start()
        stop(error)

    try:
        with watch_spark(limits, stop_on_end):
            yield
    except Exception:
        if not ends:
            raise
    finally:
        for timer in timers:
            timer.cancel()
    if ends:
        raise ends[0]


def _leave_process(command: str, error: SparkEnded) -> None:
    print(f"arctic {command}: {error}", file=sys.stderr, flush=True)
    os._exit(FAILED)
