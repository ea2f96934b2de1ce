"""Restoring: a table is what it was, its readers see what differs, and everything goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from tests.spark.tables.test_commits import once_before
from tests.spark.warehouse import Warehouse, refuse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = "id int, v string, lsn bigint, op string"


def events_model(lake: Warehouse, **config: Any) -> Model:
    sql = "select id, v, lsn, op from {changes(events)}"
    declared = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'"}
    return lake.model("m", sql, exclude_columns=["op", "lsn"], **declared, **config)


def counted(lake: Warehouse, below: Model) -> Model:
    """A table over the restored one."""
    return lake.model(
        "n", f"select v, count(*) as n from {lake.sql_name(below.table.name)} group by v", primary_key="v"
    )


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_events_that_were_undone_do_not_come_again(lake: Warehouse, merge: str) -> None:
    model = events_model(lake, merge=merge)
    above = counted(lake, model)
    lake.append("events", [(1, "a", 1, "c"), (2, "b", 2, "c"), (3, "c", 3, "c")], EVENTS)
    lake.run(model)
    good = lake.head(model)
    lake.append("events", [(1, "bad", 4, "u"), (2, "b", 5, "d"), (9, "bad", 6, "c")], EVENTS)
    lake.run(model)
    lake.run(above)
    bad = lake.head(model)
    assert restore_version(lake.session_of(model), good) == {"insert": 1, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == [(1, "a"), (2, "b"), (3, "c")]
    assert lake.run(model, refuse).mode == "unchanged"
    followed = lake.run(above)
    assert (followed.mode, lake.actions(followed)) == ("incremental", (2, 0, 1))
    assert lake.broken(above) == []
    lake.append("events", [(2, "later", 7, "u")], EVENTS)
    assert lake.actions(lake.run(model)) == (0, 1, 0)
    assert lake.rows(model) == [(1, "a"), (2, "later"), (3, "c")]
    assert lake.broken(model) == []
    assert lake.left_out(model) == [f"the query gives the table: it was restored to version {good}"]
    restore_version(lake.session_of(model), bad)
    assert lake.rows(model) == [(1, "bad"), (3, "c"), (9, "bad")]
    lake.run(model, full_refresh=True)
    assert lake.rows(model) == [(1, "bad"), (2, "later"), (3, "c"), (9, "bad")]
    assert lake.left_out(model) == []
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_query_is_followed_again_from_what_it_had_read(lake: Warehouse) -> None:
    source = lake.model("up", "select * from {s}", primary_key="id")
    lake.load("s", [(1, "a"), (2, "b")], "id int, v string")
    lake.run(source)
    model = lake.model("m", "select id, upper(v) as v from {up}", primary_key="id")
    lake.run(model)
    good = lake.head(model)
    lake.load("s", [(1, "bad"), (3, "c")], "id int, v string")
    lake.run(source)
    lake.run(model)
    assert restore_version(lake.session_of(model), good) == {"insert": 1, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == [(1, "A"), (2, "B")]
    outcome = lake.run(model)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (1, 1, 1))
    assert lake.rows(model) == [(1, "BAD"), (3, "C")]
    assert lake.broken(model) == []


@pytest.mark.slow
def test_a_version_with_other_columns_is_restored_as_the_table_is_now(lake: Warehouse) -> None:
    lake.load("s", [(1, "a"), (2, "b")], "id int, v string")
    narrow = lake.model("m", "select * from {s}", primary_key="id")
    lake.run(narrow)
    good = lake.head(narrow)
    wide = lake.model("m", "select id, v, 7 as more from {s}", primary_key="id")
    lake.run(wide)
    restore_version(lake.session_of(wide), good)
    assert lake.rows(wide) == [(1, "a", None), (2, "b", None)]
    lake.run(wide)
    assert lake.rows(wide) == [(1, "a", 7), (2, "b", 7)]
    assert lake.broken(wide) == []


@pytest.mark.slow
def test_a_run_that_comes_first_is_restored_as_well(lake: Warehouse) -> None:
    model = events_model(lake)
    lake.append("events", [(1, "a", 1, "c")], EVENTS)
    lake.run(model)
    good = lake.head(model)
    lake.append("events", [(1, "bad", 2, "u")], EVENTS)
    lake.run(model)
    lake.append("events", [(2, "worse", 3, "c")], EVENTS)
    session = lake.environment.new_session()
    with once_before("commit.publish", lambda: lake.run(model, lambda: session)):
        assert restore_version(lake.session_of(model), good) == {"insert": 0, "update": 1, "delete": 1, "upsert": 0}
    assert lake.rows(model) == [(1, "a")]
    assert lake.branches(model) == set()
    assert lake.broken(model) == []


def test_a_version_that_is_not_kept_is_named(lake: Warehouse) -> None:
    model = events_model(lake)
    with pytest.raises(ConfigError, match="has no version 5"):
        restore_version(lake.session_of(model), 5)
    lake.append("events", [(1, "a", 1, "c")], EVENTS)
    lake.run(model)
    with pytest.raises(ConfigError, match=r"has no version 5, or .*\n  what to do: `arctic history m`"):
        restore_version(lake.session_of(model), 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["date", "timestamp_ntz"])
def test_tables_ordered_by_days_or_by_clocks_are_restored_and_declared(lake: Warehouse, kind: str) -> None:
    sql = f"select id, v, cast(v as {kind}) as at from {{changes(events)}}"
    model = lake.model("m", sql, primary_key="id", input="changes", sequence_by="at")
    lake.append("events", [(1, "1960-01-02"), (2, "1960-01-02")], "id int, v string")
    lake.run(model)
    good = lake.head(model)
    lake.append("events", [(1, "1960-01-05"), (3, "1960-01-03")], "id int, v string")
    lake.run(model)
    counts = restore_version(lake.session_of(model), good)
    assert (counts["insert"], counts["update"], counts["delete"]) == (0, 1, 1)
    lake.append("events", [(1, "1960-01-04"), (2, "1960-01-03"), (3, "1960-01-03")], "id int, v string")
    lake.run(model)
    assert [row[:2] for row in lake.rows(model)] == [(1, "1960-01-02"), (2, "1960-01-03"), (3, "1960-01-03")]
    lake.spark.sql(f"create table {lake.sql_name('extract')} as select 2 as id, 'x' as v, cast(null as {kind}) as at")
    counts = overwrite_with_source(lake.refresh_of(model), lake.table("extract"), "1960-01-06")
    assert (counts["insert"], counts["update"], counts["delete"]) == (0, 1, 2)
    assert [row[:2] for row in lake.rows(model)] == [(2, "x")]
    assert lake.broken(model) == []
