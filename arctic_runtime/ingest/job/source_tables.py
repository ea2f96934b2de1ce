"""The tables of a source: the declared tables, and the tables of its database that its config includes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.dead_letters.table import DeadLetterTable
from arctic_runtime.ingest.source import IngestedTable, IngestSource
from arctic_runtime.ingest.transports.connector import SourceConnection
from arctic_runtime.ingest.transports.transport import LoadsTables
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.ingest.writing.table_writer import TableWriter
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.ingestion import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SourceTables:
    """The known tables of a source; `writers` maps a table's name in the source to its writer.

    `declared` are the names, in the source, of the tables that the project declares.
    """

    def __init__(
        self,
        source: IngestSource,
        connection: SourceConnection,
        reader: CatalogReader,
        spark: Callable[[], SparkSession],
    ) -> None:
        self.writers: dict[str, TableWriter] = {}
        self.declared = frozenset(table.source_name for table in source.tables)
        self._source = source
        self._connection = connection
        self._reader = reader
        self._spark = spark
        self._look_at = 0.0
        self._add_tables(source.tables)

    @property
    def names(self) -> dict[str, TableName]:
        """Maps each table's name in the source to the name of its arctic table."""
        return {name: writer.table.table for name, writer in self.writers.items()}

    @property
    def source_names(self) -> dict[str, str]:
        """Maps each table's name in the dbt project to its name in the source."""
        return {writer.table.name: name for name, writer in self.writers.items()}

    def find_by_model(self, names: Collection[str]) -> set[str]:
        """Converts names of tables in the dbt project to their names in the source; unknown names are left out."""
        return {name for name, writer in self.writers.items() if writer.table.name in names}

    def is_look_due(self) -> bool:
        """Whether the time `look_seconds` has passed since the last look for new tables at the source."""
        return time.monotonic() > self._look_at

    def discover_tables(self, progress: Progress) -> None:
        """Adds the tables of the source's database that match its setting `include` and are not known yet.

        If the stream has begun, the tables that `progress` lists are kept even if they were dropped at the source.
        """
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
        """Returns the names, in the source, of the tables that its stream does not read yet.

        Tables that wait until a user loads them again are left out. Empty if the transport can't load single tables.
        """
        if not isinstance(self._connection.transport, LoadsTables):
            return set()
        if progress.tables is None:  # progress saved by an earlier release has no list
            return {name for name, writer in self.writers.items() if not writer.is_loaded} - {*progress.waits}
        return {*self.writers} - progress.tables - {*progress.waits}

    def list_requested(self, dead_letters: DeadLetterTable) -> set[str]:
        """Returns the names, in the source, of the tables that a user has requested to load again.

        Empty if the transport can't load single tables.
        """
        can_load = isinstance(self._connection.transport, LoadsTables)
        return {*self.writers} & dead_letters.list_requested_tables() if can_load else set()

    def _add_tables(self, tables: Iterable[IngestedTable]) -> None:
        for table in tables:
            target = TableTarget(table, self._reader, self._spark, self._connection.form)
            self.writers[table.source_name] = TableWriter(target)
