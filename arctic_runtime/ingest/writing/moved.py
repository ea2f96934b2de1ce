"""Rows that moved to another primary key without all their values being sent.

PostgreSQL sends such an update as a delete and an insert, one after the other, and leaves out long values that the
update did not touch. They are those of the row under the old key, just before.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from arctic_runtime.ingest.transports.transport import ARRIVAL
from arctic_runtime.ingest.writing.decode import ABSENT, CHANGE, PART
from arctic_runtime.model.columns import OWN_PREFIX
from arctic_runtime.spark.tables.frames import column

OLD = f"{OWN_PREFIX}old_"
"""What the names of old keys begin with, in frames that have both keys."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Touched:
    """An event by its place and key; `lacks` says that it inserts a row without all values."""

    arrival: int
    key: Key
    is_delete: bool
    lacks: bool


@dataclass(frozen=True)
class Piece:
    """Events with places from `start` to before `end`, and old keys by the new ones, for rows that lack values.

    No event of the piece before a move touches its old key, so that the values are those of the table.
    """

    start: int
    end: int
    moves: tuple[tuple[Key, Key], ...]


ALL = Piece(0, sys.maxsize, ())
"""All events of a part."""


def pieces(events: Iterable[Touched]) -> list[Piece]:
    """Events, in their order, as few pieces that can be published one after the other."""
    found: list[Piece] = []
    start, counts, moves = 0, Counter[Key](), dict[Key, Key]()
    before: Touched | None = None
    for event in events:
        if event.lacks and before is not None and before.is_delete:
            if counts[before.key] > 1:
                found.append(Piece(start, before.arrival, tuple(moves.items())))
                start, counts, moves = before.arrival, Counter([before.key]), {}
            moves[event.key] = before.key
        counts[event.key] += 1
        before = event
    return [*found, Piece(start, sys.maxsize, tuple(moves.items()))]


def touched(sound: DataFrame, key: Sequence[str]) -> Iterator[Touched]:
    """Every sound event by its place and key, in order; brings no other values here."""
    lacks = (F.col(CHANGE) == "insert") & F.col(ABSENT).isNotNull()
    named = [column(part).alias(f"{OLD}{place}") for place, part in enumerate(key)]
    rows = sound.select(ARRIVAL, PART, (F.col(CHANGE) == "delete").alias("is_delete"), lacks.alias("lacks"), *named)
    for row in rows.orderBy(ARRIVAL, PART).toLocalIterator():
        arrival, _, is_delete, lacking, *values = row
        yield Touched(arrival, tuple(values), is_delete, lacking)


def moves_frame(
    spark: SparkSession, moves: Sequence[tuple[Key, Key]], sound: DataFrame, key: Sequence[str]
) -> DataFrame:
    """New keys under their names, and old ones under these after OLD."""
    kinds = [sound.schema[part].dataType for part in key]
    fields = [*(StructField(part, kind) for part, kind in zip(key, kinds, strict=True))]
    fields += [StructField(f"{OLD}{part}", kind) for part, kind in zip(key, kinds, strict=True)]
    return spark.createDataFrame([(*new, *old) for new, old in moves], StructType(fields))
