"""A batch of change events is written to its tables side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, wait
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.ingest.transports.transport import Batch, TableEvents
from arctic_runtime.ingest.writing.keyed import UnfollowedKey
from arctic_runtime.ingest.writing.ledger import Ledger
from arctic_runtime.ingest.writing.letters import Letters
from arctic_runtime.ingest.writing.source_columns import UnfollowedColumns
from arctic_runtime.ingest.writing.table_writer import After, Part, TableWriter, Written
from arctic_runtime.plan.schema import TypeConflict

UNFOLLOWED = (UnfollowedColumns, UnfollowedKey, TypeConflict)
"""What a source does to the definition of a table that can't be followed."""

Tasks = Iterable[Callable[[], list[Written]]]


@dataclass(frozen=True)
class BatchWriter:
    """Writes batches of the source `name` to some of its tables, given with their writers by names in the source.

    Dead letters go to the ledger. Work is done in `pool`. Events of `ignored` tables are left out. Where it `can_wait`,
    a table whose columns can't be followed fails nothing: what was written of it says that it waits.
    """

    name: str
    tables: Mapping[str, tuple[IngestedTable, TableWriter]]
    ledger: Ledger
    pool: Executor
    ignored: frozenset[str] = frozenset()
    can_wait: bool = False

    def write(
        self, batch: Batch, after: After, reads: bool = True, is_load: bool = False, shown: datetime | None = None
    ) -> tuple[Written, ...]:
        """Publishes the events of a batch, one commit for each table; `reads` and `is_load` as of `TableWriter`.

        `shown` is as of when the tables have shown their source until now.
        """
        parts = self._by_table(batch)
        return self._all(
            partial(self._write_table, name, events, batch, after, reads, is_load, shown)
            for name, events in parts.items()
        )

    def collect(self, batch: Batch) -> tuple[Written, ...]:
        """Collects the rows of a snapshot among the events of a batch."""
        parts = self._by_table(batch)
        return self._all(partial(self._collect_table, name, events, batch) for name, events in parts.items())

    def begin_snapshot(self) -> None:
        """Forgets the rows that were collected."""
        for _, writer in self.tables.values():
            writer.begin_snapshot()

    def end_snapshot(self, position: str) -> tuple[Written, ...]:
        """Publishes the rows that were collected, as of a position."""
        return self._all(partial(_end_snapshot, writer, position) for _, writer in self.tables.values())

    def forget(self) -> None:
        """Takes no event for new until the tables have told: events come again."""
        for _, writer in self.tables.values():
            writer.forget()

    def _all(self, tasks: Tasks) -> tuple[Written, ...]:
        """Does tasks side by side; raises what the first that failed raised, when all have ended."""
        futures = [self.pool.submit(task) for task in tasks]
        wait(futures)
        return tuple(one for future in futures for one in future.result())

    def _by_table(self, batch: Batch) -> dict[str, list[TableEvents]]:
        found: dict[str, list[TableEvents]] = {}
        for events in batch.tables:
            if events.table in self.ignored:
                continue
            if events.table not in self.tables:
                raise SourceError(
                    f"source {self.name}: events of {events.table} came, which is none of its tables.\n"
                    f"  expected: {', '.join(sorted(self.tables))}\n"
                    "  what to do: declare the table in the source's YAML, or narrow what the connector sends"
                )
            found.setdefault(events.table, []).append(events)
        return found

    def _write_table(
        self,
        name: str,
        events: list[TableEvents],
        batch: Batch,
        after: After,
        reads: bool,
        is_load: bool,
        shown: datetime | None,
    ) -> list[Written]:
        """Publishes a batch's events of a table. Only the last of several parts has all events up to the position."""
        _, writer = self.tables[name]
        dead = partial(self._take_dead, name, batch.position)
        found: list[Written] = []
        parts = [part for of in events for part in writer.told(of)]
        for place, of in enumerate(parts):
            is_last = place == len(parts) - 1
            position = batch.position if is_last else None
            part = Part(of, position, tuple(parts[:place]), is_load=is_load, shown=shown)
            try:
                found.append(writer.write(part, after, dead, reads))
            except UNFOLLOWED as error:
                if not self.can_wait or batch.is_snapshot:
                    raise
                return [*found, Written(writer.table.name, {}, 0, 0, 0, 0, None, str(error))]
        return found

    def _collect_table(self, name: str, events: list[TableEvents], batch: Batch) -> list[Written]:
        _, writer = self.tables[name]
        dead = partial(self._take_dead, name, batch.position)
        return [writer.collect(part, dead) for of in events for part in writer.told(of)]

    def _take_dead(self, name: str, position: str, letters: Letters) -> None:
        self.ledger.add(letters, name, position, datetime.now(timezone.utc))


def _end_snapshot(writer: TableWriter, position: str) -> list[Written]:
    return [writer.end_snapshot(position)]
