"""What of Spark's own functions and words depends on the moment or the session is known, whatever version it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arctic_runtime.ivm.frontend.reads import AGGREGATES, GENERATORS, SCALARS, UNSTABLE, WINDOW_FUNCTIONS, find_reads
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLLOWED = AGGREGATES | GENERATORS | SCALARS | WINDOW_FUNCTIONS

SYNTAX = frozenset(["AND", "BETWEEN", "CASE", "IN", "NOT", "OR", "TIME", "WHEN"])

REFUSED = frozenset(
    {"AES_ENCRYPT", "APPROX_TOP_K_ACCUMULATE", "APPROX_TOP_K_COMBINE", "APPROX_TOP_K_ESTIMATE", "BITMAP_AND_AGG"}
    | {"COLLATIONS", "FROM_AVRO", "FROM_PROTOBUF", "GROUPING", "GROUPING_ID", "RAISE_ERROR", "RANGE", "SCHEMA_OF_AVRO"}
    | {"SESSION_WINDOW", "SQL_KEYWORDS", "TO_AVRO", "TO_PROTOBUF", "VARIANT_EXPLODE", "VARIANT_EXPLODE_OUTER"}
    | {"WINDOW", "WINDOW_TIME"}
)
"""Functions whose answer stays right until what they read is another, and which no rule covers."""

REFUSED_FAMILIES = ("KLL_", "THETA_", "ST_")

CLOCK = (
    "date 'today'",
    "date ' Tomorrow '",
    "date 'today UTC'",
    "date 'today+01:00'",
    "date 'now'",
    "timestamp 'now'",
    "timestamp_ntz 'yesterday'",
    "timestamp '10:11:12'",
    "date('today')",
    "to_date('today')",
    "to_timestamp('now')",
    "to_timestamp('T10:11')",
    "date_add('yesterday', 1)",
    "cast(concat('to', 'day') as date)",
)


def test_each_function_of_spark_is_followed_or_refused_or_known_to_change_by_itself(spark: SparkSession) -> None:
    functions = {row[0].upper() for row in spark.sql("show system functions").collect()}
    names = {name for name in functions if name.replace("_", "").isalnum()} - SYNTAX
    known = FOLLOWED | UNSTABLE | REFUSED
    assert {name for name in names - known if not name.startswith(REFUSED_FAMILIES)} == set()
    assert not FOLLOWED & UNSTABLE


def test_words_by_which_spark_means_the_moment_are_known(spark: SparkSession) -> None:
    near = "between date_sub(current_date(), 2) and date_add(current_date(), 2)"
    asked = ", ".join(f"cast({word} as date) {near}" for word in CLOCK)
    assert set(spark.sql(f"select {asked}").first()) == {True}
    assert [word for word in CLOCK if not find_reads(f"select {word} as x", "l", "s").unstable] == []


def test_a_comparison_with_a_word_of_the_clock_is_made_in_every_run(lake: Warehouse) -> None:
    lake.load("days", [(1, "2020-01-01")], "id int, day string")
    sql = "select id from {days} where cast(day as date) < 'today'"
    model = lake.model("past", sql, primary_key="id")
    lake.run(model)
    assert lake.run(model).reason == "NON_DETERMINISTIC"
    assert lake.rows(model) == [(1,)]
