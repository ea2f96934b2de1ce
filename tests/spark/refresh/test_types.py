"""Types that are told of expressions without asking Spark are those that it tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from arctic_runtime.errors import ConfigError
from tests.spark.warehouse import Warehouse
from tests.unit.ivm.typed import COLUMNS, TYPED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_gives_expressions_the_inferred_types(spark: SparkSession) -> None:
    columns = ", ".join(f"cast(null as {kind}) as {name}" for name, kind in COLUMNS.items())
    expected = {text: kind.replace(" ", "") for text, kind in TYPED.items() if kind is not None}
    types = {text: spark.sql(f"select {text} as x from (select {columns})").dtypes[0][1] for text in expected}
    assert types == expected


@pytest.mark.in_turn
def test_a_column_of_a_type_without_spark_matters_only_where_it_is_read(lake: Warehouse) -> None:
    """A variant, which pyiceberg refuses with the whole table."""
    source = lake.sql_name("s")
    lake.spark.sql(
        f"create table {source} (id int, v string, j variant, r struct<a:array<variant>>) using iceberg "
        # Iceberg's own vectorized reader reads no variants.
        "tblproperties ('format-version' = '3', 'read.parquet.vectorization.enabled' = 'false')"
    )

    def come(key: int, value: str) -> None:
        json = f"parse_json('{{\"a\": {key}}}')"
        lake.spark.sql(f"insert into {source} select {key}, '{value}', {json}, named_struct('a', array({json}))")

    come(1, "x")
    plain = lake.model("plain", "select id, v from {s}", primary_key="id", refresh="strict")
    reads = lake.model("reads", "select id, variant_get(j, '$.a', 'int') as a from {s}", primary_key="id")
    query = "select id, cast(j as string) as j, v from {changes(s)}"
    events = lake.model("events", query, primary_key="id", input="changes", sequence_by="v")
    models = (plain, reads, events)
    for model in models:
        lake.run(model)
    come(2, "y")
    assert [lake.run(model).mode for model in models] == ["incremental", "full", "incremental"]
    assert lake.rows(plain) == [(1, "x"), (2, "y")]
    assert lake.rows(reads) == [(1, 1), (2, 2)]
    assert lake.rows(events) == [(1, '{"a":1}', "x"), (2, '{"a":2}', "y")]
    assert [lake.broken(model) for model in models] == [[], [], []]
    with pytest.raises(ConfigError, match="column `j` is of type variant and can't be stored"):
        lake.run(lake.model("stored", "select id, j from {s}", primary_key="id"))
