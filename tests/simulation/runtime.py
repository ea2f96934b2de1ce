"""The parts of the runtime that can't run in a simulation as they are, with what stands in for each.

Everything else is the runtime's own code: the service with its follower, passes, upkeep and leases, the ingestion job,
observation and planning, reconciliation, the protocol of commits, expiry, freshness. `REPLACEMENTS` is the list of what
is modelled; each entry names a function or class of the runtime and the model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import arctic_runtime.service.view.overviews
import arctic_runtime.spark.maintenance.compaction
import arctic_runtime.spark.refresh.run
from arctic_runtime.catalog import table_samples
from arctic_runtime.catalog.reader import CatalogReader, RelationInfo
from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.effects import perform_effect
from arctic_runtime.errors import CatalogError
from arctic_runtime.ingest.dead_letters import table as dead_letter_table
from arctic_runtime.ingest.writing import keyed, table_writer
from arctic_runtime.ingest.writing.keyed import KeyedChanges, KeyedTable
from arctic_runtime.ingest.writing.records import (
    CommitNote,
    EventPart,
    SourcePosition,
    SourceTimes,
    TableResult,
    WriteMode,
    read_position,
)
from arctic_runtime.ingest.writing.table_target import TableTarget
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.compaction import DataFile, FileGroup, FileTotals, RewriteFiles, TableFiles
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KIND
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import ChangeSet
from arctic_runtime.model.sources.ingestion import time_of
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.model.table import Model
from arctic_runtime.model.version import Window
from arctic_runtime.operations.inspect import Status
from arctic_runtime.plan.refresh.decide import Decision
from arctic_runtime.plan.refresh.fingerprint import hash_query_reading
from arctic_runtime.profile import Profile
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.refresh.attempt import RefreshAttempt
from arctic_runtime.spark.refresh.prepare import prepare_tables
from arctic_runtime.spark.refresh.run import Refresh, build_summary
from arctic_runtime.spark.tables import steps, views
from arctic_runtime.spark.tables.context import Appended, Context
from tests.simulation import spark as modelled
from tests.simulation.compute import Engine
from tests.simulation.lake import FILE_BYTES, Catalog, Name, Pyiceberg, Row, list_added_files
from tests.simulation.rows import Change, Rows, diff_rows, fold_until, mark_rows, read_changes
from tests.simulation.source import Unfit, fold_events, is_fit
from tests.simulation.threads import read_wall_clock

ENGINE = Engine()
"""DuckDB, used by one refresh at a time."""

RESULT_COLUMNS: dict[TableName, tuple[Column, ...]] = {}
"""The columns of each model's query, which Spark would know."""


class Reader(CatalogReader):
    """Reads the simulated catalog; `look` is called before each read, and may let time pass or raise an error."""

    def __init__(self, profile: Profile, lake: Catalog, look: Callable[[str], None]) -> None:
        super().__init__(profile)
        self.lake = lake
        self._look = look
        self._pyiceberg = Pyiceberg(lake)

    is_supported = True  # type: ignore[assignment]
    lists_views = True  # type: ignore[assignment]
    can_edit_metadata = False  # type: ignore[assignment]
    capabilities = Capabilities(True, True, True, True, True, True)  # type: ignore[assignment]

    @property
    def catalog(self) -> Any:
        return self._pyiceberg

    @property
    def _database(self) -> None:  # type: ignore[override]
        return None

    def load_table(self, namespace: str, name: str) -> Any:
        self._look(f"table {namespace}.{name}")
        return self.lake.load_table((namespace, name))

    def load_view(self, namespace: str, name: str) -> RelationInfo:
        self._look(f"view {namespace}.{name}")
        return self.lake.load_view((namespace, name))

    def list_relations(self, namespace: str) -> dict[str, Any]:
        self._look(f"list {namespace}")
        return {name: pointer.kind for (schema, name), pointer in self.lake.pointers.items() if schema == namespace}

    def list_metadata_files(self, namespaces: Any) -> dict[Name, tuple[Any, str]]:
        self._look("heads")
        wanted = set(namespaces)
        return {name: (pointer.kind, pointer.file) for name, pointer in self.lake.pointers.items() if name[0] in wanted}

    def get_view_file(self, namespace: str, name: str) -> None:
        """Old files of views are not modelled."""


class Pool:
    """Sessions of a process."""

    def __init__(self, lake: Catalog) -> None:
        self._lake = lake

    def take_session(self) -> modelled.Spark:
        return modelled.Spark(self._lake)

    def give_back(self, session: modelled.Spark) -> None:
        """A session has nothing that the next borrower could miss."""

    discard_session = give_back


class SimulatedRefresh(Refresh):
    """A run of a model whose rows DuckDB computes. It is not rebased: if another run commits first, it plans again."""

    def _publish_rows(self, attempt: RefreshAttempt) -> Appended:
        context, decision, upstreams = attempt.context, attempt.decision, attempt.upstreams
        missing = [name for name, state in upstreams.states.items() if state is None]
        if missing:
            raise modelled.SparkRefused("org.apache.spark.sql.AnalysisException", f"table not found: {missing}")
        context, shape = prepare_tables(self.table, context, RESULT_COLUMNS[self.model.table], "bigint")
        changes, lake = context.state.changes, context.spark.lake
        assert changes is not None
        assert changes.head is not None
        table = lake.get_table((self.model.table.schema, self.model.table.changes.name))
        old = fold_until(lake, table, changes.head.sequence)
        compute = compute_from_events if self.model.config.input == "changes" else ENGINE.compute
        rows = compute(lake, self.model, decision, old)
        step = AppendChanges(self.model.table.changes, changes.head.snapshot, decision.mode, decision.reason)
        summary = build_summary(replace(attempt, context=context)).with_entries_from(attempt.recorded)
        summary = summary.with_entries_from(RunSummary(judged=hash_query_reading(self.model, upstreams)))
        if decision.revert is not None:
            summary = summary.with_entries_from(decision.revert.run.select_row_entries())
        return modelled.publish_changes(ChangeSet(step, rows, shape, summary), context)  # type: ignore[arg-type]


def compute_from_events(lake: Catalog, model: Model, decision: Decision, old: Rows) -> list[Change]:
    """Adds the new rows of orders to the sums of their customers, and takes the old ones back."""
    sums = {} if decision.mode in ("create", "full") else dict(old)
    for name, window in decision.windows.items():
        for sign, (_, customer, amount, _) in read_events(lake, TableName(*name.split(".")), window):
            count, total = sums[(customer,)][1:] if (customer,) in sums else (0, 0)
            sums[(customer,)] = (customer, count + sign, total + sign * amount)
    return diff_rows(old, sums)


def read_events(lake: Catalog, source: TableName, window: Window) -> Iterator[tuple[int, Row]]:
    """Yields the rows that the changes of a window add, with the sign 1, and those that they take back, with -1."""
    table = lake.get_table((source.schema, source.changes.name))
    end = window.end.snapshot if table.find(window.end.snapshot) is not None else table.current_snapshot_id
    assert end is not None
    after = window.start.sequence if window.start is not None else 0
    for _, new, before in read_changes(lake, table, end, after, window.end.sequence):
        # The delete of a row that was not there has only its key.
        if before is not None and len(before) > 1:
            yield -1, before
        if new is not None:
            yield 1, new


def is_known(start: SourcePosition, known: SourcePosition | None) -> bool:
    """Whether a table has just the events that this process has written to it, so that none comes again."""
    return start == known


class SimulatedPipeline:
    """Publishes one part of a batch: leaves out known events, keeps dead letters, folds the others and commits them."""

    def __init__(
        self, target: TableTarget, part: EventPart, schema: Any, mode: WriteMode, known: SourcePosition | None
    ) -> None:
        self._target = target
        self._part = part
        self._schema = schema
        self._mode = mode
        self._known = known

    def run(self, keep: Any) -> tuple[TableResult, SourcePosition | None]:
        storage = self._target.open_by_key(self._schema.key)
        assert isinstance(storage, KeyedTable)
        state = storage.prepare_to_publish()
        start = read_position(state)
        read: Any = self._part.events.events
        new = read
        if not is_known(start, self._known) and start.position is not None:
            new = self._mode.after(self._part.events, start.position).events
        arrivals = {event.id: arrival for arrival, event in enumerate(read)}
        unfit = [(arrivals[event.id], event) for event in new if not is_fit(event)]
        sound = [event for event in new if is_fit(event)]
        name, replayed = self._target.table.name, len(read) - len(new)
        if unfit:
            keep(Unfit(unfit, state.log.head if state.log else None))
        if not sound and (unfit or state.log is not None):
            return TableResult(name, {}, len(read), 0, replayed, len(unfit), None), None
        storage._check_position(state, start)
        columns = tuple(Column(column.name, column.type) for column in self._schema.columns)
        context, shape = storage.prepare_commit(state, columns)
        lake, changes = context.spark.lake, context.state.changes
        assert changes is not None
        assert changes.head is not None
        table = lake.get_table((storage.session.model.table.schema, storage.session.model.table.changes.name))
        old = fold_until(lake, table, changes.head.sequence)
        # The runtime stores the order of events only beside dead letters.
        ordered: dict[Row, int] = {(event.key,): arrivals[event.id] for event in sound} if unfit else {}
        has_letters = unfit or self._mode.has_dead_letters
        kept: set[Row] = {(event.key,) for event in sound} if has_letters else set()
        rows = mark_rows(diff_rows(old, fold_events(old, sound), kept), ordered, (event.id for event in sound))
        newest = min(max((event.at for event in sound), default=0.0), read_wall_clock())
        assert self._part.position is not None
        end = SourcePosition(self._part.position)
        times = SourceTimes(time_of(round(newest * 1000)) if sound else None, self._mode.shown)
        counts, _ = storage.publish_changes(context, KeyedChanges(rows, shape), CommitNote(end, times=times))  # type: ignore[arg-type]
        return TableResult(name, counts, len(read), len(sound), replayed, len(unfit), times.newest), end


def create_dead_letters(table: Any) -> None:
    """Creates the dead letter table, in one commit, if it does not exist."""
    lake, name = table._reader.lake, (table.table.schema, table.table.name)
    if table._load_table() is not None:
        return

    def create() -> None:
        with modelled.as_spark_error():
            lake.create_table(name, (), {KIND: "dead letters", "format-version": "3"}, ((), {}))

    perform_effect("ingest.create_dead_letters", create, f"create {table.table}", SPARK)


def observe_totals(reader: Reader, name: TableName) -> FileTotals:
    """Counts the files of a table, and its commits since files were joined."""
    table = reader.load_table(name.schema, name.name).metadata
    appends = 0
    for snapshot in table.walk(table.current_snapshot_id):
        if snapshot.summary.operation.value == "replace":
            break
        appends += int(snapshot.summary["added-records"] or 0) > 0
    head = table.find(table.current_snapshot_id)
    files = len(head.files) if head else 0
    return FileTotals(files, 0, appends, files * FILE_BYTES, appends * FILE_BYTES)


def observe_files(reader: Reader, name: TableName) -> TableFiles | None:
    """Lists the files of a table, which has no partitions."""
    table = reader.load_table(name.schema, name.name).metadata
    head = table.find(table.current_snapshot_id)
    if head is None:
        return None
    files = tuple(DataFile(FILE_BYTES, len(file.rows)) for file in reader.lake.read_files(head.files))
    return TableFiles(name, head.snapshot_id, (FileGroup(0, (), files),) if files else (), 128 * 1024 * 1024)


def rewrite_files(step: RewriteFiles, context: Context) -> None:
    """Joins all files of a table."""
    rewrite = modelled.rewrite_base if step.table == context.model.base else modelled.rewrite_changes
    rewrite(context, step.expected)


def read_status(reader: Reader, model: Any, *_: object) -> Status:
    """The status of a table for the page, of which only the name is used here."""
    return Status(str(model.table), built=True)


def _read_view_columns(_: object, table: TableName, *__: object) -> TableName:
    return table


def _list_view_columns(_: TableName) -> tuple[Column, ...]:
    return ()


Replacement = tuple[Any, str, Any]
"""A module or class of the runtime, the name of a function or class in it, and the model of that."""

REPLACEMENTS: tuple[Replacement, ...] = (
    (arctic_runtime.spark.refresh.run, "Refresh", SimulatedRefresh),
    (table_writer, "EventPipeline", SimulatedPipeline),
    (keyed, "publish_changes", modelled.publish_changes),
    (dead_letter_table.DeadLetterTable, "create_or_widen", create_dead_letters),
    (steps, "create_change_table", modelled.create_change_table),
    (steps, "create_base", modelled.create_base),
    (steps, "merge_base", modelled.merge_base),
    (steps, "rewrite_files", rewrite_files),
    (views, "read_table", _read_view_columns),
    (views, "list_frame_columns", _list_view_columns),
    (arctic_runtime.spark.maintenance.compaction, "observe_totals", observe_totals),
    (arctic_runtime.spark.maintenance.compaction, "observe_files", observe_files),
    (arctic_runtime.spark.maintenance.compaction, "observe_partial_progress", lambda *_: ()),
    (arctic_runtime.service.view.overviews, "read_status", read_status),
    (table_samples, "_list_added_files", list_added_files),
)


@contextmanager
def replace_parts(*others: Replacement) -> Iterator[None]:
    """Lets the runtime use the models of `REPLACEMENTS`, and `others`, until the block ends."""
    with ExitStack() as stack:
        for owner, name, model in (*REPLACEMENTS, *others):
            stack.enter_context(mock.patch.object(owner, name, model))
        yield


class CatalogAway(CatalogError):
    """The catalog does not answer."""
