"""What the catalog tells of tables, remembered until they move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone

from arctic_runtime.catalog.heads import SharedHeads
from arctic_runtime.catalog.observe import observe_model, observe_source
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ArcticError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.run_summary import last_run, offsets_of
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Version
from arctic_runtime.operations.inspect import Status, status
from arctic_runtime.service.readings import relations_of
from arctic_runtime.service.records import Heads


@dataclass(frozen=True)
class ObservedTable:
    """A table as its newest commits tell it.

    `log` is the id of the table that commits go to, `commits` those with rows, oldest first, and `offsets` what the
    table has read of others. `status` is None for a table of others.
    """

    log: str
    commits: tuple[Commit, ...]
    offsets: Mapping[str, Version] = field(default_factory=dict)
    status: Status | None = None

    def after(self, offset: Version | None) -> tuple[Commit, ...]:
        """The commits that a reader has not read; none of a table that was made anew since."""
        if offset is None or offset.table != self.log:
            return ()
        return tuple(of for of in self.commits if of.version.sequence > offset.sequence)

    def rows_since(self, at_ms: float) -> int:
        """How many rows changed after a moment, in milliseconds since 1970."""
        return sum(of.rows for of in reversed(self.commits) if of.at_ms >= at_ms)


class ObservedTables:
    """Tables by their names; `look` reads those anew that have moved since the look before."""

    def __init__(self, reader: CatalogReader, heads: SharedHeads) -> None:
        self._reader = reader
        self._shared_heads = heads
        self._heads: Heads = {}
        self.tables: dict[TableName, ObservedTable] = {}
        self.readable: frozenset[TableName] = frozenset()
        """The tables and views that there are under the names themselves; one that is being made has relations only."""

    def look(self, models: Mapping[TableName, Model], others: Iterable[TableName]) -> set[TableName]:
        """The tables of models, and tables of others, that have moved; those that are not asked for are forgotten.

        Raises CatalogError where the catalog does not answer.
        """
        names = {*models, *others}
        relations = {name: _relations(name, models.get(name)) for name in names}
        age = self._reader.thresholds.service.poll_seconds
        heads = self._shared_heads.recent("tables", {of for found in relations.values() for of in found}, age).heads
        moved = {
            name
            for name, of in relations.items()
            if name not in self.tables or any(heads.get(one) != self._heads.get(one) for one in of)
        }
        kept = {name: of for name, of in self.tables.items() if name in names and name not in moved}
        for name in moved:
            found = None
            if any(relation in heads for relation in relations_of(name)):
                with suppress(ArcticError):
                    found = self._observe(name, models.get(name))
            if found is not None:
                kept[name] = found
        self.tables, self._heads = kept, heads
        self.readable = frozenset(names & heads.keys())
        return moved & kept.keys()

    def _observe(self, name: TableName, model: Model | None) -> ObservedTable | None:
        if model is None or model.is_landing:
            source = observe_source(self._reader, name)
            return None if source is None else ObservedTable(source.version.table, _with_rows(source.commits))
        log = observe_model(self._reader, model).log
        if log is None:
            return None
        return ObservedTable(
            log.uuid, _with_rows(log.commits), offsets_of(last_run(log)), status(self._reader, model, ())
        )


def _relations(name: TableName, model: Model | None) -> tuple[TableName, ...]:
    """The relations that tell of a table; how far a source of change data is stands beside its dead letters."""
    source = model.source if model else None
    return (*relations_of(name), *((source.dead_letters,) if source else ()))


def _with_rows(commits: Iterable[Commit]) -> tuple[Commit, ...]:
    return tuple(of for of in commits if of.rows)


def moment(at_ms: int) -> datetime:
    """A commit's time."""
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc)
