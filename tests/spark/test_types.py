"""Types that are told of expressions without asking Spark are those that it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.incremental.typed import COLUMNS, TYPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_gives_expressions_the_types_that_are_told(spark: SparkSession) -> None:
    columns = ", ".join(f"cast(null as {kind}) as {name}" for name, kind in COLUMNS.items())
    told = {text: kind.replace(" ", "") for text, kind in TYPED.items() if kind is not None}
    found = {text: spark.sql(f"select {text} as x from (select {columns})").dtypes[0][1] for text in told}
    assert found == told
