"""A table of the library: its refresh, its rows and changes, and every operation of the registry as a method."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arctic_runtime.api.connection import Connection
from arctic_runtime.model.files.compaction import CompactionMode
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import Answer, OperationContext
from arctic_runtime.operations.refreshing import Refreshed, format_upkeep_warning
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.spark.engine.statement import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RefreshModel = Callable[[Model, bool], Refreshed]
"""Refreshes a model, in full if it is asked for."""


class Table:
    """A keyed table: its query, and what can be asked of it. A program gets it from a warehouse or a project.

    Versions are numbers, as in `Outcome.version` and `history`, or names of savepoints. Operations answer an `Answer`:
    `data` for programs, and for people the text that `print` shows.
    """

    def __init__(
        self, connection: Connection, model: Model, models: Callable[[], Sequence[Model]], refresh: RefreshModel
    ) -> None:
        """`models` are all that the same program or project has, of which some may read this one."""
        self._connection = connection
        self._model = model
        self._models = models
        self._refresh = refresh

    @property
    def name(self) -> str:
        """Its full name, `catalog.schema.name`."""
        return str(self._model.table)

    @property
    def query(self) -> str:
        """The query whose rows it has; empty if its rows come from ingestion."""
        return self._model.sql

    def refresh(self, *, full_refresh: bool = False) -> Outcome:
        """Brings the table up to date with its query, and does the upkeep that is due; makes it the first time.

        Upkeep that fails is a warning, since the rows are committed. Raises ConfigError, SourceError, DataError,
        PlanError and CatalogError, and CommitConflict if other writers always win.
        """
        self._connection.check_open()
        refreshed = self._refresh(self._model, full_refresh)
        for part, message in refreshed.failures.items():
            warnings.warn(format_upkeep_warning(self._model.table, part, message), RuntimeWarning, stacklevel=2)
        return refreshed.outcome

    def read(self) -> DataFrame:
        """The rows of the table as they are now."""
        return self._connection.get_session().table(quote_name(*self._model.table.parts))

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> DataFrame:
        """Change rows after version `since` and up to `until`, in order: the columns, `_action`, and others beside.

        None is the beginning of what is kept, and the newest version. Raises ConfigError for an unknown version.
        """
        from arctic_runtime.spark.maintenance.changes_between import frame_changes_between

        self._connection.check_open()
        get_operation("changes").check_keys([self._model])
        context = self._build_context(self._connection.get_session, lambda _: None)
        return frame_changes_between(context.open_table(self._model), since, until)

    def explain(self) -> Answer:
        """Plan of the next run, and why."""
        return self._run("explain")

    def verify(self) -> Answer:
        """Recomputes the table and compares it with its query and its history; `differs` tells the result."""
        return self._run("verify")

    def status(self, *, tree: bool = False, partition: str | None = None) -> Answer:
        """Versions, changes that are not merged yet, files, and consumers with their lag."""
        return self._run("status", tree=tree, partition=partition)

    def history(self) -> Answer:
        """The versions of the table, and how its columns changed."""
        return self._run("history")

    def lookup(self, *key: object) -> Mapping[str, Any] | None:
        """The row with this key, a value for each of its columns; None if there is none. Needs no Spark."""
        row: Mapping[str, Any] | None = self._run("lookup", key=key).data["row"]
        return row

    def compact(
        self,
        mode: CompactionMode = "auto",
        *,
        most: str | int | None = None,
        plan: bool = False,
    ) -> Answer:
        """Puts small files together and takes deleted rows out of files, at most so many bytes; or plans it."""
        return self._run("compact", plan, mode=mode, most=most)

    def split(self, *, plan: bool = False) -> Answer:
        """Cuts nodes that outgrew their limit in two, and puts small ones together; or plans it."""
        return self._run("split", plan)

    def expire(self, *, orphans: bool = False, older_than: str | None = None, plan: bool = False) -> Answer:
        """Deletes old versions that nobody needs, or orphaned files; or plans it.

        Only tables of the same program or project count as readers.
        """
        return self._run("expire", plan, orphans=orphans, older_than=older_than)

    def restore(self, version: int | str) -> Answer:
        """Goes back to an earlier version, as a new change."""
        return self._run("restore", version=version)

    def savepoint(self, name: str, version: int | str | None = None, *, drop: bool = False) -> Answer:
        """Gives a version a name, which keeps it from expiry, the newest for None; or takes the name away."""
        return self._run("savepoint", name=name, version=version, drop=drop)

    def overwrite(self, source: str, as_of: object, *, partition: Mapping[str, object] | None = None) -> Answer:
        """Says what all rows are, or those of a partition, as of a value of `sequence_by`: the rows of a table."""
        return self._run("overwrite", source=source, as_of=as_of, partition=partition)

    def forget(
        self,
        key: Sequence[object] | None = None,
        *,
        where: str | None = None,
        drop_savepoints: bool = False,
        confirmed: bool = False,
    ) -> Answer:
        """Erases rows from this table and all that is made of it, also from their history; a plan unless confirmed.

        `key` has keys of rows, each by one value for each column of the primary key.
        """
        return self._run("forget", not confirmed, key=key, where=where, drop_savepoints=drop_savepoints)

    def reset(self, *, confirmed: bool = False) -> Answer:
        """Drops everything that the table has made, so that its next refresh is its first; a plan unless confirmed."""
        return self._run("reset", not confirmed)

    def resync(self) -> Answer:
        """Has a table of an ingested database loaded anew by the process that ingests it."""
        return self._run("resync")

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def _run(self, name: str, plan: bool = False, /, **arguments: Any) -> Answer:
        """Runs an operation of the registry; the answer has its progress too. Arguments that are None have defaults."""
        operation = get_operation(name)
        values = operation.read_values({key: value for key, value in arguments.items() if value is not None})
        with self._connection.lend_session() as session:
            progress: list[str] = []
            context = self._build_context(session, progress.append)
            answer = operation.run_operation(context, [self._model], values, plan)
        return replace(answer, lines=(*progress, *answer.lines))

    def _build_context(self, session: Callable[[], Any], progress: Callable[[str], None]) -> OperationContext:
        return OperationContext(self._connection.reader, session, tuple(self._models()), progress)
