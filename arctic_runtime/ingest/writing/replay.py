"""Dead letters of a table are decoded again; those that fit now are applied, unless their row is newer already.

Applying them and taking them out of the dead letter table are two commits. Each change row that is applied tells the
number of its dead letter, so that one which is still there although it was applied is recognised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.ingest.formats.event_format import Format, SourceSchema
from arctic_runtime.ingest.source import IngestedTable
from arctic_runtime.ingest.transports.transport import ARRIVAL, ORIGIN, PAYLOAD, TableEvents
from arctic_runtime.ingest.writing.appended import only_inserts
from arctic_runtime.ingest.writing.appended_letters import append_letters
from arctic_runtime.ingest.writing.decode import ABSENT, CHANGE, ORDER, PART, REASON, decode
from arctic_runtime.ingest.writing.event_frames import frame, held
from arctic_runtime.ingest.writing.fold import change_rows, sound_rows, tally
from arctic_runtime.ingest.writing.judge import (
    APPLIED,
    APPLY,
    LACKING,
    LETTER,
    OUTCOME,
    REASONS,
    judged,
    pieces,
)
from arctic_runtime.ingest.writing.keyed import published
from arctic_runtime.ingest.writing.ledger import COLUMNS, Ledger
from arctic_runtime.ingest.writing.letters import read_schema
from arctic_runtime.ingest.writing.place import place_of
from arctic_runtime.ingest.writing.source_columns import known_numbers, was_renamed
from arctic_runtime.ingest.writing.table_writer import TableWriter
from arctic_runtime.model.columns import ACTION, OWN_PREFIX, Column
from arctic_runtime.model.shape import INSERT, UNSENT_VALUE
from arctic_runtime.model.table import Model
from arctic_runtime.plan.schema import check_query, to_stored_type
from arctic_runtime.spark.refresh.prepare import prepare_tables
from arctic_runtime.spark.tables.frames import as_key, match_key
from arctic_runtime.spark.tables.table_session import TableSession

_FATE, _WHY, _IS_STUCK, _IS_APPLIED, _ROW = (
    f"{OWN_PREFIX}{own}" for own in ("fate", "why", "is_stuck", "is_applied", "row")
)
_RENAMED = "the source has renamed its columns since: resync the table"
_TRUNCATES = "it empties the table, which can't be put in order: resync the table"


@dataclass
class Replayed:
    """What became of the dead letters of a table: change rows by action, and the rows that dead letters tell by fate.

    An event that says nothing of rows counts as applied.
    """

    table: str
    rows: dict[str, int] = field(default_factory=dict)
    applied: int = 0
    superseded: int = 0
    dead: int = 0

    @property
    def read(self) -> int:
        return self.applied + self.superseded + self.dead


class LetterReplay:
    """The dead letters of one table, and what applies them."""

    def __init__(
        self,
        table: IngestedTable,
        ledger: Ledger,
        reader: CatalogReader,
        spark: Callable[[], SparkSession],
        form: Format,
    ) -> None:
        self.table = table
        self._ledger = ledger
        self._reader = reader
        self._spark = spark
        self._form = form.events
        self._writer = TableWriter(table, reader, spark, form)

    def run(self) -> Replayed:
        """Applies what can be applied and keeps the rest, with the reason of each.

        Raises ConfigError where the table can't take the columns, and CommitConflict where others always win.
        """
        return retry_on_conflict(self._attempt, self._reader.thresholds.commits.attempts)

    def _attempt(self) -> Replayed:
        done = Replayed(self.table.name)
        snapshot, kept = self._ledger.read()
        with ExitStack() as stack:
            letters = stack.enter_context(held(_letters(kept.where(F.col("table") == self.table.source_name))))
            if letters.isEmpty():
                return done
            left = [self._apply(part, letters, done, stack) for part in self._parts(letters)]
            rest = left[0]
            for more in left[1:]:
                rest = rest.unionByName(more)
            self._ledger.keep(self.table.source_name, rest, snapshot)
        return done

    def _parts(self, letters: DataFrame) -> Iterator[TableEvents]:
        """Dead letters by the schema that each tells or has, or that the user declares."""
        written = F.col(LETTER)["schema"]
        for (text,) in letters.select(written).distinct().collect():
            own = letters.where(written.eqNullSafe(F.lit(text))).select(PAYLOAD, ORIGIN, ARRIVAL)
            schema = read_schema(text) if text is not None else None
            told = None if self._form.schema else schema
            for part in self._writer.told(TableEvents(self.table.source_name, told, _always(own))):
                yield replace(part, schema=self._complete(part.schema or schema or self._writer.declared(), schema))

    def _complete(self, schema: SourceSchema | None, written: SourceSchema | None) -> SourceSchema | None:
        """A schema with the key that the table is kept by: what an event tells may not have any."""
        if schema is None:
            return None
        told = schema.key or (written.key if written else ())
        key = self.table.key_of(told or self._writer.key())
        return replace(schema, key=key, is_key_chosen=set(key) != set(told))

    def _apply(self, part: TableEvents, letters: DataFrame, done: Replayed, stack: ExitStack) -> DataFrame:
        """Applies the dead letters of a schema; returns those that stay, as the dead letter table has them."""
        events = frame(self._spark(), part).dropDuplicates([ARRIVAL])
        own = letters.join(events.select(ARRIVAL), ARRIVAL, "left_semi").select(ARRIVAL, LETTER)
        if part.schema is None:
            done.dead += own.count()
            return own.select(f"{LETTER}.*")
        if self._was_renamed(part.schema):
            done.dead += own.count()
            return own.select(*[F.lit(_RENAMED) if of.name == "reason" else F.col(LETTER)[of.name] for of in COLUMNS])
        letter_part = F.col(LETTER)["part"]
        is_meant = letter_part.isNull() | F.col(PART).isNull() | (letter_part == F.col(PART))
        decoded = decode(events, self._form, part.schema)
        if self._model(part.schema).is_appended:
            decoded = only_inserts(decoded, self._form)
        rows = stack.enter_context(held(decoded.join(own, ARRIVAL).where(is_meant)))
        fates = stack.enter_context(held(_fates(rows, self._published(rows, part.schema, done, stack))))
        counts = {str(fate): int(count) for fate, count in fates.groupBy(_FATE).count().collect()}
        done.applied += counts.get("applied", 0) + own.join(rows, ARRIVAL, "left_anti").count()
        done.superseded += counts.get("superseded", 0)
        done.dead += counts.get("dead", 0)
        changed = {"reason": F.col(_WHY), "part": F.coalesce(letter_part, F.col(PART))}
        columns = [changed.get(of.name, F.col(LETTER)[of.name]).cast(of.type).alias(of.name) for of in COLUMNS]
        return fates.where(F.col(_FATE) == "dead").select(*columns)

    def _was_renamed(self, schema: SourceSchema) -> bool:
        state = TableSession(self._model(schema), self._reader, self._spark).observe_state()
        return was_renamed(known_numbers(state), schema)

    def _published(self, rows: DataFrame, schema: SourceSchema, done: Replayed, stack: ExitStack) -> DataFrame:
        """Publishes what is to be applied; returns what sound events do, with the OUTCOME of each."""
        session = TableSession(self._model(schema), self._reader, self._spark)
        found = _in_order(pieces(sound_rows(rows)), has_order=bool(self._form.order))
        if found.isEmpty():
            return found.withColumn(OUTCOME, F.lit(APPLY))
        state = session.reconcile_until_done(session.observe_state())
        if session.model.is_appended:
            done.rows[INSERT] = done.rows.get(INSERT, 0) + append_letters(session, state, sound_rows(rows), schema)
            return found.withColumn(OUTCOME, F.lit(APPLY))
        stored = tuple(Column(of.name, to_stored_type(of.type)) for of in schema.columns)
        check_query(session.model, stored, stored)
        context, shape = prepare_tables(session, session.build_context(state), stored, "bigint")
        known = stack.enter_context(held(judged(context, found, schema, self._form)))
        if known.where(F.col(OUTCOME) == APPLY).isEmpty():
            return known
        counted = tally(_chosen(known))
        changes = change_rows(context, _chosen(known), counted, shape, has_places=True)
        if counted.partial:
            key = session.model.config.primary_key
            flawed = changes.where(F.col(ACTION) == UNSENT_VALUE).select(*as_key(key)).distinct()
            known = stack.enter_context(held(_without(known, flawed, key)))
            counted = tally(_chosen(known))
            changes = change_rows(context, _chosen(known), counted, shape, has_places=True)
        if counted.rows:
            made, _ = published(session, context, changes, shape, place_of(state), reason="REPLAYED")
            done.rows = dict(Counter(done.rows) + Counter(made))
        return known

    def _model(self, schema: SourceSchema) -> Model:
        """The table as it is written here: dead letters may have fewer columns than the table, and drop none."""
        model = self.table.model(schema.key)
        if model.config.on_schema_change != "sync_all_columns":
            return model
        return replace(model, config=replace(model.config, on_schema_change="append_new_columns"))


def _letters(kept: DataFrame) -> DataFrame:
    """Dead letters as events, and whole as LETTER. Those without a number get a negative one, the older the lower."""
    letter = F.struct(*[F.col(of.name) for of in COLUMNS]).alias(LETTER)
    rows = kept.select("payload", "origin", "at", "number", letter)
    newest_first = Window.orderBy(F.col("at").desc(), F.col("origin").desc(), F.col("payload").desc())
    unnumbered = rows.where(F.col("number").isNull()).withColumn("number", -F.row_number().over(newest_first))
    both = rows.where(F.col("number").isNotNull()).unionByName(unnumbered)
    events = (("payload", PAYLOAD), ("origin", ORIGIN), ("number", ARRIVAL))
    return both.select(*[F.col(own).alias(of) for own, of in events], LETTER)


def _in_order(found: DataFrame, has_order: bool) -> DataFrame:
    """Pieces with an ORDER by which those of an earlier batch come first, whatever the events of each say."""
    if not has_order:
        return found.withColumn(ORDER, F.lit(None).cast("int"))
    letter = F.col(LETTER)
    begin = F.coalesce(letter["number"] - letter["arrival"], F.col(ARRIVAL))
    return found.withColumn(ORDER, F.struct(begin.alias("begin"), F.col(ORDER).alias("own")))


def _chosen(known: DataFrame) -> DataFrame:
    """The pieces that are to be applied, of events that can be applied in full."""
    is_stuck = F.max(F.col(OUTCOME).isin(*REASONS)).over(Window.partitionBy(ARRIVAL, PART))
    marked = known.withColumn(_IS_STUCK, is_stuck)
    return marked.where((F.col(OUTCOME) == APPLY) & ~F.col(_IS_STUCK)).drop(_IS_STUCK)


def _without(known: DataFrame, flawed: DataFrame, key: Sequence[str]) -> DataFrame:
    """Pieces of which those that lack values can't be applied to some keys, given under the names of `as_key`."""
    marked = known.join(flawed.withColumn(_IS_STUCK, F.lit(True)), match_key(known, key), "left")
    lacks = F.col(_IS_STUCK).isNotNull() & F.col(ABSENT).isNotNull() & (F.col(OUTCOME) == APPLY)
    return marked.withColumn(OUTCOME, F.when(lacks, LACKING).otherwise(F.col(OUTCOME))).select(*known.columns)


def _fates(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Rows of dead letters with what became of each: `applied`, `superseded`, or `dead` and why."""
    why = F.max(F.when(F.col(OUTCOME).isin(*REASONS), F.col(OUTCOME)))
    was_applied = F.max(F.col(OUTCOME).isin(APPLY, APPLIED))
    sound = known.groupBy(ARRIVAL, PART).agg(why.alias(_WHY), was_applied.alias(_IS_APPLIED))
    told = F.create_map(*[F.lit(of) for pair in REASONS.items() for of in pair])[F.col(_WHY)]
    is_sound = F.col(REASON).isNull() & (F.col(CHANGE) != "truncate")
    truncates = F.when(F.col(REASON).isNull(), _TRUNCATES)
    fate = (
        F.when(~is_sound | F.col(_WHY).isNotNull(), "dead").when(F.col(_IS_APPLIED), "applied").otherwise("superseded")
    )
    reason = F.when(is_sound, told).otherwise(F.coalesce(REASON, truncates))
    row = rows.withColumn(_ROW, F.coalesce(F.col(PART), F.lit(-1)))
    about = sound.withColumnRenamed(PART, _ROW)
    return row.join(about, [ARRIVAL, _ROW], "left").select(PART, LETTER, fate.alias(_FATE), reason.alias(_WHY))


def _always(rows: DataFrame) -> Callable[[SparkSession], DataFrame]:
    return lambda _: rows
