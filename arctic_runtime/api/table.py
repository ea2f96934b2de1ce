"""The connection of the library, and its tables: refresh, rows, changes, and every operation of the registry."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from arctic_runtime.catalog.lookup import look_up_row
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog.storage.embedded_warehouse import prepare_warehouse
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.compaction import CompactionMode
from arctic_runtime.model.table import Model
from arctic_runtime.operations.operation import (
    Answer,
    FindCounterparts,
    ListDescendants,
    OperationContext,
    list_no_descendants,
    refuse_environment,
)
from arctic_runtime.operations.refreshing import Refreshed, format_upkeep_warning
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.spark.engine.connection import is_on_server
from arctic_runtime.spark.engine.messages import to_query_error
from arctic_runtime.spark.engine.session import find_session
from arctic_runtime.spark.engine.session_pool import LentSession, get_pool, lend_session, register_pool, unregister_pool
from arctic_runtime.spark.engine.spark_loss import to_spark_ended
from arctic_runtime.spark.engine.statement import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Connection:
    """The opened catalog of a profile, and sessions on a Spark that starts when the first session is used.

    `spark` is a session that the program has already; new sessions are created on its Spark, and the session itself
    stays unchanged. If it is None, the program's active session is used in the same way, unless the profile names a
    Spark Connect server. If there is no active session, Spark is started as the profile says.
    """

    def __init__(self, profile: Profile, spark: SparkSession | None = None) -> None:
        """Raises CatalogError if an embedded warehouse can't be used."""
        prepare_warehouse(profile)
        self.profile = profile
        self.reader = CatalogReader(profile)
        joined = find_session() if spark is None and profile.method == "session" else spark
        self.is_joined = joined is not None
        if not self.is_joined:  # It logs Java's stack trace of each query that fails, which the error says in words.
            logging.getLogger("SQLQueryContextLogger").disabled = True
        self._pool = get_pool(profile) if joined is None else register_pool(profile, joined)
        self._session: SparkSession | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    def get_session(self) -> SparkSession:
        """Returns the session of all DataFrames that users get; the first call creates it.

        It is another one after a Spark Connect server was started again, where DataFrames from before can't be read.
        Raises ConfigError if the connection is closed.
        """
        with self._lock:
            self.check_open()
            if self._session is not None and not is_on_server(self._session):
                self._pool.discard_session(self._session)
                self._session = None
            if self._session is None:
                self._session = self._pool.take_session()
            return self._session

    @contextmanager
    def lend_session(self) -> Iterator[LentSession]:
        """Yields a session that no other thread uses until the block ends; converts errors as `explain_errors` does."""
        self.check_open()
        with self.explain_errors(), lend_session(self._pool) as session:
            yield session

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Converts Spark's errors within the block: to SparkEnded if Spark has ended, to ConfigError for a bad query.

        All other errors pass unchanged.
        """
        try:
            yield
        except Exception as error:
            explained = to_spark_ended(error) or to_query_error(error)
            if explained is None:
                raise
            raise explained from error

    def check_open(self) -> None:
        """Raises ConfigError if `close_sessions` was called."""
        if self._is_closed:
            raise ConfigError(
                "This warehouse is closed.",
                fix="open it again",
            )

    def close_sessions(self) -> None:
        """Ends this connection's sessions; Spark itself continues to run. Does nothing if they are closed already."""
        with self._lock:
            session, self._session = self._session, None
            was_closed, self._is_closed = self._is_closed, True
        if session is not None:
            self._pool.discard_session(session)
        if self.is_joined and not was_closed:
            unregister_pool(self._pool)


RefreshModel = Callable[[Model, Request], Refreshed]
"""Function that refreshes a model as its second argument says."""


class Table:
    """A table that a program can refresh, read and maintain; a `Warehouse` or a `Project` creates it.

    A version is given by its snapshot id, as in `Outcome.version` and `history`, or by the name of a savepoint.
    Operations return an `Answer`: its `data` is for programs, and `print` shows its text.
    """

    def __init__(
        self,
        connection: Connection,
        model: Model,
        models: Callable[[], Sequence[Model]],
        refresh: RefreshModel,
        find_counterparts: FindCounterparts = refuse_environment,
        list_descendants: ListDescendants = list_no_descendants,
    ) -> None:
        """Creates the table of `model`.

        `models` returns all models of the program or project, any of which may read the table. `refresh` runs a model.
        The other functions are those of `OperationContext`.
        """
        self._connection = connection
        self._model = model
        self._models = models
        self._refresh = refresh
        self._find_counterparts = find_counterparts
        self._list_descendants = list_descendants

    @property
    def name(self) -> str:
        """Full name of the table, `catalog.schema.name`."""
        return str(self._model.table)

    @property
    def query(self) -> str:
        """The query that computes the table's rows; empty for an ingested table."""
        return self._model.sql

    def refresh(self, *, full_refresh: bool = False, frozen: bool = False) -> Outcome:
        """Brings the table up to date with its query and its upstreams, then does the upkeep that is due.

        Creates the table if it does not exist. `full_refresh` computes the whole query, even if only changes would be
        read otherwise; rows that `frozen_where` selects stay as they are, unless `frozen`. If the upkeep fails, that is
        only a RuntimeWarning, since the rows are committed. Raises ConfigError, SourceError, DataError, PlanError and
        CatalogError, and CommitConflict if other writers are faster at every attempt.
        """
        self._connection.check_open()
        refreshed = self._refresh(self._model, Request(full_refresh, with_frozen=full_refresh and frozen))
        for part, message in refreshed.failures.items():
            warnings.warn(format_upkeep_warning(self._model.table, part, message), RuntimeWarning, stacklevel=2)
        return refreshed.outcome

    def read(self) -> DataFrame:
        """Returns the table's current rows as a DataFrame."""
        return self._connection.get_session().table(quote_name(*self._model.table.parts))

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> DataFrame:
        """Returns the change rows after version `since`, up to and including version `until`, in commit order.

        Change rows have the table's columns, `_action`, and further columns about the change. If `since` is None, they
        begin with the oldest change row that is kept; if `until` is None, they end with the newest. Raises ConfigError
        for an unknown version.
        """
        from arctic_runtime.spark.maintenance.window_changes import frame_changes_between

        self._connection.check_open()
        get_operation("changes").check_keys([self._model])
        context = self._build_context(self._connection.get_session, lambda _: None)
        return frame_changes_between(context.open_table(self._model), since, until)

    def explain(self) -> Answer:
        """Explains what the next run will do, and why."""
        return self._run("explain")

    def verify(self) -> Answer:
        """Computes the query in full, compares the table with it, and checks the change rows; changes nothing.

        `differs` of the answer is True if any check failed.
        """
        return self._run("verify")

    def status(self, *, tree: bool = False, partition: str | None = None) -> Answer:
        """Returns the table's version, unmerged changes and files, and how far each model that reads it lags behind.

        `tree` adds the buckets of one partition with their bytes and files: those of `partition`, or if it is None, of
        the largest partition.
        """
        return self._run("status", tree=tree, partition=partition)

    def history(self) -> Answer:
        """Lists the versions of the table, and how its columns changed."""
        return self._run("history")

    def clones(self) -> Answer:
        """Lists the clones of the table that `dbt clone` has made, with the bytes that are kept for them."""
        return self._run("clones")

    def diff(
        self,
        *,
        state: str | None = None,
        other_target: str | None = None,
        other_schema: str | None = None,
        since: int | str | None = None,
        until: int | str | None = None,
        only: bool = False,
        column: str | None = None,
        limit: int | None = None,
        fail_on: str | None = None,
        markdown: bool = False,
    ) -> Answer:
        """Compares the table with that of which it is a clone, or with the same table elsewhere or earlier.

        In a dbt project, it is the table of the same model in the environment whose `manifest.json` is in the folder
        `state`, or in another target of the profile; and unless `only`, everything below the model is compared as well.
        With `other_schema` it is the table of the same name there. If `since` is not None, two versions of the table
        are compared: `since`, and `until` or else the newest. Examples are at most `limit` rows of each kind, or rows
        in which `column` changed. `differs` of the answer is True if they differ, or with `fail_on`, limits such as
        `removed>0,changed>1%`, if there are more rows than one of these. Raises ConfigError if there is no table to
        compare with, and for an unknown version or column.
        """
        return self._run(
            "diff",
            state=state,
            other_target=other_target,
            other_schema=other_schema,
            start=since,
            end=until,
            only=only,
            column=column,
            limit=limit,
            fail_on=fail_on,
            markdown=markdown,
        )

    def preview(self, *, state: str | None = None, fail_on: str | None = None, markdown: bool = False) -> Answer:
        """Estimates the cost of the next run of the table and of all tables below it, without a run and without Spark.

        With `state`, the runs are those of the environment whose `manifest.json` is in this folder. `differs` of the
        answer is True if a run will be refused, or if the runs together cost more than one of the limits in `fail_on`,
        such as `bytes>1TB,models>20`.
        """
        return self._run("preview", state=state, fail_on=fail_on, markdown=markdown)

    def lookup(self, *key: object) -> Mapping[str, Any] | None:
        """Returns the row with a primary key, as values by column; None if there is none. Needs no Spark.

        `key` has one value for each column of the primary key, in their order.
        """
        self._connection.check_open()
        get_operation("lookup").check_keys([self._model])
        return look_up_row(self._connection.reader, self._model, tuple(map(str, key))).row

    def why(self, *key: object, version: int | str | None = None, depth: int | None = None) -> Answer:
        """Follows the changes of the row with a primary key to the changes of upstream rows that made them.

        `key` has one value for each column of the primary key, in their order. `version` selects the changes of one
        version; None means the newest ones. `depth` is the number of layers of upstreams; None means all. `differs` of
        the answer is True if no change row has this key.
        """
        return self._run("why", key=key, version=version, depth=depth)

    def compact(
        self,
        mode: CompactionMode = "auto",
        *,
        most: str | int | None = None,
        plan: bool = False,
    ) -> Answer:
        """Merges small files and removes deleted rows from files; if `plan`, only returns its plan.

        `mode` says how much is rewritten: `auto`, `minor`, `major` or `full`. `most` limits the bytes of rewritten
        files, as a number or a text such as `50 GiB`; None is no limit.
        """
        return self._run("compact", plan, mode=mode, most=most)

    def split(self, *, plan: bool = False) -> Answer:
        """Splits buckets that are too large and merges small ones; if `plan`, only returns its plan."""
        return self._run("split", plan)

    def expire(self, *, orphans: bool = False, older_than: str | None = None, plan: bool = False) -> Answer:
        """Deletes old snapshots that no reader needs; if `orphans`, deletes files that belong to no snapshot instead.

        If `plan`, it only returns its plan. Only tables of the same program or project count as readers. `older_than`
        is the minimum age of the orphaned files to delete, such as `3d`.
        """
        return self._run("expire", plan, orphans=orphans, older_than=older_than)

    def restore(self, version: int | str) -> Answer:
        """Sets the table's rows back to those of an earlier version, by a new commit with the differences."""
        return self._run("restore", version=version)

    def resume(self) -> Answer:
        """Lets runs compute the present query again, if the table waits for that of a cut since a restore to it."""
        return self._run("resume")

    def restate(self, where: str, *, frozen: bool = False, below: bool = False, plan: bool = False) -> Answer:
        """Computes the rows for which the SQL predicate `where` is true anew, and publishes what differs.

        Rows that `frozen_where` selects stay as they are, unless `frozen`. If `below` or `plan`, it only counts the
        rows that differ, and the change rows that the models below would read. Raises ConfigError for a predicate that
        is not valid, and PlanError if the rows can't be computed as of the last refresh.
        """
        return self._run("restate", plan, where=where, frozen=frozen, below=below)

    def promote(
        self,
        *,
        from_target: str | None = None,
        state: str | None = None,
        from_schema: str | None = None,
        plan: bool = False,
    ) -> Answer:
        """Takes over what the clone of the table has computed, if the model's query is now that of the clone.

        The clone is in another target of the profile, in the environment whose `manifest.json` is in the folder
        `state`, or in the schema `from_schema`. Later changes of what the query reads are followed as by
        `refresh`. If `plan`, it only tells what it would read. Raises ConfigError if the clone can't be taken over.
        """
        return self._run("promote", plan, from_target=from_target, state=state, from_schema=from_schema)

    def savepoint(self, name: str, version: int | str | None = None, *, drop: bool = False) -> Answer:
        """Gives a version a name, which keeps the version from expiry; if `drop`, removes the name instead.

        None for `version` means the newest version.
        """
        return self._run("savepoint", name=name, version=version, drop=drop)

    def overwrite(self, source: str, as_of: object, *, partition: Mapping[str, object] | None = None) -> Answer:
        """Replaces all rows, or only those of `partition`, by the rows of the table or view `source`.

        `as_of`, a value of the column `sequence_by`, says up to which event `source` is complete: the table ignores
        earlier events, and applies later ones to the new rows. `partition` has a value for each partition column.
        """
        return self._run("overwrite", source=source, as_of=as_of, partition=partition)

    def forget(
        self,
        key: Sequence[object] | None = None,
        *,
        where: str | None = None,
        drop_savepoints: bool = False,
        drop_clones: bool = False,
        confirmed: bool = False,
    ) -> Answer:
        """Erases rows from this table, from all tables computed from it, and from their history.

        Unless `confirmed`, it only returns its plan. The rows are chosen by `key`, with the values of the primary key
        columns of one or several rows in sequence, or by `where`, an SQL predicate that is or once was true for them. A
        savepoint that contains such rows prevents this, unless `drop_savepoints` allows to drop it. A clone that may be
        in use prevents it too, unless `drop_clones` allows to drop all clones of these tables.
        """
        arguments = {"key": key, "where": where, "drop_savepoints": drop_savepoints, "drop_clones": drop_clones}
        return self._run("forget", not confirmed, **arguments)

    def reset(self, *, confirmed: bool = False) -> Answer:
        """Drops the table and all relations that belong to it; the next refresh creates them again.

        Unless `confirmed`, it only returns its plan.
        """
        return self._run("reset", not confirmed)

    def resync(self) -> Answer:
        """Requests the process that ingests this table to load the table again from its source database."""
        return self._run("resync")

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    def _run(self, name: str, plan: bool = False, /, **arguments: Any) -> Answer:
        """Runs the operation `name`; if `plan`, only plans it. The answer's lines begin with the operation's progress.

        Arguments that are None get the operation's defaults.
        """
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
        return OperationContext(
            self._connection.reader,
            session,
            tuple(self._models()),
            progress,
            self._find_counterparts,
            self._list_descendants,
        )
