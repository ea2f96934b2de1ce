"""Follows changes of primary keys within a batch, for rows whose values were not all sent.

PostgreSQL sends an update of a primary key as a delete and an insert with the same log position, and leaves out long
values that the update did not touch. These values are those of the row under its old key, which may itself have had
another key before.

A life is the sequence of events of one key up to a delete. Lives that are joined by key changes form a chain, which has
all events of one row. Each column has the newest value that any event of the chain sent, or if there is none, that of
the table's row under the chain's first key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.model.shape import Shape
from arctic_runtime.spark.changes.diff import build_provided_flag, list_key_images
from arctic_runtime.spark.engine.statement import alias_as
from arctic_runtime.spark.events.merge_functions import MergeFunctions
from arctic_runtime.spark.tables.rows.frames import combine_all

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
    shape, flags = rules.shape, {i: F.col(build_provided_flag(i)) for i in rules.partial}
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
    brought = {build_provided_flag(i): flags[i] | taken for i, taken in is_taken.items()}
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
