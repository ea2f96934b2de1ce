"""Events are divided by the schemas that they tell, and stay in their order."""

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
    """Events of one schema in a row, from the arrival `start` on, and the JSON of one that has the schema.

    `schema` is the part of the JSON that has it.
    """

    start: int
    schema: str
    example: str


def find_schema_runs(events: DataFrame, paths: Sequence[Path]) -> list[SchemaRun]:
    """The runs of schemas in events, in their order; none if no event has one.

    Events without one belong to the run that they come in: a truncation lies between the rows before and after it.
    """
    payload = F.col(PAYLOAD).cast("string")
    with_schema = events.withColumn(_SCHEMA, extract_schema_parts(paths)).where(F.col(_SCHEMA).isNotNull())
    grouped = with_schema.groupBy(_SCHEMA).agg(F.min(ARRIVAL), F.max(ARRIVAL), F.min_by(payload, ARRIVAL))
    rows_by_start = sorted(grouped.collect(), key=lambda row: row[1])
    if all(before[2] < after[1] for before, after in pairwise(rows_by_start)):
        return [SchemaRun(row[1], row[0], row[3]) for row in rows_by_start]
    # Schemas take turns: events that come before and after a change are mixed, as those of two partitions are.
    before = F.lag(_SCHEMA).over(Window.orderBy(ARRIVAL))
    starts = with_schema.withColumn(_BEFORE, before).where(~F.col(_SCHEMA).eqNullSafe(F.col(_BEFORE)))
    rows = starts.select(ARRIVAL, _SCHEMA, payload).orderBy(ARRIVAL).collect()
    return [SchemaRun(*row) for row in rows]


def split_by_runs(events: DataFrame, runs: Sequence[SchemaRun]) -> list[Callable[[SparkSession], DataFrame]]:
    """The events of each run; those before the first belong to it."""
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
