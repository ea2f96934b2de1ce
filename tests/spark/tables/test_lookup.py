"""One row by its key, read without Spark from tables that Spark has written, merged and deleted from."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from arctic_runtime.catalog.lookup import look_up_row
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

COLUMNS = "id int, region string, v int"


def put(lake: Warehouse, model: Model, rows: dict[int, tuple[int, str, int]]) -> None:
    lake.load("s", list(rows.values()), COLUMNS)
    lake.run(model)


def test_a_lookup_finds_every_row_as_the_table_has_it_and_opens_one_file_per_merge(lake: Warehouse) -> None:
    """The base has deletion vectors, of which two stand in one file."""
    model = lake.model("m", "select id, region, v from {s}", primary_key="id", partition_by=["region"])
    rows = {i: (i, "eu" if i % 2 else "us", i) for i in range(40)}
    put(lake, model, rows)
    rows |= {3: (3, "eu", 300), 4: (4, "eu", 4)}
    del rows[7]
    put(lake, model, rows)
    rows |= {3: (3, "us", 301), 50: (50, "eu", 50)}
    del rows[8]
    put(lake, model, rows)
    for key in (0, 3, 4, 7, 8, 39, 50, 99):
        row = look_up_row(lake.reader, model, [str(key)])
        expected = dict(zip(("id", "region", "v"), rows[key], strict=True)) if key in rows else None
        assert row.row == expected, key
        assert row.files_opened <= 2 * 3
    assert look_up_row(lake.reader, model, ["99"]).files_opened == 0
    assert look_up_row(lake.reader, model, ["39"]).files_opened == 1


FIELDS = {
    "l": "array<struct<x: int, y: string>>",
    "m": "map<string, struct<x: double>>",
    "s": "struct<a: array<struct<x: int>>, b: struct<x: int>>",
    "ll": "array<array<struct<x: int>>>",
    "li": "array<int>",
    "ml": "map<string, array<int>>",
    "d": "decimal(10,2)",
    "t": "timestamp",
    "b": "binary",
}
NONE = 0.3
"""How many of the nested values, and of those inside, are null."""


def random_value(kind: DataType, rng: random.Random) -> Any:
    if rng.random() < NONE:
        return None
    match kind:
        case StructType(fields=fields):
            return {field.name: random_value(field.dataType, rng) for field in fields}
        case ArrayType(elementType=element):
            return [random_value(element, rng) for _ in range(rng.randrange(3))]
        case MapType(valueType=value):
            return {key: random_value(value, rng) for key in rng.sample("abc", k=rng.randrange(3))}
        case DecimalType():
            return Decimal(rng.randrange(1000)) / 4
        case TimestampType():
            return datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(rng.randrange(9))
        case BinaryType():
            return rng.randbytes(2)
        case StringType():
            return rng.choice("uvw")
        case DoubleType():
            return float(rng.randrange(9))
        case _:
            return rng.randrange(9)


def as_spark(value: Any) -> Any:
    """A value of a lookup with its maps, which are pairs in Arrow, and its times as Spark gives them."""
    match value:
        case dict():
            return {name: as_spark(part) for name, part in value.items()}
        case [tuple(), *_]:
            return {key: as_spark(part) for key, part in value}
        case list():
            return [as_spark(part) for part in value]
        case datetime.datetime():
            return value.astimezone().replace(tzinfo=None)
    return value


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_lookup_gives_nested_values_and_their_nulls_as_spark_does(lake: Warehouse, merge: str) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    columns = f"id int, {', '.join(f'{name} {kind}' for name, kind in FIELDS.items())}"
    kinds = lake.frame([], columns).schema.fields[1:]
    model = lake.model("m", "select * from {s}", primary_key="id", merge=merge)
    for ids in (range(12), range(12, 20)):
        lake.append("s", [(i, *(random_value(field.dataType, rng) for field in kinds)) for i in ids], columns)
        lake.run(model)
    empty = {"m", "ml"}
    rows = [row.asDict(recursive=True) for row in lake.spark.table(lake.sql_name("m")).collect()]
    lookups = {
        row["id"]: {name: [] if name in empty and value == {} else value for name, value in row.items()} for row in rows
    }
    rows_by_key = {i: as_spark(look_up_row(lake.reader, model, [str(i)]).row) for i in range(24)}
    assert rows_by_key == {i: lookups.get(i) for i in range(24)}


def test_a_lookup_finds_a_key_that_is_not_a_number_and_either_zero(lake: Warehouse) -> None:
    lake.append("s", [(1, float("nan"), "n"), (1, -0.0, "z"), (1, 2.0, "t")], "id int, k double, v string")
    model = lake.model("m", "select * from {s}", primary_key=["id", "k"])
    lake.run(model)
    given = {"nan": "n", "0": "z", "-0.0": "z", "2": "t", "3": None}
    rows = {key: look_up_row(lake.reader, model, ["1", key]).row for key in given}
    assert {key: row and row["v"] for key, row in rows.items()} == given


@pytest.mark.slow
def test_a_lookup_reads_keys_whose_type_has_grown_since(lake: Warehouse) -> None:
    lake.append("s", [(1, 1), (2, 2)], "id int, v int")
    model = lake.model("m", "select id, v from {s}", primary_key="id", merge="on_read")
    lake.run(model)
    lake.append("s", [(2, 20), (3, 30)], "id int, v int")
    wide = lake.model(
        "m",
        "select cast(id as bigint) as id, cast(max(v) as bigint) as v from {s} group by id",
        primary_key="id",
        merge="on_read",
    )
    lake.run(wide)
    assert look_up_row(lake.reader, wide, ["1"]).row == {"id": 1, "v": 1}
    assert look_up_row(lake.reader, wide, ["2"]).row == {"id": 2, "v": 20}
    assert look_up_row(lake.reader, wide, [str(2**40)]).row is None
