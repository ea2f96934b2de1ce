"""The time for which a service leads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


class Term:
    """Leadership of a service: the work that runs while it leads, and its end; may be used by any thread."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._ends: list[Callable[[], None]] = []

    def on_end(self, action: Callable[[], None]) -> Callable[[], None]:
        """Calls an action at the end; what is returned takes it back."""
        with self._lock:
            self._ends.append(action)
            is_over = self.over.is_set()
        if is_over:
            action()

        def remove_action() -> None:
            with self._lock, suppress(ValueError):
                self._ends.remove(action)

        return remove_action

    def end_leadership(self) -> None:
        self.over.set()
        with self._lock:
            actions = list(self._ends)
        for action in actions:
            # A transport may take a while to end, and a signal's handler must not.
            threading.Thread(target=action, daemon=True).start()
