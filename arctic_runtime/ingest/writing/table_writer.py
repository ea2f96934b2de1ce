"""A batch of change events is published to one arctic table, exactly once, in one commit."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observe import observe_key
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.errors import CommitConflict, SourceError
from arctic_runtime.ingest.formats.event_format import Format, SourceColumn, SourceSchema
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, TableEvents
from arctic_runtime.ingest.writing.appended import append, check_appended, got_a_key, only_inserts, replace_all
from arctic_runtime.ingest.writing.decode import CHANGE, REASON, decode_all, is_change
from arctic_runtime.ingest.writing.event_frames import frame, held
from arctic_runtime.ingest.writing.fold import Tally, change_rows, sound_rows, tally
from arctic_runtime.ingest.writing.follow import follow
from arctic_runtime.ingest.writing.keyed import check_key, check_place, emptied, published, stored_columns
from arctic_runtime.ingest.writing.letters import Letters, TakeDead
from arctic_runtime.ingest.writing.place import Place, SourceTimes, place_of
from arctic_runtime.ingest.writing.source_columns import forget_columns, note_columns
from arctic_runtime.ingest.writing.stage import Stage
from arctic_runtime.ingest.writing.told import divided, runs_of
from arctic_runtime.model.columns import strip_change_columns
from arctic_runtime.model.shape import INSERT
from arctic_runtime.model.state import TableState
from arctic_runtime.plan.decide import Request, check_table
from arctic_runtime.plan.schema import check_query
from arctic_runtime.spark.engine.statement import alias_as, fill_statement, type_name
from arctic_runtime.spark.refresh.diff import diff_states
from arctic_runtime.spark.refresh.prepare import prepare_tables
from arctic_runtime.spark.tables.frames import list_frame_columns, read_current_rows, to_column
from arctic_runtime.spark.tables.table_session import TableSession

After = Callable[[TableEvents, str], TableEvents]
"""The events that come after a position of their source."""


@dataclass(frozen=True)
class Written:
    """What became of the events of a batch for one table: rows by action, and events by fate.

    read = applied + replayed + dead; of those that are applied, `folded` left no row of their own, since a later event
    of the batch replaced theirs. `newest` is the time of the newest change, None where no event tells it. `wait` is why
    the table took no more events of the batch, and takes none from now on; empty if it takes them.
    """

    table: str
    rows: dict[str, int]
    read: int
    applied: int
    replayed: int
    dead: int
    newest: datetime.datetime | None
    wait: str = ""

    @property
    def folded(self) -> int:
        return self.applied - sum(self.rows.values())


@dataclass(frozen=True)
class Part:
    """Events of one table and one schema in a batch, after those of `before`.

    `position` is that of the batch; None where more events of the table are to come in it. Where it `is_load`, they are
    rows of a snapshot that are inserted as they come. `shown` is as of when the table has shown its source until now.
    """

    events: TableEvents
    position: str | None
    before: tuple[TableEvents, ...] = ()
    is_load: bool = False
    shown: datetime.datetime | None = None


@dataclass(frozen=True)
class _New:
    """The events of a part that a table does not have yet.

    `begin` is how many events of the table come before them, after the position that the table is at. `left` is how
    many events the table has that come after the part.
    """

    events: DataFrame
    begin: int
    left: int = 0


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
        self._shown: datetime.datetime | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the table is there. Needs no Spark."""
        return self._known_key() is not None

    def write(self, part: Part, after: After, take_dead: TakeDead, reads: bool = True) -> Written:
        """Publishes events, without those that the table has already, and notes up to where it has all.

        Without `reads`, rows of a snapshot are left out: they were collected. Raises ConfigError where the source's
        columns can't be followed, and CommitConflict where other writers always win.
        """
        if part.events.schema is None and self._format.tell is not None:
            return self._without_schema(part, take_dead)
        schema = self._schema_of(part.events)
        self._shown = part.shown
        attempts = self._reader.thresholds.commits.attempts
        return retry_on_conflict(lambda: self._attempt(part, schema, after, take_dead, reads), attempts)

    def merge_base(self) -> None:
        """Merges what is not merged yet into the base of a table merged on read, if that is worth its cost.

        Beside `write`, which leaves it out: a merge may take as long as many batches. Other writers go first.
        """
        if not self.is_loaded:
            return
        session = TableSession(self.table.model(self.key()), self._reader, self._spark)
        with suppress(CommitConflict):
            session.reconcile_until_done(session.observe_state())

    def forget(self) -> None:
        """Takes no event for new until the table has told: events come again."""
        self._own = None

    def begin_snapshot(self) -> None:
        """Forgets what an earlier snapshot collected."""
        self._stage.drop()

    def collect(self, events: TableEvents, take_dead: TakeDead) -> Written:
        """Collects the rows of a snapshot among events, of a table that keeps what it has until all are there."""
        schema = self._schema_of(events)
        with held(decode_all(frame(self._spark(), events), self._form, schema), is_read()) as decoded:
            counted = tally(decoded)
            if counted.dead:
                session = TableSession(self.table.model(schema.key), self._reader, self._spark)
                take_dead(self._letters(decoded, session.observe_state(), events))
            rows = sound_rows(decoded).select(*[to_column(of.name) for of in schema.columns])
            if counted.rows:
                self._stage.add(rows)
        return Written(self.table.name, {}, counted.rows + counted.dead, counted.rows, 0, counted.dead, counted.newest)

    def end_snapshot(self, position: str) -> Written:
        """Publishes what differs between the table and the snapshot's rows, as of a position; deletes what is gone."""
        rows = retry_on_conflict(lambda: self._exchange(position), self._reader.thresholds.commits.attempts)
        self._stage.drop()
        return Written(self.table.name, rows, 0, 0, 0, 0, None)

    def _exchange(self, position: str) -> dict[str, int]:
        key = self.key()
        session = TableSession(self.table.model(key), self._reader, self._spark)
        state = self._observed(session)
        new = self._stage.rows(key)
        if new is None and self._schema is not None:
            new = _no_rows(self._spark(), self._schema)
        if not key:
            replace_all(session, state, new, self._schema, Place(position))
            return {}
        if new is None:
            forget_columns(session, state)
            return emptied(session, state, Place(position), "RESYNCED")[0]
        context, shape = prepare_tables(session, session.build_context(state), list_frame_columns(new), "bigint")
        if self._schema is not None:
            note_columns(session, context.state, self._schema)
        old = read_current_rows(context.spark, session.model, context.state, context.thresholds.pruning)
        rows = diff_states(new, old, shape, keyed=True)
        return published(session, context, rows, shape, Place(position), reason="RESYNCED")[0]

    def key(self) -> tuple[str, ...]:
        """The key of the table, () for none: the source's by its newest events, or the one that it is kept by."""
        if self._schema is not None:
            return self._schema.key
        return self._known_key() or self.table.key

    def _known_key(self) -> tuple[str, ...] | None:
        """The key that the table is kept by, () where events are appended to it; None without a table."""
        return observe_key(self._reader, self.table.table)

    def _observed(self, session: TableSession) -> TableState:
        """The state of the table, which is brought up to date; raises ConfigError where it is kept in another way."""
        if session.model.is_appended:
            state = session.observe_state()
            check_appended(session, state)
            return state
        state = session.reconcile_until_done(session.observe_state(), defer=True)
        if state.conflicting is not None and self._known_key() == ():
            raise got_a_key(session.model)
        check_key(session.model, state)
        check_table(session.model, state, Request())
        return state

    def _schema_of(self, events: TableEvents) -> SourceSchema:
        schema = events.schema or self.declared()
        if schema is None:
            raise SourceError(
                f"{self.table.table}: the columns of {self.table.source_name} are not known: its events do not tell "
                "them.\n  what to do: declare the source's columns with their `data_type` in the YAML"
            )
        key = self._in_order(self.table.key_of(schema.key))
        self._schema = replace(schema, key=key, is_key_chosen=set(key) != set(schema.key))
        return self._schema

    def _in_order(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """A key in the order of the table's: truncations and other events may tell it in different ones."""
        known = self._schema.key if self._schema is not None else self._known_key()
        return known if known is not None and set(known) == set(key) else key

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
        since = state.log.head if state.log else None
        return Letters(decoded, since, events.schema, emptied_at)

    def _stored(self) -> SourceSchema | None:
        """The columns that the table has, for events that have no rows; None where there is no table."""
        key = self._known_key()
        if key is None:
            return None
        log = TableSession(self.table.model(key), self._reader, self._spark).observe_state().log
        columns = strip_change_columns(log.columns) if log else ()
        return SourceSchema(tuple(SourceColumn(of.name, of.type) for of in columns), key)

    def _without_schema(self, part: Part, take_dead: TakeDead) -> Written:
        """Takes the dead letters among events of a table that is not there yet, none of which tells its columns."""
        with held(decode_all(frame(self._spark(), part.events), self._form, SourceSchema(())), is_change()) as decoded:
            counted = tally(decoded)
            if counted.dead:
                take_dead(self._letters(decoded, TableState(), part.events))
        return Written(self.table.name, {}, counted.rows + counted.dead, counted.rows, 0, counted.dead, None)

    def _attempt(self, part: Part, schema: SourceSchema, after: After, take_dead: TakeDead, reads: bool) -> Written:
        session = TableSession(self.table.model(schema.key), self._reader, self._spark)
        state = self._observed(session)
        place = place_of(state)
        spark = session.spark()
        read = frame(spark, part.events)
        new = self._all(spark, part, read) if place == self._own else self._new(spark, part, place, after)
        decoding = decode_all(new.events, self._form, schema)
        if session.model.is_appended:
            self._check_load(part, place)
            decoding = only_inserts(decoding, self._form)
        decoding = _without_bytes(decoding)
        with held(decoding, is_change() if reads else is_change() & ~is_read()) as decoded:
            counted = tally(decoded)
            if counted.dead or counted.truncated_at is not None:
                take_dead(self._letters(decoded, state, part.events, counted.truncated_at))
            replayed = 0 if new.events is read else read.count() - new.events.count()
            rows: dict[str, int] = {}
            is_behind = part.position is not None and new.left > 0
            is_told = state.log is None and not (counted.rows or counted.dead or replayed)
            if counted.rows or counted.truncated_at is not None or is_behind or is_told:
                end = Place(part.position, new.left) if part.position else None
                if session.model.is_appended:
                    rows = self._append(session, state, decoded, new, counted, schema, end)
                else:
                    has_places = bool(counted.dead or part.before) and not self._form.order
                    rows = self._publish(session, state, decoded, new, counted, schema, end, has_places)
        dead, applied = counted.dead, counted.rows
        return Written(self.table.name, rows, applied + dead + replayed, applied, replayed, dead, counted.newest)

    def _check_load(self, part: Part, place: Place) -> None:
        """Raises CommitConflict where another process has loaded a table whose rows no key tells apart."""
        if part.is_load and place != (self._own or Place()):
            raise CommitConflict(
                f"Another process committed first.\n  while: load {self.table.table}\n  expected: {self._own}\n"
                f"  found: {place}\n  what to do: run again, when the other process has ended"
            )

    def _all(self, spark: SparkSession, part: Part, read: DataFrame) -> _New:
        """All events, of which this process knows that the table has none."""
        return _New(read, sum(frame(spark, of).count() for of in part.before))

    def _new(self, spark: SparkSession, part: Part, place: Place, after: After) -> _New:
        """The events that come after a place."""
        known = place.position
        new = frame(spark, part.events if known is None else after(part.events, known))
        before = sum(frame(spark, of if known is None else after(of, known)).count() for of in part.before)
        had = max(0, place.events - before)
        if not had:
            return _New(new, before)
        arrivals = sorted(row[0] for row in new.select(ARRIVAL).collect())
        if had >= len(arrivals):
            return _New(new.limit(0), before + len(arrivals), had - len(arrivals))
        return _New(new.where(F.col(ARRIVAL) >= arrivals[had]), before + had)

    def _append(
        self,
        session: TableSession,
        state: TableState,
        decoded: DataFrame,
        new: _New,
        counted: Tally,
        schema: SourceSchema,
        end: Place | None,
    ) -> dict[str, int]:
        """Appends the rows of sound events to a table without a key, in one commit."""
        stored = stored_columns(schema)
        if counted.rows:
            state = follow(session, state, schema)
        rows = sound_rows(decoded).select(*[to_column(of.name) for of in stored])
        now = end or Place(place_of(state).position, new.begin + new.events.count())
        append(session, state, rows, schema, now, SourceTimes(counted.newest, self._shown))
        self._own = now
        return {INSERT: counted.rows}

    def _publish(
        self,
        session: TableSession,
        state: TableState,
        decoded: DataFrame,
        new: _New,
        counted: Tally,
        schema: SourceSchema,
        end: Place | None,
        has_places: bool,
    ) -> dict[str, int]:
        """Publishes sound events in one commit, which notes how many of the batch's events it has until it has all.

        `state` is the one by which events that the table has were left out. Raises CommitConflict where another writer
        commits in between.
        """
        at = place_of(state)
        state = follow(session, state, schema) if counted.rows else state
        check_place(session, state, at)
        now = end or replace(at, events=new.begin + new.events.count())
        stored = stored_columns(schema)
        check_query(session.model, stored, stored)
        context, shape = prepare_tables(session, session.build_context(state), stored, "bigint")
        note_columns(session, context.state, schema)
        rows = change_rows(context, decoded, counted, shape, has_places)
        # Events were just brought together by key, in as many partitions as their size needs.
        is_gathered, times = counted.truncated_at is None, SourceTimes(counted.newest, self._shown)
        made, _ = published(session, context, rows, shape, now, times, is_gathered=is_gathered)
        self._own = now
        return made


def _no_rows(spark: SparkSession, schema: SourceSchema) -> DataFrame:
    """No rows of a table with the columns of a schema."""
    nulls = [
        alias_as(fill_statement("CAST(NULL AS {kind})", kind=type_name(of.type)), of.name) for of in schema.columns
    ]
    return spark.range(0).selectExpr(*nulls)


def _without_bytes(decoded: DataFrame) -> DataFrame:
    """Decoded events of which dead letters alone have their bytes and origin: nobody asks for those of others."""
    return decoded.withColumns({own: F.when(F.col(REASON).isNotNull(), F.col(own)) for own in (PAYLOAD, ORIGIN)})


def is_read() -> Expression:
    """Whether a decoded event is a row of a snapshot."""
    return F.col(CHANGE).eqNullSafe("read")
