"""The lease on a source, which makes only one process ingest it; properties of the dead letter table store it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from pyspark.sql import SparkSession

from arctic_runtime.catalog.lease import Held, Lease, LeaseTimes
from arctic_runtime.catalog.metadata_commits import Metadata, commit_metadata
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CommitConflict, ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS
from arctic_runtime.spark.tables.commit import set_properties


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
        self._lease = Lease(_LeaseProperties(table, reader, spark), times, holder)

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


class _LeaseProperties:
    """Stores the lease in properties of the dead letter table.

    Each renewal is a commit without a task of Spark, which would wait until the tasks of a long batch have ended.
    """

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self._table = table
        self._reader = reader
        self._spark = spark

    def observe_lease(self) -> Held | None:
        return Held.decode(self._reader.load_table(self._table.schema, self._table.name).properties)

    def commit_lease(self, former: Held | None, lease: Held) -> None:
        """Commits a lease in the place of `former`; raises CommitConflict if the table has another one by now.

        In a catalog with a database this is a compare-and-swap. Iceberg has none for properties in other catalogs,
        where the last of two processes that commit at the same time gets the lease.
        """
        if self._reader.is_database and self._reader.can_change_refs:
            self._reader.perform_change(
                "ingest.lease",
                f"take the lease in {self._table}",
                lambda: commit_metadata(self._reader, self._table, partial(self._replace_lease, former, lease)),
            )
            return
        self._require_lease(former, self.observe_lease())
        set_properties("ingest.lease", self._spark(), self._table, lease.encode())
        self._require_lease(lease, self.observe_lease())

    def _replace_lease(self, former: Held | None, lease: Held, metadata: Metadata) -> Metadata:
        properties = metadata.get("properties", {})
        self._require_lease(former, Held.decode(properties))
        return {**metadata, "properties": {**properties, **lease.encode()}}

    def _require_lease(self, expected: Held | None, stored: Held | None) -> None:
        if (stored and stored.encode()) != (expected and expected.encode()):
            raise CommitConflict(f"another process has changed the lease in {self._table}.")


def lease_taken_error(table: TableName, by: Held) -> ConfigError:
    """Builds the error of a process that does not get the lease, since the process in `by` ingests the source."""
    return ConfigError(
        "another process ingests this source.",
        actual=f"{by.process}, by its lease in {table}",
        fix="let that process do it, or end it; without a sign of life its lease runs out after a minute",
    )
