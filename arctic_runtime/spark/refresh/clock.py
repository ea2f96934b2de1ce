"""Pins the time in a Spark session: the functions by which queries and operator trees read the clock."""

from __future__ import annotations

from pyspark.sql import SparkSession

from arctic_runtime.ivm.algebra.clock import BEFORE, NOW
from arctic_runtime.model.run_summary import ClockReading
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_number

_ZONE = "spark.sql.session.timeZone"


def pin_time(spark: SparkSession, micros: int, last: ClockReading | None) -> ClockReading:
    """Creates the session's functions for the time `micros`, and for the time of the `last` run if it is known.

    Spark replaces their calls by constants before it plans a query, so it skips files by them. Returns the time with
    the session's time zone.
    """
    for name, value in ((NOW, micros), (BEFORE, micros if last is None else last.micros)):
        create = fill_statement(
            "CREATE OR REPLACE TEMPORARY FUNCTION {name}() RETURNS BIGINT RETURN {value}",
            name=quote_name(name.lower()),
            value=quote_number(value),
        )
        spark.sql(create)
    return ClockReading(micros, str(spark.conf.get(_ZONE)))
