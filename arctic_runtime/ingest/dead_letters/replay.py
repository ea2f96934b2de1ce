"""Replays dead letters: decodes them again, and applies each that can be applied unless newer changes replaced its row.

The dead letters of a table are applied first and then removed from the dead letter table, in separate commits. Each
change row that is applied has the number of its dead letter. By this number, a dead letter that was applied but not
removed is recognised.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.ingest.dead_letters.lease import SourceLease, lease_taken_error
from arctic_runtime.ingest.dead_letters.outcome import (
    APPLIED,
    APPLY,
    DEAD_LETTER,
    LACKING,
    OUTCOME,
    REASONS,
    classify_pieces,
    split_key_changes,
)
from arctic_runtime.ingest.dead_letters.table import (
    COLUMNS,
    DeadLetterId,
    DeadLetterTable,
    decode_ids,
    decode_schema,
    encode_ids,
)
from arctic_runtime.ingest.formats.event_format import EventFormat, Format, SourceSchema
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import ReadMessages, keep_messages
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, TableEvents
from arctic_runtime.ingest.writing.decode_events import ABSENT, CHANGE, ORDER, PART, REASON, decode_changes
from arctic_runtime.ingest.writing.event_frames import cache_rows, to_dataframe
from arctic_runtime.ingest.writing.fold import (
    EventCounts,
    KeptForReplay,
    change_rows,
    count_events,
    select_row_events,
)
from arctic_runtime.ingest.writing.keyed import KeyedChanges, KeyedTable
from arctic_runtime.ingest.writing.keyless import KeylessTable
from arctic_runtime.ingest.writing.records import CommitNote, read_position
from arctic_runtime.ingest.writing.source_columns import read_numbers, to_stored_columns, was_renamed
from arctic_runtime.ingest.writing.table_schemas import TableSchemas, check_column_names, serve_rows
from arctic_runtime.ingest.writing.table_target import TableStorage, TableTarget
from arctic_runtime.model.columns import ACTION, OWN_PREFIX
from arctic_runtime.model.properties import LETTERS
from arctic_runtime.model.run_summary import run_commits
from arctic_runtime.model.shape import INSERT, UNSENT_VALUE, Shape
from arctic_runtime.model.state import ChangeTableState, TableState
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.frames import as_key, match_key, to_column

_IS_STUCK = f"{OWN_PREFIX}is_stuck"


@dataclass(frozen=True)
class DecodedDeadLetters:
    """Decoded dead letters of one table schema.

    `rows` has one row for each changed row, with the columns of decoded events (`decode_events`), and the
    column DEAD_LETTER: the row of the dead letter table, as a struct. `form` is the format of the events.
    """

    rows: DataFrame
    schema: SourceSchema
    form: EventFormat


@dataclass(frozen=True)
class Application:
    """The result of applying dead letters to one table.

    `pieces` has one row for each dead letter and primary key that it changes (see `split_key_changes`), with the column
    OUTCOME. `counts` has the number of committed change rows by action, such as `insert`.
    """

    pieces: DataFrame
    counts: dict[str, int]


def apply_dead_letters(storage: TableStorage, letters: DecodedDeadLetters, stack: ExitStack) -> Application:
    """Commits the rows of `letters` to their table, except those that can't be applied or that newer changes replaced.

    Returns the outcome of each dead letter. DataFrames that are used several times stay cached until `stack` ends.
    """
    pieces = _order_pieces(split_key_changes(select_row_events(letters.rows)), has_order=bool(letters.form.order))
    if pieces.isEmpty():
        return Application(pieces.withColumn(OUTCOME, F.lit(APPLY)), {})
    state = storage.session.reconcile_until_done(storage.session.observe_state())
    if isinstance(storage, KeyedTable):
        return _publish_pieces(storage, state, letters, pieces, stack)
    counts = {INSERT: _append_rows(storage, state, letters)}
    return Application(pieces.withColumn(OUTCOME, F.lit(APPLY)), counts)


def _publish_pieces(
    storage: KeyedTable, state: TableState, letters: DecodedDeadLetters, pieces: DataFrame, stack: ExitStack
) -> Application:
    context, shape = storage.prepare_commit(state, to_stored_columns(letters.schema))
    known = stack.enter_context(cache_rows(classify_pieces(context, pieces, letters.schema, letters.form)))
    if known.where(F.col(OUTCOME) == APPLY).isEmpty():
        return Application(known, {})
    counts, changes = _fold_pieces(context, known, shape)
    if counts.partial:
        key = storage.session.model.config.primary_key
        flawed = changes.where(F.col(ACTION) == UNSENT_VALUE).select(*as_key(key)).distinct()
        known = stack.enter_context(cache_rows(_mark_lacking(known, flawed, key)))
        counts, changes = _fold_pieces(context, known, shape)
    if not counts.rows:
        return Application(known, {})
    note = CommitNote(read_position(state), "REPLAYED")
    made, _ = storage.publish_changes(context, KeyedChanges(changes, shape), note)
    return Application(known, {action: count for action, count in made.items() if count})


def _fold_pieces(context: Context, known: DataFrame, shape: Shape) -> tuple[EventCounts, DataFrame]:
    applicable = _select_applicable(known)
    counts = count_events(applicable)
    return counts, change_rows(context, applicable, counts, shape, KeptForReplay(arrival=True, unchanged=True))


def _order_pieces(pieces: DataFrame, has_order: bool) -> DataFrame:
    """Sets the column ORDER, by which the pieces (see `split_key_changes`) of one primary key are folded.

    Pieces are ordered by batch, and within a batch by the format's order. If the format has no order (`has_order` is
    False), ORDER is null, and the pieces are ordered by ARRIVAL.
    """
    if not has_order:
        return pieces.withColumn(ORDER, F.lit(None).cast("int"))
    letter = F.col(DEAD_LETTER)
    begin = F.coalesce(letter["number"] - letter["arrival"], F.col(ARRIVAL))
    return pieces.withColumn(ORDER, F.struct(begin.alias("begin"), F.col(ORDER).alias("own")))


def _select_applicable(known: DataFrame) -> DataFrame:
    """Selects the pieces (see `split_key_changes`) with OUTCOME APPLY, as far as their dead letter can be applied.

    An update of a primary key has two pieces; if one of them can't be applied, neither is.
    """
    is_stuck = F.max(F.col(OUTCOME).isin(*REASONS)).over(Window.partitionBy(ARRIVAL, PART))
    marked = known.withColumn(_IS_STUCK, is_stuck)
    return marked.where((F.col(OUTCOME) == APPLY) & ~F.col(_IS_STUCK)).drop(_IS_STUCK)


def _mark_lacking(known: DataFrame, flawed: DataFrame, key: Sequence[str]) -> DataFrame:
    """Changes OUTCOME from APPLY to LACKING for the pieces of `known` that lack values which the table lacks too.

    `flawed` has the primary keys for which no row of the table has the missing values, in columns named as by `as_key`.
    """
    marked = known.join(flawed.withColumn(_IS_STUCK, F.lit(True)), match_key(known, key), "left")
    lacks = F.col(_IS_STUCK).isNotNull() & F.col(ABSENT).isNotNull() & (F.col(OUTCOME) == APPLY)
    return marked.withColumn(OUTCOME, F.when(lacks, LACKING).otherwise(F.col(OUTCOME))).select(*known.columns)


def _append_rows(storage: KeylessTable, state: TableState, letters: DecodedDeadLetters) -> int:
    """Appends the rows of dead letters to a table without a primary key; returns the number of appended rows.

    The summary of each commit lists the ids of the dead letters that the commit appended. A dead letter that is already
    in such a list is skipped: a process appended it and died before it removed it from the dead letter table.
    """
    columns = list(enumerate(letters.schema.columns))
    rows = select_row_events(letters.rows).select(
        F.unix_micros(F.col(DEAD_LETTER)["at"]).alias("at"),
        F.coalesce(F.col(PART), F.lit(-1)).alias("part"),
        F.col(ARRIVAL).alias("number"),
        *[to_column(own.name).alias(f"c{i}") for i, own in columns],
    )
    read = {(row[0], row[1], row[2]) for row in rows.select("at", "part", "number").collect()}
    left = sorted(read - _list_applied(state.log))
    most = storage.session.reader.thresholds.ingest.named_dead_letters
    for start in range(0, len(left), most):
        ids = left[start : start + most]
        keys = storage.session.spark().createDataFrame(ids, "at bigint, part int, number bigint")
        chosen = rows.join(keys, ["at", "part", "number"], "left_semi")
        new = chosen.select(*[F.col(f"c{i}").alias(own.name) for i, own in columns])
        state = storage.append_dead_letters(state, new, to_stored_columns(letters.schema), encode_ids(ids))
    return len(left)


def _list_applied(log: ChangeTableState | None) -> set[DeadLetterId]:
    texts = (commit.summary.get(LETTERS) for commit in run_commits(log))
    return {letter for text in texts if text for letter in decode_ids(text)}


_FATE, _WHY, _IS_APPLIED, _ROW = (f"{OWN_PREFIX}{own}" for own in ("fate", "why", "is_applied", "row"))
_RENAMED = "the source has renamed its columns since: resync the table"
_TRUNCATES = "it empties the table, which can't be put in order: resync the table"


@dataclass
class Replayed:
    """Result of a replay for one table.

    `rows` has the number of change rows by action. The other fields count dead letters: those `applied`, those
    `superseded` by a newer change, and those that stay in the dead letter table (`dead`). An event without rows counts
    as applied.
    """

    table: str
    rows: dict[str, int] = field(default_factory=dict)
    applied: int = 0
    superseded: int = 0
    dead: int = 0

    @property
    def read(self) -> int:
        return self.applied + self.superseded + self.dead


def replay_dead_letters(
    source: IngestSource,
    form: Format,
    reader: CatalogReader,
    session: Callable[[], SparkSession],
    read_messages: ReadMessages = keep_messages,
) -> Iterator[Replayed]:
    """Applies the dead letters of a source to its tables, one table after the other; yields the result for each table.

    `session` creates a Spark session if there are dead letters. `read_messages` is that of the source's connection.
    Tables without dead letters are left out. Raises ConfigError if another process ingests the source, or takes its
    lease meanwhile.
    """
    spark = functools.cache(session)
    dead_letters = DeadLetterTable(source.dead_letter_table, reader, spark)
    if not dead_letters.count_dead_letters():
        return
    dead_letters.create_or_widen()
    lease = SourceLease(source.dead_letter_table, reader, spark)
    if (other := lease.take_lease()) is not None:
        raise lease_taken_error(source.dead_letter_table, other)
    lost = threading.Event()
    try:
        with lease.renew_in_background(lost.set):
            for table in source.tables:
                if lost.is_set():
                    return
                target = TableTarget(table, reader, spark, form)
                done = TableReplay(target, dead_letters, read_messages).replay()
                if done.read:
                    yield done
    finally:
        lease.end_lease()


class TableReplay:
    """Replays the dead letters of one table."""

    def __init__(
        self, target: TableTarget, dead_letters: DeadLetterTable, read_messages: ReadMessages = keep_messages
    ) -> None:
        self._target = target
        self._dead_letters = dead_letters
        self._read_messages = read_messages
        self._schemas = TableSchemas(target)

    def replay(self) -> Replayed:
        """Applies the table's dead letters that can be applied, and removes them; the others stay, with the reason.

        Raises ConfigError if the table can't take the columns, and CommitConflict if other writers always commit first.
        """
        return retry_on_conflict(self._replay_once, self._target.attempts)

    def _replay_once(self) -> Replayed:
        table = self._target.table
        done = Replayed(table.name)
        snapshot, stored = self._dead_letters.read_dead_letters()
        with ExitStack() as stack:
            letters = _number_dead_letters(stored.where(F.col("table") == table.source_name))
            letters = stack.enter_context(cache_rows(letters))
            if letters.isEmpty():
                return done
            left = [self._apply_part(part, letters, done, stack) for part in self._split_by_schema(letters)]
            rest = functools.reduce(DataFrame.unionByName, left)
            self._dead_letters.replace_dead_letters(table.source_name, rest, snapshot)
        return done

    def _split_by_schema(self, letters: DataFrame) -> Iterator[TableEvents]:
        """Splits dead letters of one table into parts with one schema each, and yields the parts as events.

        The schema of a part is the one that its events contain, else the one stored with its dead letters, else the one
        that the user declared; None if none of these exists.
        """
        written = F.col(DEAD_LETTER)["schema"]
        for (text,) in letters.select(written).distinct().collect():
            own = letters.where(written.eqNullSafe(F.lit(text))).select(PAYLOAD, ORIGIN, ARRIVAL)
            schema = decode_schema(text) if text is not None else None
            known = None if self._target.form.events.schema else schema
            events = TableEvents(self._target.table.source_name, known, serve_rows(self._read_messages(own)))
            for part in self._schemas.split_by_schema(events):
                best = part.schema or schema or self._schemas.read_declared()
                yield replace(part, schema=self._complete_schema(best, schema))

    def _complete_schema(self, schema: SourceSchema | None, written: SourceSchema | None) -> SourceSchema | None:
        """Returns `schema` with the names and the primary key of the arctic table; None for None.

        `written` is the schema that is stored with the dead letters, whose key is used if `schema` has none, as that of
        an event may.
        """
        if schema is None:
            return None
        table = self._target.table
        own = schema.rename_columns(table.renames)
        source_key = own.key or (written.rename_columns(table.renames).key if written else ())
        key = table.choose_key(source_key or self._schemas.find_key())
        stored = replace(own, key=key, is_key_chosen=set(key) != set(source_key))
        check_column_names(table, stored)
        return stored

    def _apply_part(self, part: TableEvents, letters: DataFrame, done: Replayed, stack: ExitStack) -> DataFrame:
        """Applies those of the dead letters `letters` whose events are in `part`, and adds their counts to `done`.

        All events of `part` have one schema. Returns the dead letters that could not be applied, as rows of the dead
        letter table with the reason.
        """
        events = to_dataframe(self._target.spark(), part).dropDuplicates([ARRIVAL])
        own = letters.join(events.select(ARRIVAL), ARRIVAL, "left_semi").select(ARRIVAL, DEAD_LETTER)
        if part.schema is None:
            done.dead += own.count()
            return own.select(f"{DEAD_LETTER}.*")
        storage, form = self._open_storage(part.schema), self._target.form.events
        if was_renamed(read_numbers(storage.session.observe_state()), part.schema):
            done.dead += own.count()
            return own.select(*_to_stored({"reason": F.lit(_RENAMED)}))
        letter_part = F.col(DEAD_LETTER)["part"]
        is_meant = letter_part.isNull() | F.col(PART).isNull() | (letter_part == F.col(PART))
        decoded = storage.reject_events(decode_changes(events, form, part.schema), form)
        rows = stack.enter_context(cache_rows(decoded.join(own, ARRIVAL).where(is_meant)))
        applied = apply_dead_letters(storage, DecodedDeadLetters(rows, part.schema, form), stack)
        for action, count in applied.counts.items():
            done.rows[action] = done.rows.get(action, 0) + count
        fates = stack.enter_context(cache_rows(_find_fates(rows, applied.pieces)))
        counts = {str(fate): int(number) for fate, number in fates.groupBy(_FATE).count().collect()}
        done.applied += counts.get("applied", 0) + own.join(rows, ARRIVAL, "left_anti").count()
        done.superseded += counts.get("superseded", 0)
        done.dead += counts.get("dead", 0)
        changed = {"reason": F.col(_WHY), "part": F.coalesce(letter_part, F.col(PART))}
        return fates.where(F.col(_FATE) == "dead").select(*_to_stored(changed))

    def _open_storage(self, schema: SourceSchema) -> TableStorage:
        """Opens the table for writing, without dropping columns: dead letters may have fewer columns than the table."""
        model = self._target.table.to_model(schema.key)
        if model.config.on_schema_change == "sync_all_columns":
            model = replace(model, config=replace(model.config, on_schema_change="append_new_columns"))
        return self._target.open_storage(model)


def _to_stored(changed: Mapping[str, Expression]) -> list[Expression]:
    """Returns the columns of a dead letter table, from `changed` if it has them, else from DEAD_LETTER."""
    return [changed.get(own.name, F.col(DEAD_LETTER)[own.name]).cast(own.type).alias(own.name) for own in COLUMNS]


def _number_dead_letters(stored: DataFrame) -> DataFrame:
    """Converts rows of a dead letter table to columns of events, and adds the whole row as the struct DEAD_LETTER.

    ARRIVAL is the letter's number. Letters that were stored without a number get negative ones, lower for older
    letters.
    """
    letter = F.struct(*[F.col(own.name) for own in COLUMNS]).alias(DEAD_LETTER)
    rows = stored.select("payload", "origin", "at", "number", letter)
    newest_first = Window.orderBy(F.col("at").desc(), F.col("origin").desc(), F.col("payload").desc())
    unnumbered = rows.where(F.col("number").isNull()).withColumn("number", -F.row_number().over(newest_first))
    both = rows.where(F.col("number").isNotNull()).unionByName(unnumbered)
    events = (("payload", PAYLOAD), ("origin", ORIGIN), ("number", ARRIVAL))
    return both.select(*[F.col(own).alias(alias) for own, alias in events], DEAD_LETTER)


def _find_fates(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Determines for each row of a dead letter whether it is `applied`, `superseded` or still `dead`, and the reason.

    `rows` are decoded dead letters, and `known` their pieces with OUTCOME. Rows that could not be decoded (they have a
    REASON) and truncates are `dead`. Returns the columns PART, DEAD_LETTER, _FATE and _WHY.
    """
    why = F.max(F.when(F.col(OUTCOME).isin(*REASONS), F.col(OUTCOME)))
    was_applied = F.max(F.col(OUTCOME).isin(APPLY, APPLIED))
    sound = known.groupBy(ARRIVAL, PART).agg(why.alias(_WHY), was_applied.alias(_IS_APPLIED))
    description = F.create_map(*[F.lit(text) for pair in REASONS.items() for text in pair])[F.col(_WHY)]
    is_sound = F.col(REASON).isNull() & (F.col(CHANGE) != "truncate")
    truncates = F.when(F.col(REASON).isNull(), _TRUNCATES)
    fate = (
        F.when(~is_sound | F.col(_WHY).isNotNull(), "dead").when(F.col(_IS_APPLIED), "applied").otherwise("superseded")
    )
    reason = F.when(is_sound, description).otherwise(F.coalesce(REASON, truncates))
    row = rows.withColumn(_ROW, F.coalesce(F.col(PART), F.lit(-1)))
    about = sound.withColumnRenamed(PART, _ROW)
    return row.join(about, [ARRIVAL, _ROW], "left").select(PART, DEAD_LETTER, fate.alias(_FATE), reason.alias(_WHY))
