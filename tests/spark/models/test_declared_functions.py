"""Functions of users: a model that declares them follows its changes, and computes everything without that."""

from __future__ import annotations

import pytest

from tests.spark.warehouse import Warehouse

COLUMNS = "id int, name string, v int"
ROWS = [(1, " Ann ", 1), (2, "bob", 2), (3, None, 3)]
QUERIES = {
    "selected": "select id, tidy(name) as name, plus_two(v) as v from {source}",
    "filtered": "select id, v from {source} where Tidy(name) = 'ann' or plus_two(v) > 4",
    "grouped": "select tidy(name) as who, sum(plus_two(v)) as v from {source} where name is not null group by 1",
}


@pytest.fixture
def declaring(lake: Warehouse) -> Warehouse:
    lake.spark.udf.register("tidy", lambda name: None if name is None else name.strip().lower(), "string")
    lake.spark.udf.register("plus_two", lambda v: None if v is None else v + 2, "int")
    lake.load("source", ROWS, COLUMNS)
    return lake


@pytest.mark.in_turn
@pytest.mark.parametrize("name", QUERIES)
def test_declared_functions_are_followed(declaring: Warehouse, name: str) -> None:
    lake = declaring
    key = "who" if name == "grouped" else "id"
    model = lake.model("m", QUERIES[name], primary_key=key, deterministic_functions=["tidy", "PLUS_TWO"])
    lake.run(model)
    lake.load("source", [ROWS[0], (2, "ANN", 7), (4, "dan", 4)], COLUMNS)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("incremental", "CHANGES")
    assert lake.broken(model) == []


def test_undeclared_functions_are_named(declaring: Warehouse) -> None:
    lake = declaring
    model = lake.model("m", QUERIES["selected"], primary_key="id", deterministic_functions="tidy")
    lake.run(model)
    lake.load("source", ROWS[:1], COLUMNS)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "UNKNOWN_FUNCTION")
    assert "plus_two" in outcome.because
