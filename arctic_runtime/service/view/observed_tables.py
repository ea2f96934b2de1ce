"""State of tables as last read from the catalog, cached until a table changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from arctic_runtime.catalog.heads import SharedHeads
from arctic_runtime.catalog.observation.table_facts import observe_facts
from arctic_runtime.catalog.observation.table_size import UnmergedRows
from arctic_runtime.catalog.observation.tables import observe_progress
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.sources.freshness import TableFacts
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import Status, read_status
from arctic_runtime.service.project_source import ProjectSource
from arctic_runtime.service.refreshing.model_records import Heads
from arctic_runtime.service.refreshing.source_relations import list_relations


@dataclass(frozen=True)
class ObservedTable:
    """State of a table, read from its newest commits; `status` is None for a table that is not a model's."""

    facts: TableFacts
    status: Status | None = None

    @property
    def changed_at(self) -> datetime | None:
        """The time of the newest commit that changed rows; None if there is none."""
        return time_of(self.facts.with_rows[-1].at_ms) if self.facts.with_rows else None

    def count_rows_since(self, at_ms: float) -> int:
        """Number of rows that were changed since `at_ms`, in milliseconds since 1970."""
        return sum(commit.rows for commit in reversed(self.facts.with_rows) if commit.at_ms >= at_ms)


class ObservedTables:
    """Caches the state of tables by name; `observe_moved` reads a table again if it has changed."""

    def __init__(self, reader: CatalogReader, heads: SharedHeads) -> None:
        self._reader = reader
        self._shared_heads = heads
        self._counts = UnmergedRows(reader)
        self._heads: Heads = {}
        self.tables: dict[TableName, ObservedTable] = {}
        self.readable: frozenset[TableName] = frozenset()
        """Names under which a table or view exists.

        While a table is being created, only its helper relations exist, so it is not among these names yet.
        """

    def observe_moved(self, models: Mapping[TableName, Model], others: Iterable[TableName]) -> set[TableName]:
        """Reads the tables in `models` and `others` that have changed since the last call, and returns their names.

        Tables that are in neither are removed. Raises CatalogError if the catalog does not answer.
        """
        names = {*models, *others}
        relations = {name: _list_relations(name, models.get(name)) for name in names}
        age = self._reader.thresholds.service.poll_seconds
        heads = self._shared_heads.get_recent(
            "tables", {table_name for observed in relations.values() for table_name in observed}, age
        ).heads
        moved = {
            name
            for name, table_name in relations.items()
            if name not in self.tables or any(heads.get(one) != self._heads.get(one) for one in table_name)
        }
        tables_kept = {
            name: table_name for name, table_name in self.tables.items() if name in names and name not in moved
        }
        for name in moved:
            observed = None
            if any(relation in heads for relation in relations[name]):
                with suppress(ArcticError):
                    observed = self._observe_table(name, models.get(name))
            if observed is not None:
                tables_kept[name] = observed
        self.tables, self._heads = tables_kept, heads
        self.readable = frozenset(names & heads.keys())
        return moved & tables_kept.keys()

    def list_held(self, sources: Iterable[ProjectSource]) -> frozenset[TableName]:
        """Lists the tables of sources that do not exist and wait to be loaded for the first time.

        Reads the progress of a source only if a table of it does not exist.
        """
        held: set[TableName] = set()
        for source in sources:
            absent = {table: name for table, name in source.names.items() if table not in self.readable}
            progress = observe_progress(self._reader, source.dead_letters) if absent and source.dead_letters else None
            waits = progress.progress.waits if progress is not None else {}
            held |= {table for table, name in absent.items() if name in waits}
        return frozenset(held)

    def _observe_table(self, name: TableName, model: Model | None) -> ObservedTable | None:
        facts = observe_facts(self._reader, name, model)
        if facts is None or model is None or model.is_landing:
            return None if facts is None else ObservedTable(facts)
        return ObservedTable(facts, read_status(self._reader, model, (), self._counts))


def _list_relations(name: TableName, model: Model | None) -> tuple[TableName, ...]:
    """Returns the relations whose versions show a change of the table `name`.

    These are its own relations, and for an ingested table the dead letter table, which stores the source's progress.
    """
    source = model.source if model else None
    return (*list_relations(name), *((source.dead_letters,) if source else ()))
