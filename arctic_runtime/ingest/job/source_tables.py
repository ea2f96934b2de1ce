"""The tables of a source: the declared tables, and the tables of its database that its config includes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import Connection
from arctic_runtime.ingest.transports.transport import LoadsTables
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.ingest.writing.table_writer import TableWriter
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SourceTables:
    """The known tables of a source; `writers` has the writer of each by the table's name in the source."""

    def __init__(
        self, source: IngestSource, connection: Connection, reader: CatalogReader, spark: Callable[[], SparkSession]
    ) -> None:
        self.writers: dict[str, TableWriter] = {}
        self._source = source
        self._connection = connection
        self._reader = reader
        self._spark = spark
        self._look_at = 0.0
        self._add_tables(source.tables)

    @property
    def names(self) -> dict[str, TableName]:
        """The name of each arctic table, by the name of the table in the source."""
        return {name: writer.table.table for name, writer in self.writers.items()}

    def find_by_model(self, names: Collection[str]) -> set[str]:
        """The names in the source of the tables whose names in the project are `names`."""
        return {name for name, writer in self.writers.items() if writer.table.name in names}

    def is_look_due(self) -> bool:
        """Whether it is time to look for new tables at the source."""
        return time.monotonic() > self._look_at

    def discover_tables(self, progress: Progress) -> None:
        """Adds the tables of the source's database that its config includes and that are not known yet."""
        transport = self._connection.transport
        if not isinstance(transport, LoadsTables):
            return
        self._look_at = time.monotonic() + self._reader.thresholds.ingest.look_seconds
        if not self._source.include:
            return
        names = {table.full_name for table in transport.list_catalog()}
        if not self._connection.transport.begins_with_snapshot(str(progress.position)):
            # There may still be events of a table that was dropped.
            names |= progress.tables or frozenset()
        included = self._source.list_included_tables(names)
        self._add_tables([table for table in included if table.source_name not in self.writers])

    def list_unstreamed(self, progress: Progress) -> set[str]:
        """The tables that the source's stream does not read yet; empty if the transport can't load single tables."""
        if not isinstance(self._connection.transport, LoadsTables):
            return set()
        if progress.tables is None:  # an earlier version kept no list
            return {name for name, writer in self.writers.items() if not writer.is_loaded}
        return {*self.writers} - progress.tables - {*progress.waits}

    def list_requested(self, dead_letters: DeadLetterTable) -> set[str]:
        """The tables for which a user has requested another load; empty if the transport can't load single tables."""
        can_load = isinstance(self._connection.transport, LoadsTables)
        return {*self.writers} & dead_letters.list_requested_tables() if can_load else set()

    def _add_tables(self, tables: Iterable[IngestedTable]) -> None:
        for table in tables:
            target = TableTarget(table, self._reader, self._spark, self._connection.form)
            self.writers[table.source_name] = TableWriter(target)
