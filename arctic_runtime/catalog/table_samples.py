"""Samples of the freshness and the rows of all tables over days, as rows of the service's table.

A sample is a row for each table at one moment. All rows of a day (UTC) are one data file: each new sample replaces the
file of its day by one with a sample more, and drops the files of days that are too old, in one commit. So there is a
commit for each sample however many tables there are, a table's history is read from one file for each day, and nothing
has to be compacted. The files that were replaced are deleted at once, though snapshots of the last minutes still name
them: those snapshots only matter for the lease and the pauses in their summaries. Everybody can query the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.manifests import list_manifests, read_inherited_entries
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table, Transaction


@dataclass(frozen=True, order=True)
class TableSample:
    """State of a table at the time `sampled_at`; the fields are the columns of the service's table."""

    sampled_at: datetime
    table_name: str
    rows: int
    stale_seconds: float | None
    """Seconds since the time as of which the table showed its sources; None if that was not known."""

    state: str


_COLUMNS = tuple(field.name for field in fields(TableSample))


def get_day(at: datetime) -> datetime:
    """Returns the begin of the day of `at`, in UTC."""
    return datetime.combine(at.astimezone(timezone.utc).date(), time(), timezone.utc)


class TableSamples:
    """Writes and reads the samples in the service's table `name`, without Spark."""

    def __init__(self, name: TableName, reader: CatalogReader) -> None:
        self._name = name
        self._reader = reader

    def read_samples(self, since: datetime, table: str | None = None) -> list[TableSample]:
        """Reads the samples from `since` on, of all tables or of the one named `table`, oldest first."""
        from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, Reference
        from pyiceberg.expressions.literals import literal

        of_table: BooleanExpression = (
            AlwaysTrue() if table is None else EqualTo(term=Reference("table_name"), value=literal(table))
        )
        condition = And(GreaterThanOrEqual(term=Reference("sampled_at"), value=literal(since.isoformat())), of_table)
        with suppress(FileNotFoundError):
            return self._scan_samples(condition)
        # The file of this day was replaced after the scan was planned.
        return self._scan_samples(condition)

    def replace_days(self, samples: Sequence[TableSample], oldest: datetime) -> None:
        """Replaces all stored samples from the first to the last day of `samples`, and drops those before `oldest`.

        These are one day, or more if a clock was set back over midnight.
        Raises CommitConflict if other commits to the table come first at every attempt.
        """
        retry_on_conflict(lambda: self._replace_once(samples, oldest), self._reader.thresholds.commits.attempts)

    def _scan_samples(self, condition: BooleanExpression) -> list[TableSample]:
        table = self._load_table()
        if not _has_columns(table):
            return []
        rows = table.scan(row_filter=condition, selected_fields=_COLUMNS).to_arrow()
        return sorted(TableSample(**row) for row in rows.to_pylist())

    def _replace_once(self, samples: Sequence[TableSample], oldest: datetime) -> None:
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan, Or, Reference
        from pyiceberg.expressions.literals import literal

        table = self._load_table()
        if not _has_columns(table):
            self._add_columns(table)
            table = self._load_table()
        days, sampled_at = sorted(get_day(sample.sampled_at) for sample in samples), Reference("sampled_at")
        these_days = And(
            GreaterThanOrEqual(term=sampled_at, value=literal(days[0].isoformat())),
            LessThan(term=sampled_at, value=literal((days[-1] + timedelta(days=1)).isoformat())),
        )
        outdated = Or(these_days, LessThan(term=sampled_at, value=literal(get_day(oldest).isoformat())))
        replaced = [task.file.file_path for task in table.scan(row_filter=outdated).plan_files()]

        def write_rows() -> None:
            transaction = table.transaction()
            if replaced:
                transaction.overwrite(_to_arrow(samples), overwrite_filter=outdated)
            else:
                transaction.append(_to_arrow(samples))
            added = list(_list_added_files(transaction))
            try:
                transaction.commit_transaction()
            except CommitFailedException as error:
                _delete_files(table, added)
                raise CommitConflict(f"Another commit to {self._name} was faster.", actual=str(error)) from error

        self._reader.perform_change("service.commit", f"write samples to {self._name}", write_rows)
        self._reader.perform_change(
            "service.expire", f"delete replaced samples of {self._name}", lambda: _delete_files(table, replaced)
        )

    def _add_columns(self, table: Table) -> None:
        """Adds the columns of samples to a table that was created without columns."""
        from pyiceberg.exceptions import CommitFailedException
        from pyiceberg.types import DoubleType, LongType, StringType, TimestamptzType

        types = (TimestamptzType(), StringType(), LongType(), DoubleType(), StringType())

        def add_columns() -> None:
            try:
                with table.update_schema() as update:
                    for name, column_type in zip(_COLUMNS, types, strict=True):
                        update.add_column(name, column_type)
            except CommitFailedException as error:
                raise CommitConflict(f"Another commit to {self._name} was faster.", actual=str(error)) from error

        self._reader.perform_change("service.commit", f"add columns to {self._name}", add_columns)

    def _load_table(self) -> Table:
        return self._reader.load_table(self._name.schema, self._name.name)


def _has_columns(table: Table) -> bool:
    return set(_COLUMNS) <= {field.name for field in table.schema().fields}


def _to_arrow(samples: Sequence[TableSample]) -> pa.Table:
    import pyarrow as pa

    types = (pa.timestamp("us", "UTC"), pa.string(), pa.int64(), pa.float64(), pa.string())
    # Sorted by table, so that the history of one is next to each other in the file.
    ordered = sorted(samples, key=lambda sample: (sample.table_name, sample.sampled_at))
    columns = [
        pa.array([getattr(sample, name) for sample in ordered], column_type)
        for name, column_type in zip(_COLUMNS, types, strict=True)
    ]
    return pa.table(columns, names=list(_COLUMNS))


def _list_added_files(transaction: Transaction) -> Iterator[str]:
    """Yields the data files that the newest snapshot of a transaction adds."""
    table = transaction._table
    snapshot = transaction.table_metadata.current_snapshot()
    for manifest in list_manifests(table, snapshot) if snapshot is not None else ():
        if snapshot is not None and manifest.added_snapshot_id == snapshot.snapshot_id:
            yield from (entry.data_file.file_path for entry in read_inherited_entries(table, manifest))


def _delete_files(table: Table, paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            table.io.delete(path)
