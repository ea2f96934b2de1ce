"""A batch of change events is published to one arctic table, exactly once, in one commit."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retried
from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import EventFormat, SourceSchema
from arctic_runtime.ingest.source import IngestedTable, declared_schema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.decode import decode
from arctic_runtime.ingest.writing.fold import Tally, change_rows, sound_rows, tally
from arctic_runtime.ingest.writing.stage import Stage
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import Column, plain_columns
from arctic_runtime.model.key import key_names
from arctic_runtime.model.properties import PRIMARY_KEY
from arctic_runtime.model.run_summary import RunSummary, last_run
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.step import AppendChanges
from arctic_runtime.plan.schema import check_query, stored_type
from arctic_runtime.spark.engine.statement import name
from arctic_runtime.spark.refresh.diff import state_changes
from arctic_runtime.spark.refresh.prepare import prepared
from arctic_runtime.spark.tables.append import publish
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.frames import column, columns_of, current_rows
from arctic_runtime.spark.tables.table_session import TableSession

After = Callable[[TableEvents, str], TableEvents]
"""The events that come after a position of their source."""


@dataclass(frozen=True)
class Written:
    """What became of the events of a batch for one table: rows by action, and events by fate.

    read = applied + replayed + dead; of those that are applied, `folded` left no row of their own, since a later event
    of the batch replaced theirs. `newest` is the time of the newest change, None where no event tells it.
    """

    table: str
    rows: dict[str, int]
    read: int
    applied: int
    replayed: int
    dead: int
    newest: datetime.datetime | None

    @property
    def folded(self) -> int:
        return self.applied - sum(self.rows.values())


class TableWriter:
    """Writes batches of one table. The state of the table tells which events it has: a process needs to remember none.

    `take_dead` gets the decoded events that can't be applied, before the table's commit.
    """

    def __init__(
        self, table: IngestedTable, reader: CatalogReader, spark: Callable[[], SparkSession], form: EventFormat
    ) -> None:
        self.table = table
        self._reader = reader
        self._spark = spark
        self._form = form
        self._own: str | None = None
        self._schema: SourceSchema | None = None
        self._stage = Stage(table.table, reader, spark)

    @property
    def is_loaded(self) -> bool:
        """Whether the table is there. Needs no Spark."""
        changes = self.table.table.changes
        return changes.name in self._reader.list_relations(changes.schema)

    def write(
        self, events: TableEvents, position: str | None, after: After, take_dead: Callable[[DataFrame], None]
    ) -> Written:
        """Publishes events, those left out that the table has already, and notes the position up to which it has all.

        None as the position leaves the table's as it was: more events from before the batch's end are to come.

        Raises ConfigError where the source's columns can't be followed, and CommitConflict where other writers always
        win.
        """
        schema = self._schema_of(events)
        attempts = self._reader.thresholds.commits.attempts
        return retried(lambda: self._attempt(events, schema, position, after, take_dead), attempts)

    def begin_snapshot(self) -> None:
        """Forgets what an earlier snapshot collected."""
        self._stage.drop()

    def collect(self, events: TableEvents, take_dead: Callable[[DataFrame], None]) -> Written:
        """Collects the rows of a snapshot among events, of a table that keeps what it has until all are there."""
        schema = self._schema_of(events)
        with held(decode(frame(self._spark(), events), self._form, schema)) as decoded:
            counted = tally(decoded)
            if counted.dead:
                take_dead(decoded)
            rows = sound_rows(decoded).select(*[column(of.name) for of in schema.columns])
            if counted.rows:
                self._stage.add(rows)
        return Written(
            self.table.name, {}, counted.rows + counted.dead, counted.rows, 0, counted.dead, _moment(counted.newest)
        )

    def end_snapshot(self, position: str) -> Written:
        """Publishes what differs between the table and the snapshot's rows, as of a position; deletes what is gone."""
        rows = retried(lambda: self._exchange(position), self._reader.thresholds.commits.attempts)
        self._stage.drop()
        return Written(self.table.name, rows, 0, 0, 0, 0, None)

    def _exchange(self, position: str) -> dict[str, int]:
        key = self._key()
        session = TableSession(self.table.model(key), self._reader, self._spark)
        state = session.reconciled(session.observe())
        new = self._stage.rows(session.model.config.primary_key)
        if new is None and state.changes is None:
            return {}
        kept = plain_columns(state.changes.columns) if state.changes else ()
        stored = kept if new is None else columns_of(new)
        context, shape = prepared(session, session.context(state), stored, "bigint")
        old = current_rows(context.spark, session.model, context.state, context.thresholds.pruning)
        nothing = context.spark.table(name(*session.model.table.changes.parts)).limit(0)
        now = nothing.select(*[column(of.name) for of in stored]) if new is None else new
        return _published(session, context, state_changes(now, old, shape, keyed=True), shape, position)

    def _key(self) -> tuple[str, ...]:
        """The primary key of the source, by its newest events or as the table keeps it."""
        if self._schema is not None or not self.is_loaded:
            return self._schema.key if self._schema is not None else ()
        changes = self.table.table.changes
        return key_names(self._reader.load_table(changes.schema, changes.name).properties.get(PRIMARY_KEY, ""))

    def _schema_of(self, events: TableEvents) -> SourceSchema:
        schema = events.schema or declared_schema(self.table)
        if schema is None:
            raise SourceError(
                f"{self.table.table}: the columns of {self.table.source_name} are not known: its events do not tell "
                "them.\n  what to do: declare the source's columns with their `data_type` in the YAML"
            )
        self._schema = schema
        return schema

    def session(self, schema: SourceSchema) -> TableSession:
        return TableSession(self.table.model(schema.key), self._reader, self._spark)

    def _attempt(
        self,
        events: TableEvents,
        schema: SourceSchema,
        position: str | None,
        after: After,
        take_dead: Callable[[DataFrame], None],
    ) -> Written:
        session = self.session(schema)
        state = session.reconciled(session.observe())
        last = last_run(state.changes)
        spark = session.spark()
        read = frame(spark, events)
        known = last.position if last else None
        left = events if known is None or known == self._own else after(events, known)
        new = read if left is events else frame(spark, left)
        with held(decode(new, self._form, schema)) as decoded:
            counted = tally(decoded)
            if counted.dead:
                take_dead(decoded)
            count = counted.rows + counted.dead
            replayed = 0 if left is events else read.count() - new.count()
            rows: dict[str, int] = {}
            if counted.rows or counted.truncated_at is not None:
                rows = self._publish(session, decoded, counted, schema, position)
                self._own = position or known
        return Written(
            self.table.name, rows, count + replayed, counted.rows, replayed, counted.dead, _moment(counted.newest)
        )

    def _publish(
        self,
        session: TableSession,
        decoded: DataFrame,
        counted: Tally,
        schema: SourceSchema,
        position: str | None,
    ) -> dict[str, int]:
        model = session.model
        context = session.context(session.observe())
        stored = tuple(Column(column.name, stored_type(column.type)) for column in schema.columns)
        check_query(model, stored, stored)
        last = last_run(context.state.changes)
        context, shape = prepared(session, context, stored, "bigint")
        rows = change_rows(context, decoded, counted, shape)
        return _published(session, context, rows, shape, position or (last.position if last else None))


def _published(
    session: TableSession, context: Context, rows: DataFrame, shape: Shape, position: str | None
) -> dict[str, int]:
    """Publishes change rows as the table's next commit; returns their number by action."""
    changes = context.state.changes
    assert changes is not None
    assert changes.head is not None
    table, head = session.model.table.changes, changes.head.snapshot
    is_first = last_run(changes) is None
    step = AppendChanges(table, head, *(("create", "FIRST_RUN") if is_first else ("incremental", "CHANGES")))
    summary = RunSummary(run=context.token, mode=step.mode, reason=step.reason, position=position)
    appended = publish(ChangeSet(step, rows, shape, summary), context)
    session.reconciled(session.observe(), appended=appended)
    return appended.rows


def frame(spark: SparkSession, events: TableEvents) -> DataFrame:
    """Events as a DataFrame of a session; those that this process holds are sent to Spark as Arrow."""
    return events.events(spark) if callable(events.events) else spark.createDataFrame(events.events)


@contextmanager
def held(rows: DataFrame) -> Iterator[DataFrame]:
    """While this lasts, rows are computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _moment(value: object) -> datetime.datetime | None:
    return value if isinstance(value, datetime.datetime) else None
