"""Splits events, in their order, into runs with one schema each, by the schemas that the events contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from arctic_runtime.ingest.formats.event_format import Path
from arctic_runtime.ingest.transports.payload_parts import extract_schema_parts
from arctic_runtime.ingest.transports.transport import ARRIVAL, PAYLOAD
from arctic_runtime.model.columns import OWN_PREFIX

_SCHEMA, _BEFORE = f"{OWN_PREFIX}schema", f"{OWN_PREFIX}before"


@dataclass(frozen=True)
class SchemaRun:
    """Consecutive events with one schema, from the ARRIVAL `start` on.

    `schema` is the JSON of the parts that describe the schema, and `example` the whole JSON of one event of the run.
    """

    start: int
    schema: str
    example: str


def find_schema_runs(events: DataFrame, paths: Sequence[Path]) -> list[SchemaRun]:
    """Returns the runs of events with equal schemas, in their order; empty if no event has a schema.

    `paths` lead to the parts of an event that describe its schema. Events without a schema, such as truncates, belong
    to the run in which they arrive.
    """
    payload = F.col(PAYLOAD).cast("string")
    with_schema = events.withColumn(_SCHEMA, extract_schema_parts(paths)).where(F.col(_SCHEMA).isNotNull())
    grouped = with_schema.groupBy(_SCHEMA).agg(F.min(ARRIVAL), F.max(ARRIVAL), F.min_by(payload, ARRIVAL))
    rows_by_start = sorted(grouped.collect(), key=lambda row: row[1])
    if all(before[2] < after[1] for before, after in pairwise(rows_by_start)):
        return [SchemaRun(row[1], row[0], row[3]) for row in rows_by_start]
    # Schemas alternate: events from before and after a change are mixed, such as those of two partitions.
    before = F.lag(_SCHEMA).over(Window.orderBy(ARRIVAL))
    starts = with_schema.withColumn(_BEFORE, before).where(~F.col(_SCHEMA).eqNullSafe(F.col(_BEFORE)))
    rows = starts.select(ARRIVAL, _SCHEMA, payload).orderBy(ARRIVAL).collect()
    return [SchemaRun(*row) for row in rows]


def split_by_runs(events: DataFrame, runs: Sequence[SchemaRun]) -> list[Callable[[SparkSession], DataFrame]]:
    """Splits events into one part for each of `runs`; events before the first run belong to the first part.

    Each part is a function that returns the part's events for a Spark session.
    """
    arrival = F.col(ARRIVAL)
    ends = [run.start for run in runs[1:]]
    parts = []
    for place in range(len(runs)):
        from_start = F.lit(True) if place == 0 else arrival >= runs[place].start
        to_end = F.lit(True) if place == len(runs) - 1 else arrival < ends[place]
        parts.append(_serve_rows(events.where(from_start & to_end)))
    return parts


def _serve_rows(rows: DataFrame) -> Callable[[SparkSession], DataFrame]:
    return lambda _: rows
