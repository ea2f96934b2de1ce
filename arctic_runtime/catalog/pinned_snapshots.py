"""Fixes the version of each upstream for one dbt invocation, so that all its models read the same rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version


@dataclass(frozen=True)
class PinnedSnapshots:
    """The state that each upstream had when a model of the invocation read it first; safe to share between threads.

    So two models over one upstream, and a third model over both, agree with each other even if the upstream changes.
    `time` is the time that all of them take for the present, in queries that read the clock.
    """

    time: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    versions: Mapping[str, Version] = field(default_factory=dict)
    """Versions that tables are pinned at, by full name, when they are observed; others are pinned at the newest one."""

    _states: dict[str, SourceState] = field(default_factory=dict)
    _rerun: set[str] = field(default_factory=set)
    """Tables that were brought up to date since, which count with their new versions."""

    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get_first(self, name: TableName, observe: Callable[[], SourceState | None]) -> SourceState | None:
        """Returns the state that was first observed for table `name`; calls `observe` if there is none yet.

        Returns None if `observe` returns None; this is not stored, so the next call observes again.
        """
        with self._lock:
            known_state = self._states.get(str(name))
        if known_state is not None:
            return known_state
        state = observe()
        pinned = None if str(name) in self._rerun else self.versions.get(str(name))
        if state is not None and pinned is not None and pinned.table == state.version.table:
            state = replace(state, version=min(state.version, pinned, key=lambda version: version.sequence))
        with self._lock:
            return self._states.setdefault(str(name), state) if state is not None else None

    def find_state(self, name: str) -> SourceState | None:
        """Returns the stored state of a table, by its full name; None if there is none."""
        with self._lock:
            return self._states.get(name)

    def list_versions(self) -> dict[str, Version]:
        """Returns the version of each table with a stored state, by its full name."""
        with self._lock:
            return {name: state.version for name, state in self._states.items()}

    def observe_again(self, rewritten: Collection[TableName]) -> PinnedSnapshots:
        """Returns pins at the same versions, whose states are observed anew, since snapshots or files were replaced.

        Tables in `rewritten`, whose rows are the same under new versions, are pinned at their newest ones, and so are
        those that were brought up to date since.
        """
        pinned = {name: version for name, version in self.versions.items() if name not in self._rerun}
        versions = {**pinned, **self.list_versions()}
        for table in rewritten:
            versions.pop(str(table), None)
        return PinnedSnapshots(self.time, versions)

    def invalidate_table(self, name: TableName) -> None:
        """Removes the stored state of a table after its own run, so that its next reader observes the new state."""
        with self._lock:
            self._states.pop(str(name), None)
            self._rerun.add(str(name))
