"""Runs a query in Spark and returns its rows as Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SparkRows:
    """The rows of an answer of Spark."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


def read_query_rows(spark: SparkSession, query: str, max_rows: int | None) -> SparkRows:
    """Returns the rows of a query, at most `max_rows` of them; None for all, which have to fit into memory."""
    frame = spark.sql(query)
    rows: pa.Table = (frame if max_rows is None else frame.limit(max_rows)).toArrow()
    return SparkRows(rows.schema, rows.to_batches())
