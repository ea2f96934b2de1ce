"""Ends a long-running command of `arctic` on SIGTERM or SIGINT."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
