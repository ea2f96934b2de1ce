"""Fixes the version of each upstream for one invocation, so that all models of it read the same rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState


@dataclass(frozen=True)
class PinnedSnapshots:
    """State of each upstream when a model of the invocation first read it; safe to share between threads.

    Two models over one upstream, and a third over both, then agree with each other although the upstream changes.
    """

    _states: dict[str, SourceState] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get_first(self, name: TableName, observe: Callable[[], SourceState | None]) -> SourceState | None:
        """Returns the state that was first observed for table `name`; calls `observe` if there is none yet.

        Returns None if `observe` does; that is not stored, so the next call observes again.
        """
        with self._lock:
            known_state = self._states.get(str(name))
        if known_state is not None:
            return known_state
        state = observe()
        with self._lock:
            return self._states.setdefault(str(name), state) if state is not None else None

    def invalidate_table(self, name: TableName) -> None:
        """Removes the stored state of a table after its own run, so that its next reader observes the new state."""
        with self._lock:
            self._states.pop(str(name), None)
