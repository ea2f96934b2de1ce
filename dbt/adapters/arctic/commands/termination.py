"""Ends a long-running command of `arctic`: on SIGTERM or SIGINT, or when its Spark has ended."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from arctic_runtime.errors import SparkEnded
from arctic_runtime.spark.engine.spark_loss import watch_spark
from arctic_runtime.thresholds import EngineThresholds


@contextmanager
def stop_on_signals(
    command: str, stop: Callable[[], None], text: str, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Makes SIGTERM and SIGINT show `text` and call `stop` until the context ends.

    `say` shows a line to people; without it, the line is printed to the standard error, after the `command`.
    Does nothing outside of the main thread, which alone can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop_and_say(number: int, _: Any) -> None:
        line = f"{signal.Signals(number).name}: {text}"
        if say is not None:
            say(line)
        else:
            print(f"arctic {command}: {line}", file=sys.stderr, flush=True)
        stop()

    before = {number: signal.signal(number, stop_and_say) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


FAILED = 1


@contextmanager
def stop_with_spark(command: str, stop: Callable[[SparkEnded], None], limits: EngineThresholds) -> Iterator[None]:
    """Calls `stop` if Spark ends before the context does, and raises SparkEnded at the end of the context.

    If the context does not end within `spark_end_seconds` after that, the process exits at once; no data is lost.
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
