"""Work in threads whose errors are not lost."""

from __future__ import annotations

import threading
from collections.abc import Callable

_LOOK_SECONDS = 0.2


class Worker:
    """A function in a thread. What it raises is raised by `check`, in the thread that looks after the workers."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Raises what ended the work, if something did."""
        if self._error is not None:
            raise self._error

    def join(self) -> None:
        """Waits for the end of the work, however it ends; a signal is noticed meanwhile."""
        while self._thread.is_alive():
            self._thread.join(_LOOK_SECONDS)

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._error = error
