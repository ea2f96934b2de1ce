"""One process at a time ingests a source: its lease is a commit to the dead letter table, made by compare-and-swap."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import effect, retried
from arctic_runtime.errors import ArcticError, ConfigError
from arctic_runtime.model.expiry import ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import LEASE, LEASE_UNTIL
from arctic_runtime.spark.engine.java_errors import SPARK, SPARK_ERRORS
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.tables.commit import Attempt, said, swap_in
from arctic_runtime.spark.tables.snapshots import expire_snapshots

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Held:
    """The newest lease on a source: who has it, and until when, in seconds since 1970."""

    holder: str
    until: float


class Lease:
    """The lease of this process on the source of a dead letter table.

    Correctness does not depend on it: each table's commits are compare-and-swaps that note a position. It keeps a
    second process from doing the same work, and from taking the source's connection away.
    """

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table
        self.holder = f"{platform.node()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._reader = reader
        self._spark = spark
        self._renew_at = 0.0

    def take(self) -> Held | None:
        """Takes the lease; the other process's where one has it, which may have ended since it last gave a sign.

        Raises CommitConflict where other commits to the table always win.
        """
        return retried(self._take, self._reader.thresholds.commits.attempts)

    def _take(self) -> Held | None:
        head, found = self._observe()
        if found is not None and found.holder != self.holder and found.until > time.time() and not _has_ended(found):
            return found
        self._commit(head, time.time() + self._reader.thresholds.ingest.lease_seconds)
        return None

    @contextmanager
    def kept(self, lost: Callable[[], None]) -> Iterator[None]:
        """While this lasts, signs of life are given in time, however long a batch takes or the source has no events.

        `lost` is called when another process has taken over; ConfigError is raised at the end then.
        """
        ended = threading.Event()
        others: list[Held] = []

        def keep() -> None:
            while not others and not ended.wait(self._reader.thresholds.ingest.lease_renewal_seconds):
                try:
                    others.extend(filter(None, [self.take()]))
                except Exception as error:
                    # The next sign may get through; what can't be done at all fails in the work itself.
                    LOG.debug("the lease in %s was not renewed: %s", self.table, error)
            if others:
                lost()

        keeper = threading.Thread(target=keep, name="lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()
        if others:
            raise taken(self.table, others[0])

    def renew(self) -> None:
        """Gives a sign of life where it is time for one; raises ConfigError where another process has taken over."""
        if time.time() < self._renew_at:
            return
        other = self.take()
        if other is not None:
            raise taken(self.table, other)

    def end(self) -> None:
        """Gives the lease up, if this process has it; it runs out by itself where that fails."""
        with suppress(ArcticError, *SPARK_ERRORS):
            head, found = self._observe()
            if found is not None and found.holder == self.holder:
                self._commit(head, 0.0)

    def _commit(self, head: int, until: float) -> None:
        spark = self._spark()
        summary = {LEASE: self.holder, LEASE_UNTIL: str(round(until * 1000))}
        attempt = Attempt(spark, self._reader, uuid.uuid4().hex[:12], self._reader.thresholds.commits)

        def write(branch: tuple[str, ...]) -> None:
            nothing = spark.table(name(*self.table.parts)).limit(0)
            writer = nothing.writeTo(name(*branch)).options(**said(summary))
            effect("ingest.lease", writer.append, f"take the lease in {self.table}", SPARK)

        swap_in(attempt, self.table, head, write)
        self._tidy()
        self._renew_at = time.time() + self._reader.thresholds.ingest.lease_renewal_seconds

    def _tidy(self) -> None:
        """Expires old snapshots of the table, of which each sign makes one, when there are many."""
        limits = self._reader.thresholds.ingest
        table = self._reader.load_table(self.table.schema, self.table.name)
        parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots}
        if len(parents) <= limits.dead_letter_snapshots:
            return
        line, at = [], table.metadata.current_snapshot_id
        while at in parents:
            line.append(at)
            at = parents[at]
        old = tuple(snapshot for snapshot in line[limits.kept_dead_letter_snapshots :] if snapshot is not None)
        if old:
            expire_snapshots(ExpireSnapshots(self.table, old), self._spark())

    def _observe(self) -> tuple[int, Held | None]:
        """The head of the table, and the newest lease in its history."""
        table = self._reader.load_table(self.table.schema, self.table.name)
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        head = table.metadata.current_snapshot_id
        at = snapshots.get(head) if head is not None else None
        while at is not None:
            summary = at.summary
            holder = summary[LEASE] if summary else None
            if summary and holder:
                return head or 0, Held(str(holder), int(summary[LEASE_UNTIL] or 0) / 1000)
            at = snapshots.get(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
        assert head is not None
        return head, None


def _has_ended(lease: Held) -> bool:
    """Whether the holder was a process of this machine that is no more."""
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


def taken(table: TableName, by: Held) -> ConfigError:
    """The error of a process whose source is ingested by another one."""
    host, process, _ = by.holder.split(":")
    return ConfigError(
        f"another process ingests this source.\n  found: process {process} on {host}, by its lease in {table}\n"
        "  what to do: let that process do it, or end it; without a sign of life its lease runs out after a minute"
    )
