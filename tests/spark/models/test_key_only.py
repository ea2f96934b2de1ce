"""Tables that are nothing but their key: the deletion of a row that was not there looks like any other deletion."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.events import retract
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EXISTED = "__arctic_existed"
EVENTS = "id int, b string, op string, lsn int"
KEYS = "select id, op, lsn from {changes(events)}"
WITH_COLUMN = "select id, b, op, lsn from {changes(events)}"


def make_keys(lake: Warehouse, sql: str = KEYS, **config: Any) -> Model:
    settings = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": "lsn",
        "delete_when": "op = 'd'",
        "exclude_columns": ["op", "lsn"],
        "on_schema_change": "append_new_columns",
    }
    return lake.model("m", sql, **{**settings, **config})


def make_sums(lake: Warehouse, name: str = "sums") -> Model:
    sql = "select id % 2 as g, 1 as n from {changes(m)}"
    return lake.model(name, sql, primary_key="g", input="changes", merge_columns={"n": "sum"})


def make_counts(lake: Warehouse) -> Model:
    sql = "select id % 2 as g, count(*) as n from {m} group by id % 2"
    return lake.model("counts", sql, primary_key="g")


def write(lake: Warehouse, *events: tuple[Any, ...]) -> None:
    lake.append("events", events, EVENTS)


@pytest.mark.in_turn
def test_the_deletion_of_a_row_that_never_was_takes_nothing_from_a_sum(lake: Warehouse) -> None:
    model, sums = make_keys(lake), make_sums(lake)
    write(lake, (1, None, "c", 1), (2, None, "c", 2))
    lake.run(model)
    lake.run(sums)
    write(lake, (5, None, "d", 3), (3, None, "c", 4))
    lake.run(model)
    lake.run(sums)
    assert lake.rows(sums) == [(0, 1), (1, 2)]
    write(lake, (5, None, "d", 5), (3, None, "d", 6), (2, None, "d", 7))
    lake.run(model)
    write(lake, (2, None, "d", 8), (2, None, "c", 9), (4, None, "c", 10), (5, None, "d", 11))
    lake.run(model)
    lake.run(sums)
    assert lake.rows(sums) == [(0, 2), (1, 1)]
    assert lake.broken(sums) == lake.broken(model) == []
    assert lake.actions(lake.run(sums, full_refresh=True)) == (0, 0, 0)


@pytest.mark.in_turn
@pytest.mark.parametrize("keep", [pytest.param("net", marks=pytest.mark.slow), "all"])
def test_the_first_load_of_a_sum_does_not_count_it_either(lake: Warehouse, keep: str) -> None:
    model = make_keys(lake, keep=keep)
    write(lake, (1, None, "c", 1), (3, None, "d", 2))
    lake.run(model)
    sums = make_sums(lake)
    lake.run(sums)
    assert lake.rows(sums) == [(1, 1)]
    write(lake, (3, None, "c", 3), (5, None, "c", 4), (5, None, "d", 5), (5, None, "d", 6), (1, None, "d", 7))
    lake.run(model)
    lake.run(sums)
    lake.run(make_sums(lake, "later"))
    assert lake.rows(sums) == lake.rows(make_sums(lake, "later")) == [(1, 1)]
    assert lake.broken(sums) == []


@pytest.mark.in_turn
def test_verify_sees_a_sum_that_took_back_a_row_that_never_was(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sums = make_keys(lake), make_sums(lake)
    write(lake, (1, None, "c", 1), (3, None, "d", 2))
    lake.run(model)
    with monkeypatch.context() as patched:
        patched.setattr(retract, "add_existence", lambda _, rows, *__: rows.withColumn(EXISTED, F.lit(True)))
        lake.run(sums)
    assert lake.rows(sums) == [(1, 0)]
    assert [text for text in lake.broken(sums) if text.startswith("the query gives the table")]
    assert lake.actions(lake.run(sums, full_refresh=True)) == (0, 1, 0)
    assert lake.broken(sums) == []


@pytest.mark.slow
def test_readers_follow_a_table_that_was_nothing_but_its_key(lake: Warehouse) -> None:
    """Its older change rows have no `_before`, its newer ones have, and a window holds both."""
    model, sums, counts = make_keys(lake), make_sums(lake), make_counts(lake)
    write(lake, *((key, None, "c", key) for key in range(1, 9)))
    for each in (model, sums, counts):
        lake.run(each)
    write(lake, (1, None, "d", 20), (11, None, "d", 21))
    lake.run(model)
    model = make_keys(lake, WITH_COLUMN)
    write(lake, (2, "x", "d", 22), (13, "x", "d", 23), (15, "x", "c", 24), (4, "y", "u", 25))
    lake.run(model)
    for reader in (sums, counts, make_sums(lake, "later")):
        lake.run(reader)
        ids = lake.spark.table(quoted(*model.table.parts)).select("id").collect()
        assert dict(lake.rows(reader)) == Counter(row.id % 2 for row in ids), reader.table.name
        assert lake.broken(reader) == []
    write(lake, (17, "x", "d", 26), (15, "x", "d", 27))
    lake.run(model)
    for reader in (sums, counts):
        assert lake.run(reader).mode == "incremental"
        assert dict(lake.rows(reader)) == {0: 3, 1: 3}
