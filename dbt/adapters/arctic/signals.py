"""Ending a command that goes on for ever."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ended_by_signals(stop: Callable[[], None], text: str) -> Iterator[None]:
    """While this lasts, SIGTERM and SIGINT call `stop` after they have said what follows."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: Any) -> None:
        print(f"{signal.Signals(number).name}: {text}", file=sys.stderr, flush=True)
        stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
