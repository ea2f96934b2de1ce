"""A batch of change events is published to one arctic table, exactly once, in one commit."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retried
from arctic_runtime.errors import CommitConflict, SourceError
from arctic_runtime.ingest.formats.event_format import Format, SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.ingest.transports.transport import ARRIVAL, TableEvents
from arctic_runtime.ingest.writing.decode import CHANGE, decode
from arctic_runtime.ingest.writing.fold import Tally, change_rows, sound_rows, tally
from arctic_runtime.ingest.writing.letters import Letters, TakeDead
from arctic_runtime.ingest.writing.moved import ALL, moves_frame, pieces, touched
from arctic_runtime.ingest.writing.stage import Stage
from arctic_runtime.ingest.writing.told import divided, runs_of
from arctic_runtime.model.change_set import ChangeSet
from arctic_runtime.model.columns import Column, plain_columns
from arctic_runtime.model.ingestion import millis
from arctic_runtime.model.key import key_names
from arctic_runtime.model.properties import PRIMARY_KEY
from arctic_runtime.model.run_summary import RunSummary, last_run
from arctic_runtime.model.shape import Shape, shape_of
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import AppendChanges, Reason
from arctic_runtime.plan.schema import check_query, stored_type
from arctic_runtime.spark.engine.statement import aliased, statement, type_name
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


@dataclass(frozen=True)
class Place:
    """Up to where a table has the events of its source: a position, and how many of its events after that."""

    position: str | None = None
    events: int = 0


def place_of(state: TableState) -> Place:
    last = last_run(state.changes)
    return Place(last.position, int(last.position_events or 0)) if last else Place()


@dataclass(frozen=True)
class Part:
    """Events of one table and one schema in a batch, after those of `before`.

    `position` is that of the batch; None where more events of the table are to come in it.
    """

    events: TableEvents
    position: str | None
    before: tuple[TableEvents, ...] = ()


class TableWriter:
    """Writes batches of one table. The state of the table tells which events it has: a process needs to remember none.

    `take_dead` gets the decoded events that can't be applied, before the table's commit.
    """

    def __init__(
        self, table: IngestedTable, reader: CatalogReader, spark: Callable[[], SparkSession], form: Format
    ) -> None:
        self.table = table
        self._reader = reader
        self._spark = spark
        self._format = form
        self._form = form.events
        self._own: Place | None = None
        self._schema: SourceSchema | None = None
        self._stage = Stage(table.table, reader, spark)

    @property
    def is_loaded(self) -> bool:
        """Whether the table is there. Needs no Spark."""
        changes = self.table.table.changes
        return changes.name in self._reader.list_relations(changes.schema)

    def write(self, part: Part, after: After, take_dead: TakeDead, reads: bool = True) -> Written:
        """Publishes events, without those that the table has already, and notes up to where it has all.

        Without `reads`, rows of a snapshot are left out: they were collected. Raises ConfigError where the source's
        columns can't be followed, and CommitConflict where other writers always win.
        """
        if part.events.schema is None and self._format.tell is not None:
            return self._without_schema(part, take_dead)
        schema = self._schema_of(part.events)
        attempts = self._reader.thresholds.commits.attempts
        return retried(lambda: self._attempt(part, schema, after, take_dead, reads), attempts)

    def merge_base(self) -> None:
        """Merges what is not merged yet into the base of a table merged on read, if that is worth its cost.

        Beside `write`, which leaves it out: a merge may take as long as many batches. Other writers go first.
        """
        if not self.is_loaded:
            return
        session = TableSession(self.table.model(self.key()), self._reader, self._spark)
        with suppress(CommitConflict):
            session.reconciled(session.observe())

    def forget(self) -> None:
        """Takes no event for new until the table has told: events come again."""
        self._own = None

    def begin_snapshot(self) -> None:
        """Forgets what an earlier snapshot collected."""
        self._stage.drop()

    def collect(self, events: TableEvents, take_dead: TakeDead) -> Written:
        """Collects the rows of a snapshot among events, of a table that keeps what it has until all are there."""
        schema = self._schema_of(events)
        with held(decode(frame(self._spark(), events), self._form, schema).where(is_read())) as decoded:
            counted = tally(decoded)
            if counted.dead:
                session = TableSession(self.table.model(schema.key), self._reader, self._spark)
                take_dead(self._letters(decoded, session.observe(), events))
            rows = sound_rows(decoded).select(*[column(of.name) for of in schema.columns])
            if counted.rows:
                self._stage.add(rows)
        return Written(self.table.name, {}, counted.rows + counted.dead, counted.rows, 0, counted.dead, counted.newest)

    def end_snapshot(self, position: str) -> Written:
        """Publishes what differs between the table and the snapshot's rows, as of a position; deletes what is gone."""
        rows = retried(lambda: self._exchange(position), self._reader.thresholds.commits.attempts)
        self._stage.drop()
        return Written(self.table.name, rows, 0, 0, 0, 0, None)

    def _exchange(self, position: str) -> dict[str, int]:
        key = self.key()
        session = TableSession(self.table.model(key), self._reader, self._spark)
        state = session.reconciled(session.observe(), defer=True)
        new = self._stage.rows(session.model.config.primary_key)
        if new is None and self._schema is not None:
            new = _no_rows(self._spark(), self._schema)
        if new is None:
            return _emptied(session, state, Place(position), "RESYNCED")[0]
        context, shape = prepared(session, session.context(state), columns_of(new), "bigint")
        old = current_rows(context.spark, session.model, context.state, context.thresholds.pruning)
        rows = state_changes(new, old, shape, keyed=True)
        return published(session, context, rows, shape, Place(position), reason="RESYNCED")[0]

    def key(self) -> tuple[str, ...]:
        """The primary key of the source, by its newest events or as the table keeps it."""
        if self._schema is not None or not self.is_loaded:
            return self._schema.key if self._schema is not None else ()
        changes = self.table.table.changes
        return key_names(self._reader.load_table(changes.schema, changes.name).properties.get(PRIMARY_KEY, ""))

    def _schema_of(self, events: TableEvents) -> SourceSchema:
        schema = events.schema or self.declared()
        if schema is None:
            raise SourceError(
                f"{self.table.table}: the columns of {self.table.source_name} are not known: its events do not tell "
                "them.\n  what to do: declare the source's columns with their `data_type` in the YAML"
            )
        self._schema = schema
        return schema

    def declared(self) -> SourceSchema | None:
        """The schema that the user declares; None where no column has a type."""
        return self._format.declare(self.table.columns, self.table.key) if self.table.columns else None

    def told(self, events: TableEvents) -> list[TableEvents]:
        """Events by the schemas that they tell, in their order; as they are where none do."""
        tell, paths = self._format.tell, self._format.events.schema
        if events.schema is not None or tell is None:
            return [events]
        rows = frame(self._spark(), events)
        runs = runs_of(rows, paths)
        if not runs:
            return [replace(events, schema=self._schema or self.declared() or self._stored())]
        schemas = [tell(run.example, None, self.table.columns) for run in runs]
        parts = zip(schemas, divided(rows, runs), strict=True)
        return [replace(events, schema=schema, events=of_run) for schema, of_run in parts]

    def _letters(
        self, decoded: DataFrame, state: TableState, events: TableEvents, emptied_at: int | None = None
    ) -> Letters:
        """The dead letters among decoded events that come after a state of the table."""
        since = state.changes.head if state.changes else None
        return Letters(decoded, since, events.schema, emptied_at)

    def _stored(self) -> SourceSchema | None:
        """The columns that the table has, for events that have no rows; None where there is no table."""
        key = self.key()
        if not self.is_loaded:
            return None
        changes = TableSession(self.table.model(key), self._reader, self._spark).observe().changes
        columns = plain_columns(changes.columns) if changes else ()
        return SourceSchema(tuple(SourceColumn(of.name, of.type) for of in columns), key)

    def _without_schema(self, part: Part, take_dead: TakeDead) -> Written:
        """Takes the dead letters among events of a table that is not there yet, none of which tells its columns."""
        with held(decode(frame(self._spark(), part.events), self._form, SourceSchema(()))) as decoded:
            counted = tally(decoded)
            if counted.dead:
                take_dead(self._letters(decoded, TableState(), part.events))
        return Written(self.table.name, {}, counted.rows + counted.dead, counted.rows, 0, counted.dead, None)

    def _attempt(self, part: Part, schema: SourceSchema, after: After, take_dead: TakeDead, reads: bool) -> Written:
        session = TableSession(self.table.model(schema.key), self._reader, self._spark)
        state = session.reconciled(session.observe(), defer=True)
        place = place_of(state)
        spark = session.spark()
        read = frame(spark, part.events)
        new, left = (read, 0) if place == self._own else self._new(spark, part, place, after)
        decoding = decode(new, self._form, schema)
        with held(decoding if reads else decoding.where(~is_read())) as decoded:
            counted = tally(decoded)
            if counted.dead or counted.truncated_at is not None:
                take_dead(self._letters(decoded, state, part.events, counted.truncated_at))
            replayed = 0 if new is read else read.count() - new.count()
            rows: dict[str, int] = {}
            is_told = state.changes is None and not (counted.rows or counted.dead or replayed)
            if counted.rows or counted.truncated_at is not None or left or is_told:
                end = Place(part.position, left) if part.position else None
                has_places = bool(counted.dead or part.before) and not self._form.order
                rows = self._publish(session, state, decoded, new, counted, schema, end, has_places)
        dead, applied = counted.dead, counted.rows
        return Written(self.table.name, rows, applied + dead + replayed, applied, replayed, dead, counted.newest)

    def _new(self, spark: SparkSession, part: Part, place: Place, after: After) -> tuple[DataFrame, int]:
        """The events that come after a place, and how many of those that the table has are still to come."""
        known = place.position
        new = frame(spark, part.events if known is None else after(part.events, known))
        if not place.events:
            return new, 0
        before = sum(frame(spark, of if known is None else after(of, known)).count() for of in part.before)
        arrivals = sorted(row[0] for row in new.select(ARRIVAL).collect())
        had = max(0, place.events - before)
        if had >= len(arrivals):
            return new.limit(0), had - len(arrivals)
        return new.where(F.col(ARRIVAL) >= arrivals[had]), 0

    def _publish(
        self,
        session: TableSession,
        state: TableState,
        decoded: DataFrame,
        new: DataFrame,
        counted: Tally,
        schema: SourceSchema,
        end: Place | None,
        has_places: bool,
    ) -> dict[str, int]:
        """Publishes sound events; in several commits where the table is emptied, or rows lack values.

        `state` is the one by which events that the table has were left out. Values that were not sent may be those that
        a commit before gives to another row. Each commit notes how many of the events it has, since only the last one
        has all of them. Raises CommitConflict where another writer commits in between.
        """
        key = session.model.config.primary_key
        rows: Counter[str] = Counter()
        place = at = place_of(state)
        if counted.truncated_at is not None:
            emptied, state = _emptied(session, state, place)
            rows.update(emptied)
            decoded = decoded.where(F.col(ARRIVAL) > counted.truncated_at)
        found = pieces(touched(sound_rows(decoded), key)) if counted.lacking else [ALL]
        for piece in found:
            events = decoded if piece is ALL else decoded.where(F.col(ARRIVAL).between(piece.start, piece.end - 1))
            moves = moves_frame(session.spark(), piece.moves, decoded, key) if piece.moves else None
            now = end
            if piece is not found[-1] or end is None:
                now = replace(place, events=place.events + new.where(F.col(ARRIVAL) < piece.end).count())
            assert now is not None
            _check_place(session, state, at)
            made, state = self._publish_piece(session, state, events, counted, schema, now, moves, has_places)
            rows.update(made)
            self._own = at = now
        return dict(rows)

    def _publish_piece(
        self,
        session: TableSession,
        state: TableState,
        events: DataFrame,
        counted: Tally,
        schema: SourceSchema,
        place: Place,
        moves: DataFrame | None,
        has_places: bool,
    ) -> tuple[dict[str, int], TableState]:
        stored = tuple(Column(column.name, stored_type(column.type)) for column in schema.columns)
        check_query(session.model, stored, stored)
        context, shape = prepared(session, session.context(state), stored, "bigint")
        rows = change_rows(context, events, counted, shape, moves, has_places)
        return published(session, context, rows, shape, place, counted.newest)


def _emptied(
    session: TableSession, state: TableState, place: Place, reason: Reason = "CHANGES"
) -> tuple[dict[str, int], TableState]:
    """Deletes all rows of a table, if it has any; returns their number and the state after that."""
    context = session.context(state)
    old = current_rows(context.spark, session.model, state, context.thresholds.pruning) if state.changes else None
    if state.changes is None or old is None:
        return {}, state
    shape = shape_of(session.model, state, plain_columns(state.changes.columns))
    rows = state_changes(old.limit(0), old, shape, keyed=True)
    return published(session, context, rows, shape, place, reason=reason)


def _check_place(session: TableSession, state: TableState, expected: Place) -> None:
    """Raises CommitConflict where another writer has brought a table to another place since this one's last commit."""
    found = place_of(state)
    if found != expected:
        raise CommitConflict(
            f"Another writer committed first.\n  while: publish events to {session.model.table}\n"
            f"  expected: {expected}\n  found: {found}"
        )


def published(
    session: TableSession,
    context: Context,
    rows: DataFrame,
    shape: Shape,
    place: Place,
    newest: datetime.datetime | None = None,
    reason: Reason = "CHANGES",
) -> tuple[dict[str, int], TableState]:
    """Publishes change rows as the table's next commit; returns their number by action, and the state after that.

    The table has the events of its source up to `place` then. `newest` is the time of the newest change among them,
    where events tell it, and `reason` says where the rows come from.
    """
    changes = context.state.changes
    assert changes is not None
    assert changes.head is not None
    table, head = session.model.table.changes, changes.head.snapshot
    is_first = last_run(changes) is None
    if is_first and reason == "CHANGES":
        reason = "FIRST_RUN"
    step = AppendChanges(table, head, "create" if is_first else "incremental", reason)
    had = str(place.events) if place.events else None
    summary = RunSummary(
        run=context.token,
        mode=step.mode,
        reason=step.reason,
        position=place.position,
        position_events=had,
        source_time_ms=None if newest is None else millis(newest),
    )
    appended = publish(ChangeSet(step, rows, shape, summary), context)
    return appended.rows, session.reconciled(session.observe(), appended=appended, defer=True)


def _no_rows(spark: SparkSession, schema: SourceSchema) -> DataFrame:
    """No rows of a table with the columns of a schema."""
    nulls = [aliased(statement("CAST(NULL AS {kind})", kind=type_name(of.type)), of.name) for of in schema.columns]
    return spark.range(0).selectExpr(*nulls)


def is_read() -> Expression:
    """Whether a decoded event is a row of a snapshot."""
    return F.col(CHANGE).eqNullSafe("read")


def frame(spark: SparkSession, events: TableEvents) -> DataFrame:
    """Events as a DataFrame of a session; those that this process holds are sent to Spark as Arrow."""
    if callable(events.events):
        return events.events(spark)
    # A session of Spark Connect infers no schema from a table without rows.
    empty = None if events.events.num_rows else from_arrow_schema(events.events.schema)
    return spark.createDataFrame(events.events) if empty is None else spark.createDataFrame([], empty)


@contextmanager
def held(rows: DataFrame) -> Iterator[DataFrame]:
    """While this lasts, rows are computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()
