"""Folds decoded events of a table into one net event per primary key, and computes change rows from the net events.

PostgreSQL sends an update of a primary key as a delete and an insert with the same log position, and leaves out long
values that the update did not touch. These values are those of the row under its old key, which may itself have had
another key before.

A life is the sequence of events of one key up to a delete. Lives that are joined by key changes form a chain, which has
all events of one row. Each column has the newest value that any event of the chain sent, or if there is none, that of
the table's row under the chain's first key.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decode_events import (
    ABSENT,
    CHANGE,
    LOG_POSITION,
    OLD_KEY,
    ORDER,
    PART,
    REASON,
    TIME,
)
from arctic_runtime.model.columns import OWN_PREFIX, POSITION, TIMESTAMP, is_same_name
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.changes.diff import (
    build_images,
    diff_events,
    list_key_images,
    name_provided_flag,
    refresh_changes,
)
from arctic_runtime.spark.engine.statement import alias_as, fill_statement, quote_name
from arctic_runtime.spark.events.merge_functions import MergeFunctions
from arctic_runtime.spark.events.partial_columns import name_presence_flag
from arctic_runtime.spark.events.rules import EventRules, blend_rows, choose_rules, net_events
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.bounds import lookup_keys
from arctic_runtime.spark.tables.rows.frames import (
    Keys,
    combine_all,
    query_rows,
    read_current_rows,
    read_stored_rows,
    to_column,
)

ID, CHANGE_POSITION, LACKS_ORIGIN = "id", "change_position", "lacks_origin"
"""Columns of events, read by `find_chains`.

ID is a number that is higher for later events, CHANGE_POSITION the position of the change in the source's log, and
LACKS_ORIGIN whether the event is the first of a row but lacks some of the row's values.
"""

HAS_KEY_CHANGES, FIRST = "has_key_changes", "first"
"""Columns of folded chains: whether the row had another key before, and the row's first key as a struct."""


@dataclass(frozen=True)
class Chains:
    """Events with the column `chain`, which identifies the row that an event changes, whatever key the row had.

    `key_changes` is the approximate number of key changes among the events. If the last event of a key is a delete, the
    events contain it a second time with `is_gone`, in a chain of its own, so that the key is deleted.
    """

    events: DataFrame
    key_changes: int


def find_chains(spark: SparkSession, events: DataFrame, shape: Shape) -> Chains:
    """Adds `chain` to events: the number of the first life of the row that an event changes, across key changes.

    `events` have the values of the table's columns, `deleted`, `order`, `seq`, ID, CHANGE_POSITION and LACKS_ORIGIN.
    Adds `is_newest`, whether the event is the newest of its key; `reset`, whether some event deletes its key; and
    `is_rooted`, whether the event's life is the first of its key, so that it may begin with the table's row. Sets `seq`
    below 0 if the row of the key got another key. Runs one Spark job.
    """
    lives = _with_lives(_with_origins(events), shape)
    parents = _find_parents(lives)
    roots = sorted(find_roots(parents).items())
    columns = {"life": [life for life, _ in roots], "root": [root for _, root in roots]}
    table = pa.table({column: pa.array(numbers, pa.int64()) for column, numbers in columns.items()})
    frame = spark.createDataFrame(table, "life bigint, root bigint")  # Connect infers no types from no rows.
    chained = lives.join(frame, "life", "left")
    row = F.struct(F.coalesce("root", "life").alias("chain"), F.lit(False).alias("is_gone"))
    gone = F.struct(F.col(ID).alias("chain"), F.lit(True).alias("is_gone"))
    is_gone = F.col("deleted") & F.col("is_newest")
    both = chained.withColumn("part", F.explode(F.when(is_gone, F.array(row, gone)).otherwise(F.array(row))))
    return Chains(both.select("*", "part.*").drop("part"), len(parents))


def find_roots(parents: Mapping[int, int]) -> dict[int, int]:
    """Maps each life in `parents` to the first life of its chain; a life is the events of one key up to a delete.

    Lives are identified by numbers. `parents` maps a life to the life that it continues after a key change, which has a
    lower number.
    """
    roots: dict[int, int] = {}
    for life in sorted(parents):
        roots[life] = roots.get(parents[life], parents[life])
    return roots


def fold_chains(events: DataFrame, rules: MergeFunctions) -> DataFrame:
    """Folds the events of `Chains` to one net event per primary key.

    The columns are folded over the events of the chain by `rules`; the key and the time are those of the newest event.
    """
    key = [f"a{i}" for i in rules.shape.key_positions]
    columns = [alias_as(value, f"a{i}") for i, value in rules.fold_columns().items()]
    newest = F.struct(*key, "deleted", "reset", "ts", "seq")
    first = F.struct(*key, "is_rooted")
    folded = events.groupBy("chain", "is_gone").agg(
        *map(F.expr, [*columns, *rules.fold_flags()]),
        F.max_by(newest, "order").alias("newest"),
        F.min_by(first, "order").alias(FIRST),
        F.max(F.col("root").isNotNull()).alias(HAS_KEY_CHANGES),
    )
    ends = folded.where(F.col("is_gone") | ~F.col("newest.deleted"))
    return ends.select("*", "newest.*").drop("newest", "chain", "is_gone")


def fill_from_origins(net: DataFrame, table: DataFrame, rules: MergeFunctions) -> DataFrame:
    """Fills in values that no event of a chain sent, from the row that `table` has under the chain's first key.

    Returns `net` with the same columns; the flags of these values are set to true.
    """
    shape, flags = rules.shape, {i: F.col(name_provided_flag(i)) for i in rules.partial}
    origins = table.select(
        *[table[shape.columns[i].name].alias(f"at{i}") for i in shape.key_positions],
        *[table[shape.columns[i].name].alias(f"stored{i}") for i in flags],
        F.lit(True).alias("is_known"),
    )
    is_origin = F.col(HAS_KEY_CHANGES) & F.col(FIRST)["is_rooted"]
    joined = net.join(
        origins,
        is_origin & combine_all([F.col(FIRST)[f"a{i}"] == F.col(f"at{i}") for i in shape.key_positions]),
        "left",
    )
    is_taken = {i: ~flag & F.col("is_known").isNotNull() for i, flag in flags.items()}
    filled = {f"a{i}": F.when(taken, F.col(f"stored{i}")).otherwise(F.col(f"a{i}")) for i, taken in is_taken.items()}
    brought = {name_provided_flag(i): flags[i] | taken for i, taken in is_taken.items()}
    return joined.withColumns({**filled, **brought}).select(*net.columns)


def _with_origins(events: DataFrame) -> DataFrame:
    """Adds `origin` to inserts of a key change: the ID of the delete of the row's old key; null for other events.

    Adds `passes`, true for such a delete. The two events of one key change have the same CHANGE_POSITION.
    """
    of_change = Window.partitionBy(F.coalesce(CHANGE_POSITION, F.col(ID).cast("string")))
    until_now = of_change.orderBy("order").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    delete = F.first(F.when(F.col("deleted"), F.col(ID)), ignorenulls=True)
    origin = F.when(F.col(LACKS_ORIGIN), delete.over(until_now))
    passes = F.col("deleted") & F.max(LACKS_ORIGIN).over(of_change)
    return events.withColumns({"origin": origin, "passes": passes})


def _with_lives(events: DataFrame, shape: Shape) -> DataFrame:
    of_key = Window.partitionBy(*list_key_images(shape))
    by_order = of_key.orderBy("order")
    begins = F.coalesce(F.lag("deleted").over(by_order), F.lit(True))
    changes_key = F.max("passes").over(of_key)
    lives = {
        "life": F.last(F.when(begins, F.col(ID)), ignorenulls=True).over(by_order),
        "is_rooted": F.first(ID).over(by_order) == F.col("life"),
        "is_newest": F.lead(ID).over(by_order).isNull(),
        "reset": F.max("deleted").over(of_key),
        "seq": F.when(changes_key, F.least(-F.abs("seq"), F.lit(-1))).otherwise(F.col("seq")),
    }
    begun = events.withColumn("life", lives.pop("life"))
    return begun.withColumns(lives)


def _find_parents(lives: DataFrame) -> dict[int, int]:
    """Maps each life that began with a key change to the life of the row under its previous key.

    A life is the events of one key up to a delete, identified by the ID of its first event. A key change to a key that
    already has a row begins no life, so it has no entry.
    """
    begun = lives.where(F.col("origin").isNotNull() & (F.col(ID) == F.col("life"))).select("life", "origin")
    ended = lives.where("passes").select(F.col(ID).alias("origin"), F.col("life").alias("parent"))
    pairs = begun.join(ended, "origin").select("life", "parent").toArrow()
    return dict(zip(pairs["life"].to_pylist(), pairs["parent"].to_pylist(), strict=True))


_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
IS_DELETE = fill_statement("{change} = 'delete'", change=quote_name(CHANGE))

_LACKS, _STEP = f"{OWN_PREFIX}lacks", f"{OWN_PREFIX}step"

_ARRIVAL_OFFSET = 2
"""Number that is added to the ARRIVAL stored in `_seq`, so that the sum differs from 0 and from -1."""


@dataclass(frozen=True)
class EventCounts:
    """Counts of a batch's decoded events for one table, all computed by one job."""

    rows: int
    """Number of events that change a row and are no dead letters."""

    dead: int
    """Number of dead letters: events that can't be applied."""

    key_changes: int
    """Number of updates that change the primary key."""

    partial: int
    """Number of events that lack a value."""

    lacking: int
    """Number of `partial` events that begin a row under their key, by an insert or a change of the key.

    The missing values then come from the row under the old key.
    """

    truncated_at: int | None
    """ARRIVAL of the last event that empties the table; None if there is none."""

    newest: datetime.datetime | None
    """Time of the newest change at the source, in UTC and not in the future; None if no event has a time."""


@dataclass(frozen=True)
class KeptForReplay:
    """Options of change rows by which a later replay of dead letters recognises newer changes of a row.

    With `arrival`, the column `_seq` contains the ARRIVAL of the row's event, which `read_arrival` reads. With
    `unchanged`, events that change nothing have change rows too: a delete of a row that does not exist, with a null
    `_before`, and an update to the same values.
    """

    arrival: bool = False
    unchanged: bool = False


NOTHING_KEPT = KeptForReplay()


def count_events(decoded: DataFrame) -> EventCounts:
    sound = F.col(REASON).isNull()
    truncates = sound & (F.col(CHANGE) == "truncate")
    is_timed = sound & F.col(TIME).isNotNull()
    row = decoded.agg(
        F.count_if(sound & ~truncates).alias("rows"),
        F.count_if(~sound).alias("dead"),
        F.count_if(sound & F.col(OLD_KEY).isNotNull()).alias("key_changes"),
        F.count_if(sound & F.col(ABSENT).isNotNull()).alias("partial"),
        F.count_if(sound & ~F.expr(IS_DELETE) & _build_old_row_condition()).alias("lacking"),
        F.max(F.when(truncates, F.col(ARRIVAL))).alias("truncated_at"),
        F.unix_micros(F.max(F.when(is_timed, F.least(F.col(TIME), F.current_timestamp())))).alias("newest"),
    ).collect()[0]
    newest = None if row["newest"] is None else _EPOCH + datetime.timedelta(microseconds=row["newest"])
    return EventCounts(**{**row.asDict(), "newest": newest})


def change_rows(
    context: Context,
    decoded: DataFrame,
    counted: EventCounts,
    shape: Shape,
    kept: KeptForReplay = NOTHING_KEPT,
) -> DataFrame:
    """Computes the change rows that bring a table from its state in `context` to the state after all `decoded` events.

    `counted` are the counts of `decoded`, and `shape` has the table's columns. `kept` says what the rows keep for a
    later replay of dead letters. Without an arrival, `_seq` is 0, or -1 if the event lacks a value. Rows that break the
    primary key or the contract, or that lack a value which the table does not have either, get one of the actions
    `FLAWS`.
    """
    emptied_at = counted.truncated_at
    model, is_partial = _configure_folding(context.model), counted.partial > 0 or kept.arrival
    events = _select_ordered_rows(
        decoded if emptied_at is None else decoded.where(F.col(ARRIVAL) > emptied_at), counted
    )
    rules: EventRules
    if is_partial:
        rules = MergeFunctions(model, shape, shape.rest_positions, required=shape.rest_positions)
        marked = _build_event_images(events, rules, kept.arrival)
        net = (
            _fold_key_changes(context, marked, rules, emptied_at is not None)
            if counted.lacking
            else query_rows(marked, lambda rows: rules.fold(rows, []))
        )
    else:
        rules = choose_rules(model, shape)
        net = net_events(rules, events)
    spark, state, thresholds = context.spark, context.state, context.thresholds.pruning
    if emptied_at is not None:
        old = read_current_rows(spark, context.model, state, thresholds)
        reset = net.withColumn("reset", F.lit(True))
        return refresh_changes(reset, old, shape, required=rules.required, keeps_unchanged=kept.unchanged)
    only = _select_lookup_keys(context, events, counted.rows + counted.key_changes)
    stored = read_stored_rows(spark, context.model, state, thresholds, only)
    return diff_events(net, stored, shape, partial(blend_rows, rules), rules.required, kept.unchanged)


def _configure_folding(model: Model) -> Model:
    """Returns the model with settings by which the last event of a primary key replaces the key's row."""
    plain = replace(model.config, sequence_by=None, on_match="replace", merge_columns={})
    return replace(model, config=replace(plain, input="changes", delete_when=IS_DELETE))


def select_row_events(decoded: DataFrame) -> DataFrame:
    """Selects the decoded events that change a row and can be applied: neither dead letters nor truncates."""
    return decoded.where(F.col(REASON).isNull() & (F.col(CHANGE) != "truncate"))


def _select_ordered_rows(decoded: DataFrame, counted: EventCounts) -> DataFrame:
    """Selects the events that change a row, and adds POSITION, the column by which they are ordered.

    Drops dead letters and truncates. An update that changes the primary key becomes a delete of the old key and an
    insert of the new one.
    """
    sound = select_row_events(decoded)
    lacks = ~F.expr(IS_DELETE) & _build_old_row_condition()
    events = sound.withColumns({POSITION: _order(1), TIMESTAMP: F.col(TIME), _LACKS: lacks, _STEP: F.lit(1)})
    if not counted.key_changes:
        return events
    left = sound.where(F.col(OLD_KEY).isNotNull())
    key = {field: F.col(OLD_KEY)[field] for field in left.schema[OLD_KEY].dataType.fieldNames()}  # type: ignore[attr-defined]
    own = {CHANGE: F.lit("delete"), POSITION: _order(0), TIMESTAMP: F.col(TIME), _LACKS: F.lit(False), _STEP: F.lit(0)}
    return events.unionByName(left.withColumns({**key, **own}))


def _build_old_row_condition() -> Expression:
    """Builds the condition that an event needs values of the row under its old primary key.

    Such an event is an insert, or an update of the key, that lacks some values of the new row.
    """
    return F.col(ABSENT).isNotNull() & ((F.col(CHANGE) == "insert") | F.col(OLD_KEY).isNotNull())


def _order(step: int) -> Expression:
    return F.struct(F.col(ORDER), F.col(ARRIVAL), F.col(PART), F.lit(step).alias("step"))


def read_arrival(sequence: Expression) -> Expression:
    """Returns the ARRIVAL of a change row's event, read from its column `_seq`; null if `_seq` does not contain it."""
    return F.when(F.abs(sequence) >= _ARRIVAL_OFFSET, F.abs(sequence) - _ARRIVAL_OFFSET)


def _sequence(stores_arrival: bool) -> Expression:
    lacks = F.col(ABSENT).isNotNull() & ~F.expr(IS_DELETE)
    if not stores_arrival:
        return F.when(lacks, -1).otherwise(0)
    stored = F.when(F.col(ARRIVAL) >= 0, F.col(ARRIVAL) + _ARRIVAL_OFFSET).otherwise(0)
    return F.when(lacks, -stored).otherwise(stored)


def _fold_key_changes(context: Context, marked: DataFrame, rules: MergeFunctions, is_emptied: bool) -> DataFrame:
    """Folds events to one net event per primary key, also for rows whose key changed within the batch.

    Values that were not sent are taken from the table's row under the first key of the changed row, unless a truncate
    emptied the table (`is_emptied`).
    """
    shape = rules.shape
    chains = find_chains(context.spark, marked, shape)
    net = fold_chains(chains.events, rules)
    if not chains.key_changes or is_emptied:
        return net
    positions = {
        part: next(i for i, kept in enumerate(shape.columns) if is_same_name(kept.name, part)) for part in shape.key
    }
    changed = net.where(F.col(HAS_KEY_CHANGES) & F.col(FIRST)["is_rooted"])
    keys = changed.select(*[F.col(FIRST)[f"a{i}"].alias(part) for part, i in positions.items()])
    only = _select_lookup_keys(context, keys, chains.key_changes)
    table = read_current_rows(context.spark, context.model, context.state, context.thresholds.pruning, only)
    return net if table is None else fill_from_origins(net, table, rules)


def _build_event_images(events: DataFrame, rules: MergeFunctions, stores_arrival: bool) -> DataFrame:
    """Converts events to the columns that `EventRules` describes and that `find_chains` reads.

    These are the values of the table's columns (as `a0`, `a1`, …), a flag for each value that was sent, and the order.
    `stores_arrival` is as in `KeptForReplay.arrival`.
    """
    shape = rules.shape
    is_sent = {i: ~F.coalesce(F.array_contains(ABSENT, shape.columns[i].name), F.lit(False)) for i in rules.partial}
    return events.select(
        *map(F.expr, build_images("a", shape, events.columns)),
        *[sent.alias(name_presence_flag(i)) for i, sent in is_sent.items()],
        F.expr(IS_DELETE).alias("deleted"),
        F.col(TIMESTAMP).alias("ts"),
        F.col(POSITION).alias("order"),
        _sequence(stores_arrival).cast(shape.sequence_type).alias("seq"),
        F.lit(1).alias("sign"),
        (F.col(ARRIVAL) * 2 + F.col(_STEP)).alias(ID),
        F.col(LOG_POSITION).alias(CHANGE_POSITION),
        F.col(_LACKS).alias(LACKS_ORIGIN),
    )


def _select_lookup_keys(context: Context, events: DataFrame, count: int) -> Keys:
    """Returns the primary keys of `events`, to look up the table's old rows; `count` is their estimated number."""
    base, keys = context.state.base, events.select(*[to_column(part) for part in context.model.config.primary_key])
    return lookup_keys(keys, count, base.rows if base else 0, context.thresholds.pruning)
