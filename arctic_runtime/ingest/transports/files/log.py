"""The file log of a source: a table of the files in each batch, which shows the files that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect
from arctic_runtime.ingest.transports.files.listing import SourceFile
from arctic_runtime.model.files.expiry import ExpireSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.internal import InternalTable, create_internal_table
from arctic_runtime.spark.tables.steps import expire_snapshots

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

COLUMNS = "batch bigint, path string, bytes bigint, modified bigint"
"""Columns of the table: batch number from 1, path below the source's folder, size in bytes, modification time.

The modification time is in microseconds since 1970.
"""


class FileLog(Protocol):
    """Interface of the durable record of the files in each batch.

    A batch that `add_batch` has added stays in the record even if the process dies.
    """

    def list_batches(self) -> Mapping[int, tuple[SourceFile, ...]]:
        """Returns all batches by their numbers, each with its files in the order of their paths."""

    def add_batch(self, batch: int, files: Iterable[SourceFile]) -> None:
        """Writes the files of a batch to the log, before any of them is read."""


class FileTable:
    """A FileLog in an Iceberg table, which from time to time is rewritten to one data file and one snapshot."""

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table
        self._reader = reader
        self._spark = spark

    def list_batches(self) -> Mapping[int, tuple[SourceFile, ...]]:
        """Reads all batches from the table, without Spark; empty if the table does not exist yet."""
        if not self._is_there():
            return {}
        files_by_batch: dict[int, set[SourceFile]] = {}
        for row in self._load_table().scan().to_arrow().to_pylist():
            # An append whose answer was lost may have been sent twice.
            files_by_batch.setdefault(row["batch"], set()).add(SourceFile(row["path"], row["bytes"], row["modified"]))
        return {batch: tuple(sorted(files)) for batch, files in sorted(files_by_batch.items())}

    def add_batch(self, batch: int, files: Iterable[SourceFile]) -> None:
        """Appends the files of a batch to the table; raises CommitConflict if the catalog stays locked."""
        if not self._is_there():
            internal = InternalTable(self.table, "file log")
            create_internal_table("ingest.create_file_log", self._reader, internal, self._build_rows({}))
        writer = self._build_writer({batch: tuple(files)})
        perform_effect("ingest.append_file_log", writer.append, f"append batch {batch} to {self.table}", SPARK)
        self._expire_snapshots()

    def _expire_snapshots(self) -> None:
        snapshots = self._load_table().snapshots()
        if len(snapshots) <= self._reader.thresholds.transports.file_log_snapshots:
            return
        newest = str(snapshots[-1].snapshot_id)
        writer = self._build_writer(self.list_batches())
        writer = writer.options(**{"isolation-level": "serializable", "validate-from-snapshot-id": newest})
        perform_effect("ingest.rewrite_file_log", lambda: writer.overwrite(F.lit(True)), f"rewrite {self.table}", SPARK)
        replaced = tuple(snapshot.snapshot_id for snapshot in snapshots)
        expire_snapshots(ExpireSnapshots(self.table, replaced), self._spark())

    def _build_writer(self, batches: Mapping[int, tuple[SourceFile, ...]]) -> DataFrameWriterV2:
        return self._build_rows(batches).writeTo(quote_name(*self.table.parts))

    def _build_rows(self, batches: Mapping[int, tuple[SourceFile, ...]]) -> DataFrame:
        rows = [(batch, file.path, file.bytes, file.modified) for batch, files in batches.items() for file in files]
        return self._spark().createDataFrame(rows, COLUMNS).coalesce(1)

    def _load_table(self) -> Table:
        return self._reader.load_table(self.table.schema, self.table.name)

    def _is_there(self) -> bool:
        return self._reader.list_relations(self.table.schema).get(self.table.name) == "table"
