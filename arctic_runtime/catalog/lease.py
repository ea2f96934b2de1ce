"""A lease, with which only one process at a time does some work; it is stored in a table that all processes read."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.properties import LEASE, LEASE_UNTIL

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Held:
    """A lease as a commit stores it: its holder, a process as `host:pid:token`, and its end in seconds since 1970."""

    holder: str
    until: float

    @property
    def process(self) -> str:
        """The holder as text for people, such as `process 12 on host`."""
        host, process, _ = self.holder.split(":")
        return f"process {process} on {host}"

    def encode(self) -> dict[str, str]:
        """Returns the lease as entries for the summary of its commit, or for properties of its table."""
        return {LEASE: self.holder, LEASE_UNTIL: str(round(self.until * 1000))}

    @staticmethod
    def decode(entries: Mapping[str, Any]) -> Held | None:
        """Returns the lease in entries that `encode` wrote, among others; None if they have none."""
        holder = entries.get(LEASE)
        return Held(str(holder), int(entries.get(LEASE_UNTIL) or 0) / 1000) if holder else None


@dataclass(frozen=True)
class LeaseTimes:
    """Times of a lease: how many seconds it lasts without renewal, and the seconds between renewals.

    `attempts` is the largest number of tries to commit a lease while other commits to the table come first.
    """

    lease_seconds: float
    renewal_seconds: float
    attempts: int


class LeaseTable(Protocol):
    """A table in which a lease is stored."""

    def observe_lease(self) -> Held | None:
        """Returns the newest lease, None if there is none."""

    def commit_lease(self, former: Held | None, lease: Held) -> None:
        """Commits a lease in the place of `former`; raises CommitConflict if the table has another one by now."""


class Lease:
    """Takes, renews and ends the lease of this process.

    The lease only saves a second process from doing the same work. Correctness must not depend on it, since a process
    may sleep longer than its lease lasts; so all commits of the work itself must be compare-and-swaps.
    """

    def __init__(
        self,
        table: LeaseTable,
        times: LeaseTimes,
        holder: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.holder = holder or f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._table = table
        self._times = times
        self._clock = clock
        self._renew_at = 0.0
        self._other: tuple[Held, float] | None = None

    def take_lease(self) -> Held | None:
        """Takes or renews the lease and returns None; if another process holds it, returns that process's lease.

        Raises CommitConflict if other commits to the table come first at every attempt.
        """
        return retry_on_conflict(self._take_once, self._times.attempts)

    def is_own(self) -> bool:
        """Whether the newest lease in the table is that of this process."""
        newest = self._table.observe_lease()
        return newest is not None and newest.holder == self.holder

    def renew_lease(self) -> Held | None:
        """Renews the lease if a renewal is due, and returns None; if another process has taken it, returns that lease.

        Raises CommitConflict if other commits to the table come first at every attempt.
        """
        return None if self._clock() < self._renew_at else self.take_lease()

    def end_lease(self) -> None:
        """Ends the lease if this process holds it; ignores errors, since the lease expires anyway."""
        with suppress(ArcticError):
            newest = self._table.observe_lease()
            if newest is not None and newest.holder == self.holder:
                self._table.commit_lease(newest, Held(self.holder, 0.0))

    @contextmanager
    def keep_alive(self, lost: Callable[[Held], None], renewed: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Renews the lease in a background thread until the `with` block ends.

        The thread calls `renewed` after each renewal. If another process has taken the lease, it calls `lost` with the
        lease of that process, and ends.
        """
        ended = threading.Event()

        def renew_until_ended() -> None:
            while not ended.wait(self._times.renewal_seconds):
                try:
                    other = self.take_lease()
                    if other is None:
                        renewed()
                except Exception as error:
                    # The next renewal may succeed; an error that persists makes the work itself fail.
                    LOG.debug("the lease was not renewed: %s", error)
                else:
                    if other is not None:
                        lost(other)
                        return

        keeper = threading.Thread(target=renew_until_ended, name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def _take_once(self) -> Held | None:
        newest = self._table.observe_lease()
        if newest is not None and newest.holder != self.holder and self._is_alive(newest):
            return newest
        self._table.commit_lease(newest, Held(self.holder, time.time() + self._times.lease_seconds))
        self._renew_at = self._clock() + self._times.renewal_seconds
        return None

    def _is_alive(self, other: Held) -> bool:
        """Whether the lease `other`, of another process, is still valid.

        Clocks of machines differ, and may be set back. So a lease has also ended if it was not renewed while this
        process has observed it for `lease_seconds`, or if its holder is a process of this machine that has ended.
        """
        now = self._clock()
        if self._other is None or self._other[0] != other:
            self._other = (other, now)
        is_silent = now - self._other[1] > self._times.lease_seconds
        return other.until > time.time() and not is_silent and not _has_ended(other)


def find_newest_lease(table: Table) -> Held | None:
    """Returns the newest lease in the summaries of the commits to a table's main branch, None if there is none."""
    leases = (Held.decode(snapshot.summary) for snapshot in walk_main_branch(table) if snapshot.summary)
    return next((lease for lease in leases if lease is not None), None)


def walk_main_branch(table: Table) -> Iterator[Snapshot]:
    """Yields the snapshots of a table's main branch, newest first."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    at = table.metadata.current_snapshot_id
    while at is not None and at in snapshots:
        yield snapshots[at]
        at = snapshots[at].parent_snapshot_id


def _has_ended(lease: Held) -> bool:
    """Whether the lease's holder is a process of this machine that has ended; False if that is not known."""
    host, process, _ = lease.holder.split(":")
    if host != platform.node() or os.name != "posix":
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
