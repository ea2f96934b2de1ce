"""Decoded events of a table become one net row per primary key, and change rows against the table as it is."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decode import ABSENT, CHANGE, OLD_KEY, ORDER, PART, REASON, TIME
from arctic_runtime.ingest.writing.moved import OLD
from arctic_runtime.model.columns import POSITION, TIMESTAMP, same_name
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import name, statement
from arctic_runtime.spark.refresh.diff import event_changes, fill, images, key_images, unsent_flag
from arctic_runtime.spark.refresh.events import net_events
from arctic_runtime.spark.refresh.merging import since_last_delete
from arctic_runtime.spark.tables.bounds import lookup_keys
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.frames import Keys, all_of, base_rows, column, current_rows, unmerged_changes

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
IS_DELETE = statement("{change} = 'delete'", change=name(CHANGE))

_FIRST_PLACE = 2
"""What `_seq` adds to a place, so that it differs from 0 and -1."""


@dataclass(frozen=True)
class Tally:
    """The events of a batch for one table, counted in one job.

    `rows` are sound events that say something of a row, `dead` dead letters, `moved` updates that change the primary
    key, `partial` events that lack a value, and `lacking` inserts that do. `truncated_at` is the place of the last
    event that empties the table, None where there is none. `newest` is the time of the newest change at the source, in
    UTC and not in the future, None where no event tells.
    """

    rows: int
    dead: int
    moved: int
    partial: int
    lacking: int
    truncated_at: int | None
    newest: datetime.datetime | None


def tally(decoded: DataFrame) -> Tally:
    sound = F.col(REASON).isNull()
    truncates = sound & (F.col(CHANGE) == "truncate")
    is_timed = sound & F.col(TIME).isNotNull()
    row = decoded.agg(
        F.count_if(sound & ~truncates).alias("rows"),
        F.count_if(~sound).alias("dead"),
        F.count_if(sound & F.col(OLD_KEY).isNotNull()).alias("moved"),
        F.count_if(sound & F.col(ABSENT).isNotNull()).alias("partial"),
        F.count_if(sound & F.col(ABSENT).isNotNull() & (F.col(CHANGE) == "insert")).alias("lacking"),
        F.max(F.when(truncates, F.col(ARRIVAL))).alias("truncated_at"),
        F.unix_micros(F.max(F.when(is_timed, F.least(F.col(TIME), F.current_timestamp())))).alias("newest"),
    ).collect()[0]
    newest = None if row["newest"] is None else _EPOCH + datetime.timedelta(microseconds=row["newest"])
    return Tally(**{**row.asDict(), "newest": newest})


def change_rows(
    context: Context,
    decoded: DataFrame,
    counted: Tally,
    shape: Shape,
    moves: DataFrame | None = None,
    has_places: bool = False,
) -> DataFrame:
    """The change rows that bring a table from its state in `context` to what the events say.

    `moves` are new primary keys with the old ones, as `moved.moves_frame` makes them, of rows that lack values. Where
    it `has_places`, `_seq` of each row tells by which event it came, as `place_in` reads it, so that a dead letter can
    be put in order with it; else it is 0, or -1 where that event lacks a value.

    Rows that break the key or the contract, or that lack a value which the table does not have, come out under an
    action of `FLAWS`.
    """
    events = _rows(decoded, counted)
    fills = bool(counted.partial) or has_places
    model = _model(context.model)
    net = _net_of_partial(events, shape, has_places) if fills else net_events(model, events, shape)
    if moves is not None:
        net = _with_moved_values(context, net, moves, shape)
    spark, state, thresholds = context.spark, context.state, context.thresholds.pruning
    only = _keys(context, events, counted.rows + counted.moved)
    base = base_rows(spark, context.model, state, only)
    unmerged = unmerged_changes(spark, context.model, state, thresholds, only)
    return event_changes(net, base, unmerged, shape, False, fill if fills else None)


def _model(model: Model) -> Model:
    """The model with the configuration by which decoded events are folded."""
    plain = replace(model.config, sequence_by=None, on_match="replace", merge_columns={})
    return replace(model, config=replace(plain, input="changes", delete_when=IS_DELETE))


def sound_rows(decoded: DataFrame) -> DataFrame:
    """Events that say something of a row, without dead letters."""
    return decoded.where(F.col(REASON).isNull() & (F.col(CHANGE) != "truncate"))


def _rows(decoded: DataFrame, counted: Tally) -> DataFrame:
    """Sound events with their order as POSITION.

    An update that changes the primary key is a delete of the old one and an insert of the new one.
    """
    sound = sound_rows(decoded)
    events = sound.withColumns({POSITION: _order(1), TIMESTAMP: F.col(TIME)})
    if not counted.moved:
        return events
    left = sound.where(F.col(OLD_KEY).isNotNull())
    key = {field: F.col(OLD_KEY)[field] for field in left.schema[OLD_KEY].dataType.fieldNames()}  # type: ignore[attr-defined]
    gone = left.withColumns({**key, CHANGE: F.lit("delete"), POSITION: _order(0), TIMESTAMP: F.col(TIME)})
    return events.unionByName(gone)


def _order(step: int) -> Expression:
    return F.struct(F.col(ORDER), F.col(ARRIVAL), F.col(PART), F.lit(step).alias("step"))


def place_in(sequence: Expression) -> Expression:
    """The place of the event by which a change row came, from its `_seq`; null where that does not tell."""
    return F.when(F.abs(sequence) >= _FIRST_PLACE, F.abs(sequence) - _FIRST_PLACE)


def _sequence(has_places: bool) -> Expression:
    lacks = F.col(ABSENT).isNotNull() & ~F.expr(IS_DELETE)
    if not has_places:
        return F.when(lacks, -1).otherwise(0)
    place = F.when(F.col(ARRIVAL) >= 0, F.col(ARRIVAL) + _FIRST_PLACE).otherwise(0)
    return F.when(lacks, -place).otherwise(place)


def _net_of_partial(events: DataFrame, shape: Shape, has_places: bool) -> DataFrame:
    """Net rows where events lack values: a column's newest value that was sent, since the last delete of the key.

    The flags of `unsent_flag` say which columns no event sent.
    """
    was_sent = {
        i: ~F.coalesce(F.array_contains(ABSENT, kept.name), F.lit(False)) for i, kept in enumerate(shape.columns)
    }
    rest = [i for i, kept in enumerate(shape.columns) if not shape.is_key(kept.name)]
    marked = events.select(
        *map(F.expr, images("a", shape, events.columns)),
        *[was_sent[i].alias(f"sent{i}") for i in rest],
        F.expr(IS_DELETE).alias("deleted"),
        F.col(TIMESTAMP).alias("ts"),
        F.col(POSITION).alias("order"),
        _sequence(has_places).cast(shape.sequence_type).alias("seq"),
    )

    def newest(i: int) -> Expression:
        image = F.struct(F.col(f"a{i}").alias("value"))
        return F.max_by(image, F.when(F.col(f"sent{i}") & ~F.col("deleted"), F.col("order")))

    folded = (
        since_last_delete(marked, shape)
        .groupBy(*key_images(shape))
        .agg(
            *[newest(i).alias(f"image{i}") for i in rest],
            F.max_by("deleted", "order").alias("deleted"),
            F.bool_or("deleted").alias("reset"),
            F.max_by("ts", "order").alias("ts"),
            F.max_by("seq", "order").alias("seq"),
        )
    )
    flags = {unsent_flag(i): F.col(f"image{i}").isNull() & ~F.col("deleted") for i in rest}
    values = {f"a{i}": F.col(f"image{i}")["value"] for i in rest}
    return folded.withColumns({**values, **flags}).drop(*[f"image{i}" for i in rest])


def _with_moved_values(context: Context, net: DataFrame, moves: DataFrame, shape: Shape) -> DataFrame:
    """Net rows in which values that were not sent are those of the table's row under the old key, if there is one."""
    key = context.model.config.primary_key
    old_keys = moves.select(*[F.col(f"{OLD}{part}").alias(part) for part in key])
    table = current_rows(
        context.spark, context.model, context.state, context.thresholds.pruning, _keys(context, old_keys, moves.count())
    )
    if table is None:
        return net
    flags = [i for i in range(len(shape.columns)) if unsent_flag(i) in net.columns]
    at_old = all_of([table[part] == moves[f"{OLD}{part}"] for part in key])
    values = [table[shape.columns[i].name].alias(f"moved{i}") for i in flags]
    known = moves.join(table, at_old).select(*[moves[part].alias(f"to_{part}") for part in key], *values)
    places = {part: next(i for i, of in enumerate(shape.columns) if same_name(of.name, part)) for part in key}
    on_new = all_of([net[f"a{place}"] == known[f"to_{part}"] for part, place in places.items()])
    joined = net.join(known.withColumn("is_known", F.lit(True)), on_new, "left")
    taken = {i: F.col(unsent_flag(i)) & F.col("is_known").isNotNull() for i in flags}
    filled = {f"a{i}": F.when(taken[i], F.col(f"moved{i}")).otherwise(F.col(f"a{i}")) for i in flags}
    left = {unsent_flag(i): F.col(unsent_flag(i)) & ~taken[i] for i in flags}
    return joined.withColumns({**filled, **left}).select(*[name(of) for of in net.columns])


def _keys(context: Context, events: DataFrame, count: int) -> Keys:
    """The primary keys of about `count` events, by which their old rows are looked up."""
    base, keys = context.state.base, events.select(*[column(part) for part in context.model.config.primary_key])
    return lookup_keys(keys, count, base.rows if base else 0, context.thresholds.pruning)
