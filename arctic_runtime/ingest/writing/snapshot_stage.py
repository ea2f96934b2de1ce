"""The rows of a snapshot are collected alongside a table that has rows already, until the snapshot is whole.

A table that is loaded for the first time needs none: rows are inserted as they come. One that is loaded again, since a
snapshot was interrupted or asked for, keeps what it has until all rows are there, and then gets the difference,
with the deletion of rows that the source no longer has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import perform_effect
from arctic_runtime.model.columns import OWN_PREFIX
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.java_errors import SPARK
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.internal import create_internal_writer

_RUN = f"{OWN_PREFIX}run"


class SnapshotStage:
    """The table in which the rows of a snapshot of one table are collected.

    A process that continues although another has taken over may add rows as well: each reads its own only.
    """

    def __init__(self, table: TableName, reader: CatalogReader, spark: Callable[[], SparkSession]) -> None:
        self.table = table.staging_name
        self._reader = reader
        self._spark = spark
        self._token = uuid.uuid4().hex

    @property
    def _exists(self) -> bool:
        return self.table.name in self._reader.list_relations(self.table.schema)

    def append_rows(self, rows: DataFrame) -> None:
        """Collects rows; columns that earlier ones did not have are added."""
        writer = rows.withColumn(_RUN, F.lit(self._token)).writeTo(quote_name(*self.table.parts))
        if self._exists:
            merged = writer.option("mergeSchema", "true")
            perform_effect("ingest.stage", merged.append, f"append to {self.table}", SPARK)
            return
        writer = create_internal_writer(writer, "snapshot", {"write.spark.accept-any-schema": "true"})
        perform_effect("ingest.create_stage", writer.createOrReplace, f"create {self.table}", SPARK)

    def read_rows(self, key: tuple[str, ...]) -> DataFrame | None:
        """Returns all rows that this process collected, one per key if there is one; None without any."""
        if not self._exists:
            return None
        own = self._spark().table(quote_name(*self.table.parts)).where(F.col(_RUN) == self._token).drop(_RUN)
        return own.dropDuplicates(list(key)) if key else own

    def drop_rows(self) -> None:
        """Drops the collected rows."""
        if self._exists:
            drop = fill_statement("DROP TABLE IF EXISTS {table} PURGE", table=quote_name(*self.table.parts))
            perform_statement("ingest.drop_stage", self._spark(), drop)
