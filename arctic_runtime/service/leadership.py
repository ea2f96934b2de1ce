"""Leadership: of several services on one schema, only the leader works; when it ends, its work has to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


class Leadership:
    """One period in which a service leads, with the actions to call at its end; may be used by any thread."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._actions: list[Callable[[], None]] = []

    def call_at_end(self, action: Callable[[], None]) -> Callable[[], None]:
        """Calls `action` when leadership ends, or at once if it has ended; returns a function that unregisters it."""
        with self._lock:
            self._actions.append(action)
            has_ended = self.ended.is_set()
        if has_ended:
            action()

        def remove_action() -> None:
            with self._lock, suppress(ValueError):
                self._actions.remove(action)

        return remove_action

    def end_leadership(self) -> None:
        self.ended.set()
        with self._lock:
            actions = list(self._actions)
        for action in actions:
            # An action may block for a while, and a signal handler must return quickly.
            threading.Thread(target=action, daemon=True).start()
