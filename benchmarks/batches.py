"""Facts and customers as change events: a first load, and batches of inserts, updates and deletes.

An event has the row, when it was `updated_at`, `op` and `lsn`. A batch has one event of a key at most.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.lake import Lake
from benchmarks.rows import mostly_updates, scattered

LANDING = "landing"
EVENTS = {
    "facts": TableName("lake", LANDING, "fact_events"),
    "customers": TableName("lake", LANDING, "customer_events"),
}

CHANGED = 0.01
"""The part of the facts, and of the customers, that is updated or deleted in a batch."""
BORN = 0.001
"""How many facts are new in a batch, as a part of those of the first load."""
FACTS_OF_ONE = 100
"""How many facts a customer has."""


def land(bench: Lake, turn: int) -> None:
    """The first load, or a batch: new facts, and facts and customers updated and deleted all over the tables."""
    customers = max(bench.rows // FACTS_OF_ONE, 1)
    facts = _moved(bench.spark.range(bench.rows), turn).unionAll(_born(bench, turn))
    _append(facts.select(*_fact(customers, turn)), "facts", turn)
    _append(_moved(bench.spark.range(customers), turn).select(*_customer(turn)), "customers", turn)


def _moved(ids: DataFrame, turn: int) -> DataFrame:
    """The rows that a batch updates or deletes; all of them are made in the first."""
    if turn == 0:
        return ids.withColumn("op", F.lit("c"))
    return ids.where(scattered(CHANGED, turn)).withColumn("op", mostly_updates(turn))


def _born(bench: Lake, turn: int) -> DataFrame:
    number = int(bench.rows * BORN) if turn else 0
    first = bench.rows + (turn - 1) * number
    return bench.spark.range(first, first + number).withColumn("op", F.lit("c"))


def _fact(customers: int, turn: int) -> list[Any]:
    key = F.col("id")
    return [
        key,
        (key % customers).alias("customer_id"),
        (key % 7).cast("int").alias("grp"),
        ((key + turn) % 1000).alias("amount"),
        F.concat(F.lit("note-"), key.cast("string"), F.lit(f"-{turn}")).alias("note"),
        *_told(turn),
    ]


def _customer(turn: int) -> list[Any]:
    key = F.col("id")
    city = F.concat(F.lit("city-"), ((key + turn) % 50).cast("string"))
    return [
        key.alias("customer_id"),
        city.alias("city"),
        ((key + turn) % 7).cast("int").alias("grade"),
        *_told(turn),
    ]


def _told(turn: int) -> list[Any]:
    """What an event says of itself; each batch has a day of its own, and a place in the order of events."""
    day = F.timestamp_micros(F.lit(turn * 86_400_000_000))
    return [day.alias("updated_at"), F.col("op"), F.lit(turn).cast("bigint").alias("lsn")]


def _append(rows: DataFrame, name: str, turn: int) -> None:
    writer = rows.writeTo(quoted(*EVENTS[name].parts))
    if turn:
        writer.append()
    else:
        writer.using("iceberg").create()
