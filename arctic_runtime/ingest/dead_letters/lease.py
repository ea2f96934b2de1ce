"""The lease on a source, which makes only one process ingest it; it is stored in commits to the dead letter table."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from arctic_runtime.catalog.lease import Held, Lease, LeaseTimes, find_newest_lease, walk_main_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.files.expiry import ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.spark.engine.java.java_errors import SPARK, SPARK_ERRORS
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.commit import Attempt, build_summary_options, drop_branches, swap_in
from arctic_runtime.spark.tables.snapshots import expire_snapshots

if TYPE_CHECKING:
    from pyiceberg.table import Table


class SourceLease:
    """The lease by which this process alone ingests the source of a dead letter table.

    Correctness does not depend on the lease: each commit to a table is a compare-and-swap that stores a source
    position. The lease prevents a second process from doing the same work, and from taking over the source's
    connection.
    """

    def __init__(
        self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession], holder: str | None = None
    ) -> None:
        limits = reader.thresholds.ingest
        times = LeaseTimes(limits.lease_seconds, limits.lease_renewal_seconds, reader.thresholds.commits.attempts)
        self.table = table
        self._lease = Lease(_LeaseCommits(table, reader, spark), times, holder)

    @property
    def holder(self) -> str:
        return self._lease.holder

    def take_lease(self) -> Held | None:
        """Takes the lease and returns None; if another process has the lease, returns that lease.

        The other process may have died since it last renewed its lease. Raises CommitConflict if other commits to the
        table always come first.
        """
        return self._lease.take_lease()

    def is_own(self) -> bool:
        """Whether no other process has taken the lease. Needs no Spark."""
        return self._lease.is_own()

    def renew_lease(self) -> None:
        """Renews the lease if it is due; raises ConfigError if another process has taken it."""
        if (other := self._lease.renew_lease()) is not None:
            raise lease_taken_error(self.table, other)

    @contextmanager
    def renew_in_background(self, lost: Callable[[], None]) -> Iterator[None]:
        """Renews the lease in a thread until the context ends, however long a batch takes.

        If another process takes the lease, calls `lost`, and raises ConfigError at the end of the context.
        """
        others: list[Held] = []

        def note_loss(other: Held) -> None:
            others.append(other)
            lost()

        with self._lease.keep_alive(note_loss):
            yield
        if others:
            raise lease_taken_error(self.table, others[0])

    def end_lease(self) -> None:
        """Ends the lease if this process has it; if that fails, the lease expires by itself."""
        with suppress(*SPARK_ERRORS):
            self._lease.end_lease()


class _LeaseCommits:
    """Stores the lease in the summaries of commits to the dead letter table; each renewal is a commit."""

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self._table = table
        self._reader = reader
        self._spark = spark

    def observe_lease(self) -> tuple[int | None, Held | None]:
        table = self._reader.load_table(self._table.schema, self._table.name)
        return find_newest_lease(table)

    def commit_lease(self, head: int | None, lease: Held) -> None:
        spark = self._spark()
        attempt = Attempt(spark, self._reader, uuid.uuid4().hex[:12], self._reader.thresholds.commits)

        def write(branch: tuple[str, ...]) -> None:
            nothing = spark.table(quote_name(*self._table.parts)).limit(0)
            writer = nothing.writeTo(quote_name(*branch)).options(**build_summary_options(lease.encode()))
            perform_effect("ingest.lease", writer.append, f"take the lease in {self._table}", SPARK)

        assert head is not None
        swap_in(attempt, self._table, head, write)
        self._expire_old_snapshots()

    def _expire_old_snapshots(self) -> None:
        """Expires old snapshots of the dead letter table if it has many, since each renewal of the lease adds one.

        A process that died while it took the lease has left a branch. The snapshots of branches and tags are kept, and
        old branches are dropped. If another writer is faster, a later renewal expires the snapshots.
        """
        limits = self._reader.thresholds.ingest
        table = self._reader.load_table(self._table.schema, self._table.name)
        if len(table.metadata.snapshots) <= limits.dead_letter_snapshots:
            return
        left = _list_left_branches(table, time.time() - self._reader.thresholds.expiry.abandoned_branch_seconds)
        drop_branches(self._spark(), self._reader, self._table, left)
        newest = [snapshot.snapshot_id for snapshot in walk_main_branch(table)][: limits.kept_dead_letter_snapshots]
        kept = {*newest, *(ref.snapshot_id for name, ref in table.metadata.refs.items() if name not in left)}
        ids = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
        if old := tuple(snapshot for snapshot in ids if snapshot not in kept):
            with suppress(CommitConflict):
                expire_snapshots(ExpireSnapshots(self._table, old), self._spark())


def _list_left_branches(table: Table, before: float) -> tuple[str, ...]:
    """Lists branches of attempts that a process left behind before a time, in seconds since 1970.

    Their age is that of their newest snapshot, for the commits of main after it may have expired.
    """
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in table.metadata.snapshots}
    current = table.metadata.current_snapshot_id
    return tuple(
        sorted(
            name
            for name, ref in table.metadata.refs.items()
            if name.startswith(BRANCH_PREFIX)
            and ref.snapshot_ref_type == "branch"
            and ref.snapshot_id != current
            and times[ref.snapshot_id] < before * 1000
        )
    )


def lease_taken_error(table: TableName, by: Held) -> ConfigError:
    """Builds the error of a process that does not get the lease, since the process in `by` ingests the source."""
    return ConfigError(
        "another process ingests this source.",
        actual=f"{by.process}, by its lease in {table}",
        fix="let that process do it, or end it; without a sign of life its lease runs out after a minute",
    )
