"""Columns that come, go and grow: every version stays readable, and a run that dies in between is ended by the next."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.spark.between import changes_between
from tests.crash.dying import run_until
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

SYNC: dict[str, Any] = {"primary_key": "id", "on_schema_change": "sync_all_columns"}
WIDE = "select cast(id as bigint) as id, cast(v as bigint) as v, 'x' as more from {s}"


def narrow(lake: Warehouse, merge: str, name: str = "m") -> Model:
    lake.load("s", [(1, 1, "a"), (2, 2, "b")], "id int, v int, old string")
    return lake.model(name, "select id, v, old from {s}", merge=merge, **SYNC)


def wide(lake: Warehouse, merge: str, name: str = "m") -> Model:
    return lake.model(name, WIDE, merge=merge, **SYNC)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_run_that_dies_while_columns_change_is_followed_by_one_that_ends_it(lake: Warehouse, merge: str) -> None:
    """A key grows, a column grows, one comes and one goes; up to the commit of the rows."""
    for last in itertools.count():
        before = narrow(lake, merge, f"m{last}")
        lake.run(before)
        model = wide(lake, merge, f"m{last}")
        life = run_until(lake, model, last)
        lake.run(model)
        assert lake.rows(model) == [(1, 1, "x"), (2, 2, "x")]
        assert lake.broken(model) == []
        if life is None or any("fast_forward" in of for of in life.effects):
            break
    assert last > 6


@pytest.mark.slow
def test_changes_across_a_change_of_columns_are_told_in_the_columns_of_today(lake: Warehouse) -> None:
    model = narrow(lake, "on_write")
    lake.run(model)
    first = lake.head(model)
    model = wide(lake, "on_write")
    lake.run(model)
    second = lake.head(model)
    lake.load("s", [(1, 10, "a")], "id int, v int, old string")
    lake.run(model)
    rows = changes_between(lake.make_run(model), first, lake.head(model), 10)
    told = [(row["_action"], row["id"], row["v"], row["more"], row["_before"]) for row in rows]
    assert told == [
        ("update", 1, 1, "x", {"v": 1, "more": None}),
        ("update", 2, 2, "x", {"v": 2, "more": None}),
        ("update", 1, 10, "x", {"v": 1, "more": "x"}),
        ("delete", 2, 2, "x", {"v": 2, "more": "x"}),
    ]
    assert len(changes_between(lake.make_run(model), second, lake.head(model), 10)) == 2


def test_a_table_that_was_all_key_may_get_another_column(lake: Warehouse) -> None:
    lake.load("s", [(1, "a")], "id int, v string")
    lake.run(lake.model("m", "select id from {s}", primary_key="id"))
    model = lake.model("m", "select id, v from {s}", primary_key="id")
    lake.run(model)
    assert lake.rows(model) == [(1, "a")]
    lake.load("s", [(1, "b")], "id int, v string")
    lake.run(model)
    assert lake.rows(model) == [(1, "b")]
    assert lake.log(model)[-1]["_before"] == {"v": "a"}
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_table_may_lose_its_last_column_outside_the_key(lake: Warehouse) -> None:
    lake.load("s", [(1, "a"), (2, "b")], "id int, v string")
    lake.run(lake.model("m", "select id, v from {s}", **SYNC))
    model = lake.model("m", "select id from {s}", **SYNC)
    lake.run(model)
    lake.load("s", [(2, "b"), (3, "c")], "id int, v string")
    lake.run(model)
    assert lake.rows(model) == [(2,), (3,)]
    assert lake.broken(model) == []
