"""Columns that come, go and grow: every version stays readable, and a run that dies in between is ended by the next."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.columns import SchemaChange
from arctic_runtime.model.state import TableState
from arctic_runtime.operations.inspect import read_history
from arctic_runtime.spark.maintenance.cloning import reset_model
from arctic_runtime.spark.maintenance.window_changes import read_changes_between
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.crash.dying import run_until
from tests.spark.warehouse import Warehouse, refuse

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
        if life is None or any("fast_forward" in effect for effect in life.effects):
            break
    assert last > 6


@pytest.mark.slow
def test_changes_across_a_change_of_columns_are_reported_in_the_columns_of_today(lake: Warehouse) -> None:
    model = narrow(lake, "on_write")
    lake.run(model)
    first = lake.head(model)
    model = wide(lake, "on_write")
    lake.run(model)
    second = lake.head(model)
    lake.load("s", [(1, 10, "a")], "id int, v int, old string")
    lake.run(model)
    rows = read_changes_between(lake.session_of(model), first, lake.head(model), 10)
    changes = [(row["_action"], row["id"], row["v"], row["more"], row["_before"]) for row in rows]
    assert changes == [
        ("update", 1, 1, "x", {"v": 1, "more": None}),
        ("update", 2, 2, "x", {"v": 2, "more": None}),
        ("update", 1, 10, "x", {"v": 1, "more": "x"}),
        ("delete", 2, 2, "x", {"v": 2, "more": "x"}),
    ]
    assert len(read_changes_between(lake.session_of(model), second, lake.head(model), 10)) == 2


@pytest.mark.slow
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


@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_column_that_comes_back_is_another_one(lake: Warehouse, merge: str) -> None:
    """What it held before is gone, for the table, for its readers and for what is compared with them."""
    lake.load("s", [(1, 1, "a"), (2, 2, "b")], "id int, v int, old string")
    models = [lake.model("m", f"select {columns} from {{s}}", merge=merge, **SYNC) for columns in ("*", "id, v")]
    with_it, without = models
    count = lake.model("n", "select old, count(*) as n from {m} group by old", primary_key="old")
    for model in (with_it, count, without):
        lake.run(model)
    assert lake.actions(lake.run(with_it)) == (0, 2, 0)
    assert lake.rows(with_it) == [(1, 1, "a"), (2, 2, "b")]
    outcome = lake.run(count)
    assert (outcome.mode, outcome.reason, lake.rows(count)) == ("full", "QUERY_CHANGED", [("a", 1), ("b", 1)])
    lake.load("s", [(1, 1, "c"), (2, 2, "b")], "id int, v int, old string")
    lake.run(with_it)
    assert lake.run(count).mode == "incremental"
    assert lake.rows(count) == [("b", 1), ("c", 1)]
    for model in (with_it, count):
        assert lake.broken(model) == []


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_a_column_that_is_renamed_keeps_what_it_holds_and_changes_no_row(lake: Warehouse, merge: str) -> None:
    lake.load("s", [(1, 1, "a"), (2, 2, "b")], "id int, v int, old string")
    model = lake.model("m", "select * from {s}", merge=merge, **SYNC)
    lake.run(model)
    first = lake.head(model)
    above = lake.model("n", "select * from {m}", **SYNC)
    lake.run(above)
    sql = "select id, v as `the v`, old from {s}"
    model = lake.model("m", sql, merge=merge, renamed_columns={"the v": "V"}, **SYNC)
    above = lake.model("n", "select * from {m}", renamed_columns={"the v": "v"}, **SYNC)
    for renamed, mode in ((model, "incremental"), (above, "full")):
        outcome = lake.run(renamed)
        assert (outcome.mode, lake.actions(outcome)) == (mode, (0, 0, 0))
        assert lake.run(renamed, refuse).mode == "unchanged"
        assert lake.rows(renamed) == [(1, 1, "a"), (2, 2, "b")]
        assert lake.broken(renamed) == []
    lake.load("s", [(1, 10, "a"), (3, 3, "c")], "id int, v int, old string")
    for renamed in (model, above):
        assert lake.actions(lake.run(renamed)) == (1, 1, 1)
        assert [row["_before"] for row in lake.log(renamed) if row["_action"] == "update"] == [{"the v": 1, "old": "a"}]
        assert lake.rows(renamed) == [(1, 10, "a"), (3, 3, "c")]
        assert lake.broken(renamed) == []
    changes = read_changes_between(lake.session_of(model), first, lake.head(model), 10)
    assert [(row["_action"], row["the v"]) for row in changes] == [("update", 10), ("delete", 2), ("insert", 3)]
    columns = [entry.columns for entry in read_history(lake.reader, model) if not entry.columns.is_empty]
    assert columns == [SchemaChange(rename=(("v", "the v"),))]
    assert restore_version(lake.session_of(model), first) == {"insert": 1, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == [(1, 1, "a"), (2, 2, "b")]


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_run_that_dies_while_a_column_is_renamed_is_followed_by_one_that_ends_it(lake: Warehouse, merge: str) -> None:
    for last in itertools.count():
        lake.load("s", [(1, 1, "a"), (2, 2, "b")], "id int, v int, old string")
        lake.run(lake.model(f"m{last}", "select * from {s}", merge=merge, **SYNC))
        lake.load("s", [(1, 1, "a"), (2, 7, "b")], "id int, v int, old string")
        sql = "select id, v as w, old from {s}"
        model = lake.model(f"m{last}", sql, merge=merge, renamed_columns={"w": "v"}, **SYNC)
        life = run_until(lake, model, last)
        lake.run(model)
        assert lake.rows(model) == [(1, 1, "a"), (2, 7, "b")]
        assert [row["_before"] for row in lake.log(model) if row["_action"] == "update"] == [{"w": 2, "old": "b"}]
        assert lake.broken(model) == []
        if life is None or any("fast_forward" in effect for effect in life.effects):
            break
    assert last > 4


def test_a_source_whose_columns_are_called_otherwise_is_followed_by_what_they_are(lake: Warehouse) -> None:
    """Its old snapshots have the old names, and no new one tells of the change."""
    sql = "select id % 2 as odd, sum({column}) as total from {{s}} group by id % 2"
    before, model = (lake.model("m", sql.format(column=name), primary_key="odd") for name in ("v", "w"))
    lake.load("s", [(1, 1), (2, 2), (3, 3)], "id int, v int")
    lake.run(before)
    source = lake.sql_name("s")
    lake.spark.sql(f"alter table {source} rename column v to w")
    assert lake.actions(lake.run(model)) == (0, 0, 0)
    lake.load("s", [(1, 1), (2, 2), (3, 30)], "id int, w int")
    outcome = lake.run(model)
    assert (outcome.mode, lake.actions(outcome), lake.rows(model)) == ("incremental", (0, 1, 0), [(0, 2), (1, 31)])
    lake.spark.sql(f"alter table {source} drop column w")
    lake.spark.sql(f"alter table {source} add column w int")
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason, lake.rows(model)) == ("full", "QUERY_CHANGED", [(0, None), (1, None)])
    lake.load("s", [(1, 1), (2, None), (3, 3)], "id int, w int")
    assert lake.run(model).mode == "incremental"
    assert lake.rows(model) == [(0, None), (1, 4)]
    assert lake.broken(model) == []


@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_a_key_takes_another_type_where_no_row_is_there_or_the_model_is_started_over(
    lake: Warehouse, merge: str
) -> None:
    def keyed_by(kind: str) -> Model:
        return lake.model("m", f"select cast(id as {kind}) as id, v from {{s}}", primary_key="id", merge=merge)

    down = lake.model("down", "select id, v from {m}", primary_key="id")
    lake.load("s", [(1, 1), (2, 2)], "id int, v int")
    lake.run(keyed_by("string"), schema_only=True)
    assert lake.rows(keyed_by("string")) == []
    assert lake.actions(lake.run(keyed_by("int"))) == (2, 0, 0)
    lake.run(down)
    for full_refresh in (False, True):
        with pytest.raises(ConfigError, match="cast it in the query, or delete the tables with `arctic reset m --yes`"):
            lake.run(keyed_by("string"), full_refresh=full_refresh)
    assert lake.rows(keyed_by("int")) == [(1, 1), (2, 2)]
    gone = reset_model(lake.session_of(keyed_by("string")))
    assert gone[-1].name == keyed_by("int").table.changes
    assert {dropped.kind for dropped in gone} == ({"table", "view"} if merge == "on_read" else {"table"})
    assert (reset_model(lake.session_of(keyed_by("int"))), lake.state(keyed_by("int"))) == ((), TableState())
    lake.run(keyed_by("bigint"))
    outcome = lake.run(down)
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("full", "SOURCE_REPLACED", (0, 0, 0))
    for model in (keyed_by("bigint"), down):
        assert lake.broken(model) == []
