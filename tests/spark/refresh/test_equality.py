"""0.0 and -0.0 are two values to casts and divisions, so a change from one to the other is a change of the row."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.errors import DataError
from arctic_runtime.spark.changes.equality import compare_bags, write_difference
from arctic_runtime.spark.engine.statement import alias_as, quote_name
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from arctic_runtime.spark.tables.rows.frames import type_of
from tests.spark.warehouse import Warehouse

NESTED = "array<struct<x: float, s: string>>"
TYPES = ("double", "float", "string", "array<double>", "struct<x: double, y: string>", "map<string, double>", NESTED)
NUMBERS = (0.0, -0.0, float("nan"), -float("nan"), 1.5, -1.5, float("inf"), 5e-45)


def random_value(kind: str, rng: random.Random) -> Any:
    if rng.random() < 0.15:
        return None
    number, text = rng.choice([*NUMBERS, None]), rng.choice(["0.0", "-0.0", ", -0.0", "", None])
    match kind:
        case "double" | "float":
            return rng.choice(NUMBERS)
        case "string":
            return text
        case "array<double>":
            return rng.choices(NUMBERS, k=rng.randrange(3))
        case "struct<x: double, y: string>":
            return (number, text)
        case "map<string, double>":
            return {key: rng.choice(NUMBERS) for key in rng.sample("ab", k=rng.randrange(3))}
        case _:
            return [(number, text)] * rng.randrange(3)


def identity(value: Any) -> str:
    """A text of a value that no other value has; NaNs have no sign, and maps no order."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case dict():
            return repr(sorted((key, identity(value)) for key, value in value.items()))
        case list() | tuple():
            return f"[{','.join(map(identity, value))}]"
        case _:
            return repr(value)


def random_rows(rng: random.Random, count: int) -> list[tuple[Any, ...]]:
    return [tuple(random_value(kind, rng) for kind in TYPES) for _ in range(count)]


def as_frame(spark: SparkSession, rows: Sequence[tuple[Any, ...]], prefix: str = "c") -> DataFrame:
    return spark.createDataFrame(list(rows), ", ".join(f"{prefix}{i} {kind}" for i, kind in enumerate(TYPES)))


def test_values_differ_unless_they_are_the_same_to_the_last_bit(spark: SparkSession) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    left, right = random_rows(rng, 400), random_rows(rng, 400)
    pairs = [*zip(left, right, strict=True), *zip(left, left, strict=True)]
    schema = ", ".join(f"{side}{i} {kind}" for side in "lr" for i, kind in enumerate(TYPES))
    rows = spark.createDataFrame([(*one, *other) for one, other in pairs], schema)
    kinds = [type_of(field.dataType) for field in rows.schema.fields[: len(TYPES)]]
    compared = [
        alias_as(write_difference([(quote_name(f"l{i}"), quote_name(f"r{i}"), kind)]), f"d{i}")
        for i, kind in enumerate(kinds)
    ]
    for row, (one, other) in zip(rows.selectExpr(*compared).collect(), pairs, strict=True):
        for does_differ, *values in zip(row, one, other, strict=True):
            assert does_differ is (identity(values[0]) != identity(values[1])), values


def test_bags_are_compared_to_the_last_bit(spark: SparkSession) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kept = [(rng.choice(NUMBERS[:4]), [rng.choice(NUMBERS[:4])], rng.choice("ab")) for _ in range(40)]
    new, old = (rng.choices(kept, k=60) for _ in range(2))
    schema = "x double, a array<double>, s string"
    differences = compare_bags(
        spark.createDataFrame(new, schema), spark.createDataFrame(old, schema), "weight"
    ).collect()
    counts = [Counter(identity(row) for row in rows) for rows in (new, old)]
    came = Counter(identity(tuple(row)[:3]) for row in differences if row["weight"] == 1)
    went = Counter(identity(tuple(row)[:3]) for row in differences if row["weight"] == -1)
    assert (came, went) == (counts[0] - counts[1], counts[1] - counts[0])


COLUMNS = "id int, x double, f float, a array<double>, s struct<x: double>"
TEXTS = "cast(x as string) as x, cast(f as string) as f, cast(a as string) as a, cast(s as string) as s"
ZEROS = {"x": 1, "f": 2, "a": 3, "s": 4}


def row_of(number: int, changed: str = "") -> tuple[Any, ...]:
    """A row of zeros, of which the one in the column `changed` is negative."""
    zeros = {column: -0.0 if column == changed else 0.0 for column in ZEROS}
    return (number, zeros["x"], zeros["f"], [zeros["a"]], {"x": zeros["s"]})


def texts_of(number: int, changed: str = "") -> tuple[Any, ...]:
    zeros = {column: "-0.0" if column == changed else "0.0" for column in ZEROS}
    return (number, zeros["x"], zeros["f"], f"[{zeros['a']}]", f"{{{zeros['s']}}}")


BEFORE, AFTER = [row_of(i) for i in range(1, 6)], [*map(row_of, range(1, 6), ZEROS), row_of(5)]
SHOWN_BEFORE = [texts_of(i) for i in range(1, 6)]
SHOWN_AFTER = [*map(texts_of, range(1, 6), ZEROS), texts_of(5)]


@pytest.mark.in_turn
def test_zeros_that_change_their_sign_reach_the_layers_below(lake: Warehouse) -> None:
    lake.load("given", BEFORE, COLUMNS)
    plain = lake.model("plain", f"select id, {TEXTS} from {{given}}", primary_key="id", refresh="strict")
    union = "select id, x from {given} union all select id + 10, f from {given}"
    twice = lake.model("twice", union, primary_key="id", refresh="strict")
    top = lake.model("top", "select * from {given}", primary_key="id")
    below = lake.model("below", f"select id, {TEXTS} from {{top}}", primary_key="id", refresh="strict")
    kept = lake.model("kept", "select * from {given}", primary_key="id", history="scd2")
    models = (plain, twice, top, below, kept)
    for model in models:
        lake.run(model)
    first = lake.head(top)
    lake.load("given", AFTER, COLUMNS)
    outcomes = [lake.run(model) for model in models]
    assert lake.rows(plain) == lake.rows(below) == SHOWN_AFTER
    assert [lake.actions(outcome) for outcome in outcomes] == [(0, 4, 0), (0, 2, 0), (0, 4, 0), (0, 4, 0), (4, 4, 0)]
    assert [number for number, x in lake.rows(twice) if repr(x) == "-0.0"] == [1, 12]
    assert [message for model in models for message in lake.broken(model)] == []
    assert restore_version(lake.session_of(top), first)["update"] == 4
    lake.run(below)
    assert lake.rows(below) == SHOWN_BEFORE


@pytest.mark.in_turn
@pytest.mark.parametrize("history", ["none", "scd2"])
def test_events_that_change_the_sign_of_a_zero_change_the_row(lake: Warehouse, history: str) -> None:
    columns = f"{COLUMNS}, seq int"
    lake.append("events", [(*row, 1) for row in BEFORE], columns)
    keys = {"primary_key": "id", "input": "changes", "sequence_by": "seq", "history": history}
    model = lake.model("m", "select * from {changes(events)}", exclude_columns=["seq"], **keys)
    lake.run(model)
    lake.append("events", [(*row, 2) for row in AFTER], columns)
    lake.run(model)
    now = lake.spark.table(lake.sql_name("m")).where("_valid_to is null" if history == "scd2" else "true")
    shown = [tuple(row) for row in now.selectExpr("id", *TEXTS.split(", ")).orderBy("id").collect()]
    assert shown == SHOWN_AFTER
    assert lake.broken(model) == []


def test_declared_rows_that_differ_in_the_sign_of_a_zero_are_written(lake: Warehouse) -> None:
    lake.append("events", [(*row, 1) for row in BEFORE], f"{COLUMNS}, seq int")
    config: dict[str, Any] = {"primary_key": "id", "input": "changes", "sequence_by": "seq"}
    model = lake.model("m", "select * from {changes(events)}", exclude_columns=["seq"], **config)
    lake.run(model)
    lake.load("declared", AFTER, COLUMNS)
    assert overwrite_with_source(lake.refresh_of(model), lake.table("declared"), "5")["update"] == 4


def test_verification_sees_the_sign_of_a_zero(lake: Warehouse) -> None:
    lake.load("given", BEFORE, COLUMNS)
    model = lake.model("m", "select * from {given}", primary_key="id")
    lake.run(model)
    lake.load("given", AFTER, COLUMNS)
    lake.run(model)
    assert lake.broken(model) == []
    lake.spark.sql(f"update {lake.sql_name('m')} set x = -0.0D where id = 3")
    broken = [message.split(":")[0] for message in lake.broken(model)]
    assert broken == ["the query gives the table", "the changes fold to the table"]


@pytest.mark.in_turn
def test_both_zeros_are_one_key(lake: Warehouse) -> None:
    columns, key = "id int, k double, v double", {"primary_key": ["id", "k"]}
    lake.load("given", [(1, 0.0, 1.0), (1, 2.0, 1.0)], columns)
    model = lake.model("m", "select id, k, v from {given}", **key)
    groups = lake.model("g", "select id, k, count(*) as n, max(v) as v from {given} group by id, k", **key)
    for each in (model, groups):
        lake.run(each)
    lake.load("given", [(1, -0.0, 1.0), (1, 2.0, 2.0)], columns)
    assert [lake.actions(lake.run(each)) for each in (model, groups)] == [(0, 1, 0), (0, 1, 0)]
    lake.load("given", [(1, -0.0, 3.0), (1, 2.0, 2.0)], columns)
    assert [lake.actions(lake.run(each)) for each in (model, groups)] == [(0, 1, 0), (0, 1, 0)]
    assert repr(lake.rows(model)) == "[(1, 0.0, 3.0), (1, 2.0, 2.0)]"
    assert repr(lake.rows(groups)) == "[(1, 0.0, 1, 3.0), (1, 2.0, 1, 2.0)]"
    assert [*lake.broken(model), *lake.broken(groups)] == []


def test_events_that_differ_in_the_sign_of_a_zero_alone_have_an_order(lake: Warehouse) -> None:
    lake.append_v2("events", [(1, 0.0, 1), (1, -0.0, 1)], "id int, x double, seq int")
    model = lake.model("m", "select * from {changes(events)}", primary_key="id", input="changes", sequence_by="seq")
    with pytest.raises(DataError, match="same `sequence_by` value"):
        lake.run(model)
