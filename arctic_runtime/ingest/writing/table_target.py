"""The table to which events are written, with a primary key or without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.catalog.observation.tables import observe_key
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.required_capabilities import check_needs
from arctic_runtime.ingest.formats.event_format import Format
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.ingest.writing.keyed import KeyedTable
from arctic_runtime.ingest.writing.keyless import KeylessTable
from arctic_runtime.model.table import Model
from arctic_runtime.spark.tables.table_session import TableSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TableStorage = KeyedTable | KeylessTable


@dataclass(frozen=True)
class TableTarget:
    """An ingested table, with the objects needed to write it: catalog reader, Spark session, and event format."""

    table: IngestedTable
    reader: CatalogReader
    spark: Callable[[], SparkSession]
    form: Format

    @property
    def attempts(self) -> int:
        """Maximum number of attempts of a commit, in case other writers commit first."""
        return self.reader.thresholds.commits.attempts

    def find_stored_key(self) -> tuple[str, ...] | None:
        """Returns the primary key of the stored table, () if it has none; None if there is no table. Needs no Spark."""
        return observe_key(self.reader, self.table.table)

    def open_storage(self, model: Model) -> TableStorage:
        """Opens the table for writing, with a primary key or without, according to `model`.

        Raises ConfigError if the catalog lacks a feature that the table needs.
        """
        check_needs(self.reader, model)
        session = TableSession(model, self.reader, self.spark)
        return KeylessTable(session) if model.is_appended else KeyedTable(session)

    def open_by_key(self, key: tuple[str, ...]) -> TableStorage:
        """Opens the table for writing with the primary key `key`; () for a table without a key."""
        return self.open_storage(self.table.to_model(key))
