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
"""Refreshes a model; in full if the second argument is True."""


class Table:
    """A keyed table, its query, and the operations on it; a program gets it from a warehouse or a project.

    Versions are numbers, as in `Outcome.version` and `history`, or names of savepoints. Operations return an `Answer`
    with `data` for programs; for people, `print` shows its text.
    """

    def __init__(
        self, connection: Connection, model: Model, models: Callable[[], Sequence[Model]], refresh: RefreshModel
    ) -> None:
        """Makes the table of `model`; `models` returns all models of the program or project, as some may read it."""
        self._connection = connection
        self._model = model
        self._models = models
        self._refresh = refresh

    @property
    def name(self) -> str:
        """Full name of the table, `catalog.schema.name`."""
        return str(self._model.table)

    @property
    def query(self) -> str:
        """The query that computes the table's rows; empty if these come from ingestion."""
        return self._model.sql

    def refresh(self, *, full_refresh: bool = False) -> Outcome:
        """Updates the table to the present result of its query, and does the upkeep that is due.

        Creates the table if it does not exist. With `full_refresh` all rows are computed again. If upkeep fails, that
        is a warning, since the rows are committed. Raises ConfigError, SourceError, DataError, PlanError and
        CatalogError, and CommitConflict if other writers are faster at every attempt.
        """
        self._connection.check_open()
        refreshed = self._refresh(self._model, full_refresh)
        for part, message in refreshed.failures.items():
            warnings.warn(format_upkeep_warning(self._model.table, part, message), RuntimeWarning, stacklevel=2)
        return refreshed.outcome

    def read(self) -> DataFrame:
        """Returns a DataFrame of the table's present rows."""
        return self._connection.get_session().table(quote_name(*self._model.table.parts))

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> DataFrame:
        """Returns the change rows after version `since` up to version `until`, in order.

        They have the table's columns, `_action`, and further columns about the change. None for `since` means the
        oldest change row that is kept, for `until` the newest version. Raises ConfigError for an unknown version.
        """
        from arctic_runtime.spark.maintenance.changes_between import frame_changes_between

        self._connection.check_open()
        get_operation("changes").check_keys([self._model])
        context = self._build_context(self._connection.get_session, lambda _: None)
        return frame_changes_between(context.open_table(self._model), since, until)

    def explain(self) -> Answer:
        """Explains what the next run will do, and why."""
        return self._run("explain")

    def verify(self) -> Answer:
        """Computes the query again and compares the table and its history with it; `differs` is the result."""
        return self._run("verify")

    def status(self, *, tree: bool = False, partition: str | None = None) -> Answer:
        """Returns the table's versions, unmerged changes, files, and consumers with their lag.

        `tree` adds the hash nodes of a partition: of the largest one, or of `partition` if that is given.
        """
        return self._run("status", tree=tree, partition=partition)

    def history(self) -> Answer:
        """Lists the versions of the table, and how its columns changed."""
        return self._run("history")

    def lookup(self, *key: object) -> Mapping[str, Any] | None:
        """Returns the row with this primary key, one value per key column; None if there is none. Needs no Spark."""
        row: Mapping[str, Any] | None = self._run("lookup", key=key).data["row"]
        return row

    def compact(
        self,
        mode: CompactionMode = "auto",
        *,
        most: str | int | None = None,
        plan: bool = False,
    ) -> Answer:
        """Joins small files and removes deleted rows from files; with `plan` only says what it would do.

        At most `most` bytes are rewritten, as a number or as text such as `50 GiB`; None is no limit.
        """
        return self._run("compact", plan, mode=mode, most=most)

    def split(self, *, plan: bool = False) -> Answer:
        """Splits hash nodes over their size limit and joins small ones; with `plan` only says what it would do."""
        return self._run("split", plan)

    def expire(self, *, orphans: bool = False, older_than: str | None = None, plan: bool = False) -> Answer:
        """Deletes old versions that nobody needs, or with `orphans` files that belong to no snapshot.

        With `plan` it only says what it would do. Only tables of the same program or project count as readers.
        `older_than` is the least age of orphaned files, such as `3d`.
        """
        return self._run("expire", plan, orphans=orphans, older_than=older_than)

    def restore(self, version: int | str) -> Answer:
        """Restores the rows of an earlier version, as a new change."""
        return self._run("restore", version=version)

    def savepoint(self, name: str, version: int | str | None = None, *, drop: bool = False) -> Answer:
        """Gives a version a name, which keeps it from expiry; with `drop` removes the name.

        None for `version` is the newest version.
        """
        return self._run("savepoint", name=name, version=version, drop=drop)

    def overwrite(self, source: str, as_of: object, *, partition: Mapping[str, object] | None = None) -> Answer:
        """Replaces all rows, or those of a partition, by the rows of the table or view `source`.

        `as_of` is a value of `sequence_by`: later events still apply to the new rows.
        """
        return self._run("overwrite", source=source, as_of=as_of, partition=partition)

    def forget(
        self,
        key: Sequence[object] | None = None,
        *,
        where: str | None = None,
        drop_savepoints: bool = False,
        confirmed: bool = False,
    ) -> Answer:
        """Erases rows from this table, from all tables made of it, and from their history.

        Unless `confirmed`, it only says what it would do. `key` has keys of rows, each with one value for each column
        of the primary key. `where` is an SQL predicate instead, for rows for which it is or was true. Savepoints that
        have such rows prevent erasure, unless `drop_savepoints` drops them.
        """
        return self._run("forget", not confirmed, key=key, where=where, drop_savepoints=drop_savepoints)

    def reset(self, *, confirmed: bool = False) -> Answer:
        """Drops the table and all relations that belong to it, so that its next refresh is its first.

        Unless `confirmed`, it only says what it would do.
        """
        return self._run("reset", not confirmed)

    def resync(self) -> Answer:
        """Requests that the process that ingests this table loads it again from its database."""
        return self._run("resync")

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def _run(self, name: str, plan: bool = False, /, **arguments: Any) -> Answer:
        """Runs an operation of the registry; the answer has its progress too. Arguments that are None have defaults."""
        operation = get_operation(name)
        values = operation.read_values({key: value for key, value in arguments.items() if value is not None})
        progress: list[str] = []

        def note_progress(line: str) -> None:
            progress.append(line)

        with self._connection.lend_session() as session:
            context = self._build_context(session, note_progress)
            answer = operation.run_operation(context, [self._model], values, plan)
        return replace(answer, lines=(*progress, *answer.lines))

    def _build_context(self, session: Callable[[], Any], progress: Callable[[str], None]) -> OperationContext:
        return OperationContext(self._connection.reader, session, tuple(self._models()), progress)
