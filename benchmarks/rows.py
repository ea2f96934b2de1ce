"""The rows of the benchmarks' tables, and which of them change: plain PySpark, of any version from 3.5 on."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

COLUMNS = ("id", "a", "b", "c", "d", "e")


def images(key: Any, turn: int) -> list[Any]:
    """The six columns of a row; another `turn` gives other values."""
    return [
        key.alias("id"),
        ((key + turn) % 1000).alias("a"),
        (key % 97).cast("int").alias("b"),
        ((key + turn) / 3).alias("c"),
        F.concat(F.lit("name-"), (key % 100_000).cast("string")).alias("d"),
        F.timestamp_micros(key * 1_000_000 + turn).alias("e"),
    ]


def total(rows: DataFrame) -> list[Any]:
    """Reads every column of every row."""
    sums = [F.sum("id"), F.sum("a"), F.sum("b"), F.sum("c"), F.sum(F.length("d")), F.max("e")]
    return rows.agg(F.count(F.lit(1)), *sums).collect()


def scattered(fraction: float, turn: int) -> Any:
    """Whether a row is one of those that a turn changes, by its `id`."""
    return F.pmod(F.hash("id", F.lit(1000 + turn)), F.lit(1_000_000)) < int(fraction * 1_000_000)


def mostly_updates(turn: int) -> Any:
    """What a turn does to a row, by its `id`: `u` nine times of ten, else `d`."""
    return F.when(F.pmod(F.hash("id", F.lit(turn)), F.lit(10)) == 0, "d").otherwise("u")
