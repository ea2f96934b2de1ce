"""Upkeep of the tables that `arctic ingest` writes: compacts and expires their files while batches are ingested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.upkeep import Maintained
from arctic_runtime.plan.maintenance.upkeep import UpkeepBudget
from arctic_runtime.service.shared_state import SharedState
from arctic_runtime.service.upkeep import UpkeepRunner
from arctic_runtime.spark.engine.session_pool import SessionPool
from dbt.adapters.arctic.project.sources import list_ingested_models

if TYPE_CHECKING:
    from arctic_runtime.ingest.job.reports import BatchReport

Readers = Callable[[TableName], tuple[TableName, ...]]


class IngestedUpkeep:
    """Maintains the tables of sources, one job at a time, while batches are ingested.

    `readers` returns the models that may read a table; versions that they have not read yet do not expire.
    """

    def __init__(
        self, sources: Sequence[IngestSource], readers: Readers, reader: CatalogReader, sessions: SessionPool
    ) -> None:
        self._sources = sources
        self._readers = readers
        self._reader = reader
        self._tables = {(source.name, table.name): table.table for source in sources for table in source.tables}
        self._known: frozenset[TableName] = frozenset()
        self._runner = UpkeepRunner(SharedState(reader), sessions, UpkeepBudget())

    def note_batch(self, source: str, batch: BatchReport) -> None:
        """Records that a batch was written, so that its tables are checked for due upkeep soon."""
        written = {
            table
            for table_batch in batch.tables
            if (table := self._tables.get((source, table_batch.table))) is not None
        }
        if written - self._known:
            self._set_tables()
        for table in written:
            self._runner.note_write(table)

    @contextmanager
    def run_in_background(self) -> Iterator[None]:
        """Performs due upkeep in a thread of its own until the context ends."""
        over = threading.Event()
        self._set_tables()
        running = threading.Thread(target=self._runner.run_until, args=(over,), name="upkeep")
        running.start()
        try:
            yield
        finally:
            over.set()
            running.join()

    def run_once(self) -> None:
        """Performs the upkeep that is due at present."""
        self._set_tables()
        self._runner.find_due()
        for due in self._runner.begin_due():
            self._runner.perform_due(due)

    def _set_tables(self) -> None:
        models = list_ingested_models(self._sources, self._reader)
        self._known = frozenset(model.table for model in models)
        self._runner.set_tables([Maintained(model, self._readers(model.table)) for model in models])
