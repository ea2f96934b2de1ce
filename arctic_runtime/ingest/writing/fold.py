"""Folds decoded events of a table into one net event per primary key, and computes change rows from the net events."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decoding.decode_events import (
    ABSENT,
    CHANGE,
    LOG_POSITION,
    OLD_KEY,
    ORDER,
    PART,
    REASON,
    TIME,
)
from arctic_runtime.ingest.writing.key_changes import (
    CHANGE_POSITION,
    FIRST,
    HAS_KEY_CHANGES,
    ID,
    LACKS_ORIGIN,
    fill_from_origins,
    find_chains,
    fold_chains,
)
from arctic_runtime.model.columns import OWN_PREFIX, POSITION, TIMESTAMP, is_same_name
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.changes.diff import build_images, diff_events, refresh_changes
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.events.merge_functions import MergeFunctions
from arctic_runtime.spark.events.partial_columns import name_presence_flag
from arctic_runtime.spark.events.rules import EventRules, blend_rows, choose_rules, net_events
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.bounds import lookup_keys
from arctic_runtime.spark.tables.rows.frames import (
    Keys,
    query_rows,
    read_current_rows,
    read_stored_rows,
    to_column,
)

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
        F.count_if(sound & ~F.expr(IS_DELETE) & _lacks_origin()).alias("lacking"),
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
    lacks = ~F.expr(IS_DELETE) & _lacks_origin()
    events = sound.withColumns({POSITION: _order(1), TIMESTAMP: F.col(TIME), _LACKS: lacks, _STEP: F.lit(1)})
    if not counted.key_changes:
        return events
    left = sound.where(F.col(OLD_KEY).isNotNull())
    key = {field: F.col(OLD_KEY)[field] for field in left.schema[OLD_KEY].dataType.fieldNames()}  # type: ignore[attr-defined]
    own = {CHANGE: F.lit("delete"), POSITION: _order(0), TIMESTAMP: F.col(TIME), _LACKS: F.lit(False), _STEP: F.lit(0)}
    return events.unionByName(left.withColumns({**key, **own}))


def _lacks_origin() -> Expression:
    """Builds the condition that an event begins the row of a primary key without having all values of the row.

    Such an event is an insert or an update of the key; its missing values have to be taken from the row under the old
    key.
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
