"""Replays dead letters: decodes them again, and applies each that can be applied unless newer changes replaced its row.

The dead letters of a table are applied first and then removed from the dead letter table, in separate commits. Each
change row that is applied has the number of its dead letter. By this number, a dead letter that was applied but not
removed is recognised.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.ingest.dead_letters.application import DecodedDeadLetters, apply_dead_letters
from arctic_runtime.ingest.dead_letters.lease import SourceLease, lease_taken_error
from arctic_runtime.ingest.dead_letters.letters import decode_schema
from arctic_runtime.ingest.dead_letters.outcome import APPLIED, APPLY, DEAD_LETTER, OUTCOME, REASONS
from arctic_runtime.ingest.dead_letters.table import COLUMNS, DeadLetterTable
from arctic_runtime.ingest.formats.event_format import Format, SourceSchema
from arctic_runtime.ingest.source import IngestSource
from arctic_runtime.ingest.transports.connector import ReadMessages, keep_messages
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, TableEvents
from arctic_runtime.ingest.writing.decoding.decode_events import CHANGE, PART, REASON, decode_changes
from arctic_runtime.ingest.writing.decoding.event_frames import cache_rows, to_dataframe
from arctic_runtime.ingest.writing.schema.column_names import check_column_names
from arctic_runtime.ingest.writing.schema.source_columns import read_numbers, was_renamed
from arctic_runtime.ingest.writing.schema.table_schemas import TableSchemas
from arctic_runtime.ingest.writing.table_target import TableStorage, TableTarget
from arctic_runtime.model.columns import OWN_PREFIX

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
            events = TableEvents(self._target.table.source_name, known, _serve_rows(self._read_messages(own)))
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


def _serve_rows(rows: DataFrame) -> Callable[[SparkSession], DataFrame]:
    return lambda _: rows
