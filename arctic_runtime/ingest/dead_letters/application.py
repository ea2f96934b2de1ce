"""Applies dead letters to their table, each only once, and only if no newer event has changed the same row."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from arctic_runtime.ingest.dead_letters.letters import DeadLetterId, decode_ids, encode_ids
from arctic_runtime.ingest.dead_letters.outcome import (
    APPLY,
    DEAD_LETTER,
    LACKING,
    OUTCOME,
    REASONS,
    classify_pieces,
    split_key_changes,
)
from arctic_runtime.ingest.formats.event_format import EventFormat, SourceSchema
from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decoding.decode_events import ABSENT, ORDER, PART
from arctic_runtime.ingest.writing.decoding.event_frames import cache_rows
from arctic_runtime.ingest.writing.fold import (
    EventCounts,
    KeptForReplay,
    change_rows,
    count_events,
    select_row_events,
)
from arctic_runtime.ingest.writing.keyed import KeyedChanges, KeyedTable
from arctic_runtime.ingest.writing.keyless import KeylessTable
from arctic_runtime.ingest.writing.schema.source_columns import to_stored_columns
from arctic_runtime.ingest.writing.source_position import CommitNote, read_position
from arctic_runtime.ingest.writing.table_target import TableStorage
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

    `rows` has one row for each changed row, with the columns of decoded events (`decoding.decode_events`), and the
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
