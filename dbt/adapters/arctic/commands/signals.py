"""Ends a long-running command of `arctic` on SIGTERM or SIGINT."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stop_on_signals(command: str, stop: Callable[[], None], text: str) -> Iterator[None]:
    """Makes SIGTERM and SIGINT print `text` and call `stop` until the context ends.

    Does nothing outside of the main thread, which alone can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop_and_say(number: int, _: Any) -> None:
        print(f"arctic {command}: {signal.Signals(number).name}: {text}", file=sys.stderr, flush=True)
        stop()

    before = {number: signal.signal(number, stop_and_say) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
