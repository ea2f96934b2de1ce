"""The dead letter table of a source: events that could not be applied, and how far all of its tables are."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observe import observe_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import effect
from arctic_runtime.ingest.transports.transport import ORIGIN, PAYLOAD
from arctic_runtime.ingest.writing.decode import REASON
from arctic_runtime.model.ingestion import Progress
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KIND, POSITION
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.tables.commit import said, set_properties
from arctic_runtime.spark.tables.frames import all_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

COLUMNS = "`table` string, reason string, payload binary, origin string, at timestamp"
"""Columns of a dead letter table: the source's table, why the event could not be applied, its bytes as they came, where
the source has them, and when they were read."""


_IDENTITY = ("table", "payload", "origin")


class Ledger:
    """The dead letter table of a source. Its properties hold the progress, which is written after every table's."""

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table
        self._reader = reader
        self._spark = spark

    def progress(self) -> Progress:
        """The progress of the source; none before the first batch. Needs no Spark."""
        found = observe_progress(self._reader, self.table)
        return found.progress if found else Progress()

    def dead(self) -> int:
        """The number of dead letters that are kept. Needs no Spark."""
        found = observe_progress(self._reader, self.table)
        return found.dead_letters if found else 0

    def ensure(self) -> None:
        """Creates the table, without rows, where there is none."""
        if self._load() is not None:
            return
        empty = self._spark().createDataFrame([], COLUMNS)
        writer = empty.writeTo(name(*self.table.parts)).using("iceberg").tableProperty("format-version", "3")
        writer = writer.tableProperty(KIND, "dead letters")
        effect("ingest.create_dead_letters", writer.createOrReplace, f"create {self.table}", SPARK)

    def advance(self, progress: Progress) -> None:
        """Says that all tables have everything up to a position."""
        set_properties("ingest.advance", self._spark(), self.table, progress.encode())

    def add(self, decoded: DataFrame, source_table: str, position: str, now: datetime.datetime) -> None:
        """Appends the dead letters among decoded events, read up to a position, unless they are there already.

        A process that died after it had appended them reads them once more; payload and origin identify them.
        """
        found = decoded.where(F.col(REASON).isNotNull()).select(
            F.lit(source_table).alias("table"),
            F.col(REASON).alias("reason"),
            F.col(PAYLOAD).cast("binary").alias("payload"),
            F.col(ORIGIN).alias("origin"),
            F.lit(now).cast("timestamp").alias("at"),
        )
        kept = self._spark().table(name(*self.table.parts)).select(*_IDENTITY)
        is_kept = all_of([found[own].eqNullSafe(kept[own]) for own in _IDENTITY])
        rows = found.join(kept, is_kept, "left_anti")
        writer = rows.writeTo(name(*self.table.parts)).options(**said({POSITION: position}))
        effect("ingest.append_dead_letters", writer.append, f"append dead letters to {self.table}", SPARK)

    def _load(self) -> Table | None:
        if self._reader.list_relations(self.table.schema).get(self.table.name) != "table":
            return None
        return self._reader.load_table(self.table.schema, self.table.name)
