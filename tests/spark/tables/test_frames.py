"""Frames that every run builds: what Spark makes of them."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from dataclasses import replace

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.observation.tables import observe_source
from arctic_runtime.model.columns import Column as Kept
from arctic_runtime.model.shape import Shape
from arctic_runtime.spark.changes.diff import diff_states
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_number
from arctic_runtime.spark.refresh.images import read_rows_at
from arctic_runtime.spark.tables.rows.frames import combine_all, combine_any, hide_constant
from arctic_runtime.thresholds import PruningThresholds
from tests.spark.warehouse import Warehouse


def generated(spark: SparkSession, value: Column) -> str:
    """The code that Spark generates for rows with a value."""
    printed = io.StringIO()
    compiled = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "CODEGEN_ONLY"}
    with override_settings(spark, compiled), contextlib.redirect_stdout(printed):
        spark.range(2).selectExpr("cast(id as string) as text").withColumn("value", value).explain("codegen")
    code = printed.getvalue().partition("Generated code:")[2]
    assert code
    return code


def test_a_constant_can_be_kept_out_of_the_code_that_the_next_run_uses_again(spark: SparkSession) -> None:
    times = [
        fill_statement("timestamp_micros({micros})", micros=quote_number(micros)) for micros in (10**15, 10**15 + 1)
    ]
    first, second = (generated(spark, F.expr(hide_constant(time, quote_name("text")))) for time in times)
    assert first == second
    first, second = (generated(spark, F.expr(time)) for time in times)
    assert first != second


def test_it_is_that_constant_in_every_row(spark: SparkSession) -> None:
    texts = spark.createDataFrame([("",), ("a",), ("bcd",)], "text string")
    rows = texts.select(F.expr(hide_constant(quote_number(7), quote_name("text"))).alias("value")).collect()
    assert [row.value for row in rows] == [7, 7, 7]


def is_base_moved(spark: SparkSession, rows: DataFrame) -> bool:
    """Whether what is laid over a base moves its rows, where Spark takes nothing for small by itself."""
    printed = io.StringIO()
    wanted = {"spark.sql.shuffle.partitions": "200", "spark.sql.autoBroadcastJoinThreshold": "-1"}
    with override_settings(spark, wanted), contextlib.redirect_stdout(printed):
        rows.explain()
    _, _, laid_over = printed.getvalue().partition("LeftAnti")
    base, scanned, _ = laid_over.partition("amounts__base")
    assert scanned
    return "Exchange" in base


def test_changes_of_several_commits_are_laid_over_a_base_that_stays_where_it_is(
    lake: Warehouse,
) -> None:
    """Few keys are held, for readers of the view as well, and no row of the base is moved; of many both are moved."""
    query = "select id, amount, op from {changes(events)}"
    events = "id int, amount int, op string"
    config = {"input": "changes", "delete_when": "op = 'd'", "exclude_columns": ["op"], "merge": "on_read", "nodes": 4}
    lake.append("events", [(key, 0, "u") for key in range(100)], events)
    model = lake.model("amounts", query, primary_key="id", **config)
    lake.run(model)
    for amount in (1, 2):
        lake.append("events", [(1, amount, "u"), (2 + amount, 0, "d"), (200, amount, "u")], events)
        lake.run(model)
    source = observe_source(lake.reader, model.table)
    assert source is not None
    assert source.count_unmerged_at(source.version) == 6
    pruning = PruningThresholds()
    rows = read_rows_at(lake.spark, source, source.version, pruning)
    expected = {**dict.fromkeys(range(100), 0), 1: 2, 200: 2}
    assert {row.id: row.amount for row in rows.collect()} == {k: v for k, v in expected.items() if k not in (3, 4)}
    view = lake.spark.table(lake.sql_name("amounts"))
    assert sorted(view.collect()) == sorted(rows.collect())
    assert not is_base_moved(lake.spark, view)
    assert not is_base_moved(lake.spark, rows)
    assert is_base_moved(
        lake.spark, read_rows_at(lake.spark, source, source.version, replace(pruning, broadcast_keys=5))
    )


PAIRS = [f"id + {place} <=> other + {place}" for place in range(30)]


def optimized(spark: SparkSession, rounds: int) -> str:
    """The plan of rows in which one pair of values differs, after so many rounds at most."""
    rows = spark.range(2).withColumn("other", F.rand(1).cast("bigint"))
    printed = io.StringIO()
    with (
        override_settings(spark, {"spark.sql.optimizer.maxIterations": str(rounds)}),
        contextlib.redirect_stdout(printed),
    ):
        rows.where(combine_any([~F.expr(pair) for pair in PAIRS])).explain("extended")
    _, _, plan = printed.getvalue().partition("== Optimized Logical Plan ==")
    assert plan.count("<=>") >= len(PAIRS)
    return re.sub(r"#\d+", "", plan)


def test_whether_one_of_many_columns_differs_is_planned_in_a_few_rounds(spark: SparkSession) -> None:
    assert optimized(spark, 5) == optimized(spark, 100)


@pytest.mark.parametrize("values", list(itertools.product([True, False, None], repeat=2)))
def test_one_is_true_where_not_all_are_false(spark: SparkSession, values: tuple[bool | None, ...]) -> None:
    rows = spark.createDataFrame([values], "a boolean, b boolean")
    conditions = [F.col("a"), F.col("b")]
    images = rows.select(
        combine_any(conditions).alias("one"), (~combine_all([~part for part in conditions])).alias("same")
    )
    (row,) = images.collect()
    assert row.one == row.same
    assert row.one is (True if True in values else None if None in values else False)


def test_of_no_conditions_none_is_true(spark: SparkSession) -> None:
    assert spark.range(1).select(combine_any([]).alias("one")).collect()[0].one is False


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_of_a_first_load_are_moved_where_copies_of_a_key_have_to_be_looked_for(
    spark: SparkSession, keyed: bool
) -> None:
    shape = Shape((Kept("id", "bigint"), Kept("v", "string")), ("id",), ("id", "v"))
    rows = diff_states(spark.range(3).selectExpr("id % 7 as id", "cast(id as string) as v"), None, shape, keyed)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        rows.explain()
    assert ("Exchange" in printed.getvalue()) != keyed
    assert sorted((row.id, row.v, row["_action"]) for row in rows.collect()) == [
        (key, str(key), "insert") for key in range(3)
    ]
