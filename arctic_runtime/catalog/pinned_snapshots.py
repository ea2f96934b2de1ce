"""Versions of upstreams that one invocation reads, so that all its models read the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState


@dataclass(frozen=True)
class PinnedSnapshots:
    """Upstreams as they were when a model of an invocation first read them; models run in several threads.

    Two models over one upstream, and a third over both, then agree with each other although the upstream moves on.
    """

    _states: dict[str, SourceState] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get_first(self, name: TableName, observe: Callable[[], SourceState | None]) -> SourceState | None:
        """State first observed under a name; it is observed now if that has not been done."""
        with self._lock:
            known_state = self._states.get(str(name))
        if known_state is not None:
            return known_state
        state = observe()
        with self._lock:
            return self._states.setdefault(str(name), state) if state is not None else None

    def invalidate_table(self, name: TableName) -> None:
        """After a table's own run everybody who reads it next reads its result."""
        with self._lock:
            self._states.pop(str(name), None)
