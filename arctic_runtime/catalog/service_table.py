"""The table in which a service stores its leader, the work that users paused, and the times of scheduled runs.

It is written without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.catalog.lease import Held, find_newest_lease, walk_main_branch
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import PAUSED, RUN_AT_PREFIX

if TYPE_CHECKING:
    from pyiceberg.table import Table

SERVICE_TABLE = "arctic__service"
_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # A commit that lost a race must fail; by default pyiceberg would retry it on top of the winner's commit.
    "commit.retry.num-retries": "0",
}


@dataclass(frozen=True)
class Paused:
    """The work that users have paused: everything, all work on some tables, or only the upkeep of some tables."""

    everything: bool = False
    tables: frozenset[str] = frozenset()
    upkeep: frozenset[str] = frozenset()

    def encode(self) -> str:
        """Returns the paused work as JSON text, as the table stores it."""
        return json.dumps({"everything": self.everything, "tables": sorted(self.tables), "upkeep": sorted(self.upkeep)})

    @staticmethod
    def decode(text: str) -> Paused:
        """Parses JSON that `encode` wrote."""
        document = json.loads(text)
        return Paused(bool(document["everything"]), frozenset(document["tables"]), frozenset(document["upkeep"]))

    def pause(self, names: Iterable[str], upkeep_only: bool) -> Paused:
        """Returns the paused work with the tables `names` added; without names, everything is paused.

        If `upkeep_only`, only the upkeep of these tables is paused, such as compaction.
        """
        tables = frozenset(names)
        if upkeep_only:
            return Paused(self.everything, self.tables, self.upkeep | tables)
        return Paused(self.everything or not tables, self.tables | tables, self.upkeep)

    def resume(self, names: Iterable[str]) -> Paused:
        """Returns the paused work without the tables `names`; without names, nothing remains paused."""
        tables = frozenset(names)
        return Paused(self.everything, self.tables - tables, self.upkeep - tables) if tables else Paused()


class ServiceTable:
    """A table without rows, in the summaries of whose commits a service stores its leader and the paused work.

    Each commit is a compare-and-swap through pyiceberg, so a service on standby needs no Spark. The times of scheduled
    runs are stored in properties of the table.
    """

    def __init__(self, schema: str, reader: CatalogReader) -> None:
        self.table = TableName(reader.profile.catalog, schema, SERVICE_TABLE)
        self._reader = reader

    def ensure(self) -> None:
        """Creates the table and its namespace, if they do not exist."""
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.schema import Schema

        table = self.table
        self._reader.create_namespace(table.schema)
        if table.name in self._reader.list_relations(table.schema):
            return

        def create() -> None:
            with suppress(TableAlreadyExistsError):
                self._reader.catalog.create_table((table.schema, table.name), Schema(), properties=_PROPERTIES)

        self._reader.perform_change("service.create_table", f"create {table}", create)

    def observe_lease(self) -> Held | None:
        return find_newest_lease(self._load_table())

    def commit_lease(self, former: Held | None, lease: Held) -> None:
        """Commits a lease in the place of `former`; raises CommitConflict if the table has another one by now.

        The paused work stays the same. Expires old snapshots.
        """
        table = self._load_table()
        if find_newest_lease(table) != former:
            raise CommitConflict(f"Another commit to {self.table} was faster.")
        self._append_snapshot(table, {**lease.encode(), PAUSED: _read_paused(table).encode()})
        self._expire_old_snapshots()

    def read_paused(self) -> Paused:
        """Reads the paused work, which stays paused when a service ends."""
        return _read_paused(self._load_table())

    def change_paused(self, change: Callable[[Paused], Paused]) -> Paused:
        """Applies `change` to the paused work, and commits and returns the result.

        Raises CommitConflict if another writer was faster.
        """
        table = self._load_table()
        lease, changed = find_newest_lease(table), change(_read_paused(table))
        self._append_snapshot(table, {**(lease.encode() if lease else {}), PAUSED: changed.encode()})
        return changed

    def list_run_times(self) -> Mapping[str, float]:
        """Returns the start time of each scheduled model's last run, in seconds since 1970, by the model's name."""
        texts = {key: text for key, text in self._load_table().properties.items() if key.startswith(RUN_AT_PREFIX)}
        return {key.removeprefix(RUN_AT_PREFIX): int(text) / 1000 for key, text in texts.items()}

    def note_run(self, at: Mapping[str, float]) -> None:
        """Stores the start times of runs of scheduled models; `at` has seconds since 1970 by the model's name."""
        values = {f"{RUN_AT_PREFIX}{name}": str(round(seconds * 1000)) for name, seconds in at.items()}
        retry_on_conflict(lambda: self._set(values), self._reader.thresholds.commits.attempts)

    def _set(self, properties: Mapping[str, str]) -> None:
        from pyiceberg.exceptions import CommitFailedException

        table = self._load_table()

        def set_properties() -> None:
            try:
                with table.transaction() as transaction:
                    transaction.set_properties(dict(properties))
            except CommitFailedException as error:
                raise CommitConflict(f"Another commit to {self.table} was faster.", actual=str(error)) from error

        self._reader.perform_change("service.commit", f"commit to {self.table}", set_properties)

    def _load_table(self) -> Table:
        return self._reader.load_table(self.table.schema, self.table.name)

    def _append_snapshot(self, table: Table, summary: dict[str, str]) -> None:
        """Appends an empty snapshot to `table`; raises CommitConflict if it has a newer one by now."""
        from pyiceberg.exceptions import CommitFailedException

        def append_empty() -> None:
            try:
                with table.transaction() as transaction, transaction.update_snapshot(summary).fast_append():
                    pass
            except CommitFailedException as error:
                raise CommitConflict(f"Another commit to {self.table} was faster.", actual=str(error)) from error

        self._reader.perform_change("service.commit", f"commit to {self.table}", append_empty)

    def _expire_old_snapshots(self) -> None:
        """Expires old snapshots if there are many, since each renewal of the leader's lease adds one."""
        from pyiceberg.exceptions import CommitFailedException

        table, limits = self._load_table(), self._reader.thresholds.service
        line = [snapshot.snapshot_id for snapshot in walk_main_branch(table)]
        if len(line) <= limits.lease_snapshots:
            return

        def expire_snapshots() -> None:
            with suppress(CommitFailedException):
                table.maintenance.expire_snapshots().by_ids(line[limits.kept_lease_snapshots :]).commit()

        self._reader.perform_change("service.expire", f"expire old snapshots of {self.table}", expire_snapshots)


def _read_paused(table: Table) -> Paused:
    for snapshot in walk_main_branch(table):
        if snapshot.summary and (text := snapshot.summary[PAUSED]):
            return Paused.decode(str(text))
    return Paused()
