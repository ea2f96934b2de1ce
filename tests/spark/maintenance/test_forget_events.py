"""Forgetting in models of change events whose rows follow from several events, or keep every version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import DataError
from tests.spark.maintenance.test_forget import EVENTS, ORDERS, forgetting, parts, values
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

PAYMENTS = "id int, how string, paid int, at bigint"
RESETS = "at bigint"
EXTRAS = "region string, name string, lsn bigint"


def customers(lake: Warehouse, **config: Any) -> Model:
    query = "select id, name, region, v, op, lsn from {changes(customer_events)}"
    events = {"input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'", "exclude_columns": ["op"]}
    return lake.model("customers", query, primary_key="id", compaction="off", **{**events, **config})


def following(lake: Warehouse, name: str, sql: str, **config: Any) -> Model:
    """A model of change events."""
    return lake.model(name, sql, input="changes", compaction="off", **config)


def wide(lake: Warehouse) -> Model:
    """Rows of which customers bring some columns, and payments others."""
    sql = (
        "select id, name, lsn as customer_at, cast(null as string) as how, cast(null as int) as paid, "
        "cast(null as bigint) as paid_at "
        "from {changes(customers)} union all select id, null, null, how, paid, at from {changes(payments)}"
    )
    flows = {"customer_at": ["name"], "paid_at": ["how"]}
    return following(lake, "wide", sql, primary_key="id", sequence_by=flows, merge_columns={"paid": "sum"})


def best(lake: Warehouse, source: str = "customers") -> Model:
    """The greatest value of each region, the sum of all, and the name that came last."""
    sql = "select region, v as high, v as total, name, lsn from {changes(" + source + ")}"
    functions = {"high": "max", "total": "sum"}
    return following(lake, "best", sql, primary_key="region", sequence_by="lsn", merge_columns=functions)


def story(lake: Warehouse) -> Model:
    """Every change of customers; a reset empties the table."""
    sql = (
        "select id, name, lsn, _action as what from {changes(customers)} "
        "union all select null, null, at, 'reset' from {changes(resets)}"
    )
    config: dict[str, Any] = {"keep": "all", "delete_when": "what = 'delete'", "truncate_when": "what = 'reset'"}
    return following(lake, "story", sql, primary_key="id", sequence_by="lsn", exclude_columns=["what"], **config)


def versions(lake: Warehouse, name: str = "versions", source: str = "customers", **config: Any) -> Model:
    sql = "select id, name, lsn, _action as what from {changes(" + source + ")}"
    deleted = {"delete_when": "what = 'delete'", "exclude_columns": ["what", "lsn"]}
    return following(lake, name, sql, primary_key="id", sequence_by="lsn", history="scd2", **deleted, **config)


@pytest.mark.slow
def test_rows_made_of_several_events_are_what_the_others_leave(lake: Warehouse) -> None:
    """Partial rows, merge functions that can't take back, all changes with truncations, and bitemporal versions.

    Beside them a model adds up by aggregate state, and one appends events without a key.
    """
    root, contracts = customers(lake), versions(lake, "contracts", valid_time="lsn")
    seen = following(lake, "seen", "select id, lsn from {changes(customers)} where id < 3", primary_key="none")
    sql = "select region, count(*) as n, sum(v) as v from {customers} group by region"
    added = lake.model("added", sql, primary_key="region", compaction="off", refresh="strict")
    models = (root, wide(lake), best(lake), story(lake), contracts, added)
    lake.append("customer_events", [(i, f"name{i}", ("eu", "us")[i % 2], i, "c", i) for i in range(1, 5)], EVENTS)
    lake.append("payments", [(1, "card", 7, 50), (3, "cash", 5, 51)], PAYMENTS)
    lake.append("resets", [(10,)], RESETS)
    for model in models:
        lake.run(model)
    lake.append("customer_events", [(3, "SECRET3", "us", 30, "u", 103), (2, "name2b", "eu", 2, "u", 102)], EVENTS)
    for model in (*models, seen):
        lake.run(model)
    made = {model.table.name: lake.rows(model) for model in models}
    assert [row[:3] for row in made["best"]] == [("eu", 4, 6), ("us", 30, 31)]
    assert [row[0] for row in made["story"]] == [2, 3]
    assert lake.state(added).aggregate_state is not None
    certificate = forgetting(lake, root, (*models, seen), keys=("3",)).run_forget()
    assert certificate.is_clean, certificate
    assert not values(lake, *parts(*models)) & {"SECRET3", "name3"}
    assert lake.rows(root) == [row for row in made["customers"] if row[0] != 3]
    left = [row for row in made["wide"] if row[0] != 3]
    assert lake.rows(models[1]) == sorted([*left, (3, None, None, "cash", 5, 51)], key=repr)
    assert lake.rows(models[2]) == [("eu", 4, 6, "name2b", 102), ("us", 1, 1, "name1", 1)]
    assert lake.rows(models[3]) == [(2, "name2b", 102)]
    assert lake.rows(contracts) == [row for row in made["contracts"] if row[0] != 3]
    assert lake.rows(added) == [("eu", 2, 6), ("us", 1, 1)]
    lake.append("customer_events", [(1, "name1b", "us", 9, "u", 300)], EVENTS)
    for model in (*models, seen):
        assert lake.run(model).mode == "incremental"
        assert lake.broken(model) == []
    assert lake.rows(models[2])[1] == ("us", 9, 9, "name1b", 300)
    assert lake.rows(seen) == [(1, 1), (1, 300), (2, 102), (2, 2)]


@pytest.mark.in_turn
def test_rows_of_another_flow_keep_their_history(lake: Warehouse) -> None:
    """One flow of a union is forgotten in part; the other one was truncated, and is again while it is forgotten."""
    root, flows = customers(lake), both_flows(lake)
    models = (root, flows)
    lake.append("customer_events", [(i, f"name{i}", "eu", i, "c", i) for i in (1, 2)], EVENTS)
    lake.append("payments", [(i, "card", 7, 10 + i) for i in (101, 102, 103)], PAYMENTS)
    lake.append("payments", [(101, "gone", 7, 200), (2, "cash", 7, 201)], PAYMENTS)
    for model in models:
        lake.run(model)
    logged = [row for row in lake.log(flows) if row["id"] != 2]
    lake.append("payments", [(102, "gone", 7, 300)], PAYMENTS)
    (root_plan, plan) = forgetting(lake, root, models, keys=("2",)).plan_forget().tables
    assert (root_plan.keys, root_plan.change_rows, plan.keys, plan.change_rows) == (1, 1, 1, 1)

    def let_another_be_gone(line: str) -> None:
        if line.endswith("delete the rows"):
            lake.append("payments", [(103, "gone", 7, 400)], PAYMENTS)

    certificate = replace(forgetting(lake, root, models, keys=("2",)), tell=let_another_be_gone).run_forget()
    assert certificate.is_clean, certificate
    assert [(table.table.name, table.keys) for table in certificate.tables] == [("customers", 1), ("flows", 1)]
    kept = [row for row in lake.log(flows) if row["id"] != 2]
    assert kept[: len(logged)] == logged
    assert [(row["id"], row["_action"]) for row in kept[len(logged) :]] == [(102, "delete"), (103, "delete")]
    assert [row[0] for row in lake.rows(flows)] == [1, 2]
    assert lake.broken(flows) == []


def both_flows(lake: Warehouse) -> Model:
    """Rows of customers and of payments; one of the latter may be gone."""
    sql = (
        "select id, name, lsn, _action as what from {changes(customers)} "
        "union all select id, how, at, how from {changes(payments)}"
    )
    config: dict[str, Any] = {"delete_when": "what in ('delete', 'gone')", "exclude_columns": ["what"]}
    return following(lake, "flows", sql, primary_key="id", sequence_by="lsn", **config)


@pytest.mark.slow
def test_rows_that_are_still_there_reach_models_of_their_changes_as_they_are_now(lake: Warehouse) -> None:
    """Orders lose the name of their customer; what is made of their changes follows, and a later run in full agrees."""
    root = customers(lake)
    orders = following(
        lake,
        "orders",
        "select id, customer, amount, lsn from {changes(order_events)}",
        primary_key="id",
        sequence_by="lsn",
    )
    named = lake.model(
        "named",
        "select o.id, o.amount as v, o.lsn, c.name, coalesce(c.region, 'none') as region "
        "from {orders} o left join {customers} c on o.customer = c.id",
        primary_key="id",
        compaction="off",
    )
    tracked = versions(lake, "told", "named", track=["name"])
    spoken = versions(lake, "spoken", "named", valid_time="lsn")
    newest = following(
        lake, "newest", "select region, name, lsn from {changes(named)}", primary_key="region", on_match="update"
    )
    models = (root, orders, named, best(lake, "named"), tracked, spoken, newest)
    lake.append("customer_events", [(i, f"name{i}", ("eu", "us")[i % 2], i, "c", i) for i in range(4)], EVENTS)
    lake.append("order_events", [(i, i % 4, 100 + i, "c", i) for i in range(8)], ORDERS)
    for model in models:
        lake.run(model)
    lake.append("order_events", [(3, 3, 500, "u", 20), (5, 1, 600, "u", 21)], ORDERS)
    for model in models:
        lake.run(model)
    certificate = forgetting(lake, root, models, keys=("3",)).run_forget()
    assert certificate.is_clean, certificate
    assert [table.table.name for table in certificate.tables] == [
        "customers",
        "named",
        "best",
        "newest",
        "spoken",
        "told",
    ]
    assert "name3" not in values(lake, *parts(*models))
    rows = {model.table.name: lake.rows(model) for model in models}
    assert [row[:3] for row in rows["best"]] == [("eu", 106, 412), ("none", 500, 607), ("us", 600, 701)]
    assert [row for row in rows["named"] if row[0] in (3, 7)] == [(3, 500, 20, None, "none"), (7, 107, 7, None, "none")]
    assert [row[:2] for row in rows["told"] if row[0] in (3, 7)] == [(3, None), (7, None)]
    assert [row[:2] for row in rows["spoken"] if row[0] in (3, 7)] == [(3, None), (7, None)]
    lake.append("order_events", [(7, 3, 700, "u", 30)], ORDERS)
    for model in models:
        assert lake.run(model).mode in ("incremental", "unchanged")
        assert lake.broken(model) == []
    full = lake.rows(models[3])
    lake.run(models[3], full_refresh=True)
    assert lake.rows(models[3]) == full


@pytest.mark.slow
def test_what_cannot_be_computed_without_forgotten_events_is_refused_before_anything_is_done(lake: Warehouse) -> None:
    """Bitemporal versions of rows that other events made as well; rows of events that were deleted."""
    root = customers(lake)
    sql = "select region, name, lsn from {changes(customers)}"
    keyed: dict[str, Any] = {"primary_key": "region", "sequence_by": "lsn"}
    regions = following(lake, "regions", sql, **keyed, history="scd2", valid_time="lsn")
    united = f"{sql} union all select region, name, lsn from {{changes(extras)}}"
    newest = following(lake, "newest", united, **keyed, on_match="update")
    models = (root, regions, newest)
    lake.append("customer_events", [(i, f"name{i}", ("eu", "us")[i % 2], i, "c", i) for i in range(4)], EVENTS)
    lake.append("extras", [("us", "extra", 90)], EXTRAS)
    lake.append("extras", [("eu", "extra", 91)], EXTRAS)
    for model in models:
        lake.run(model)
    lake.spark.sql(f"delete from {lake.sql_name('extras')} where lsn = 90")
    lake.run(newest)
    before = {model.table.name: lake.head(model) for model in models}
    for refusing, why in ((regions, "can't be recorded once more"), (newest, "extras no longer keeps all rows")):
        with pytest.raises(DataError, match=why):
            forgetting(lake, root, (root, refusing), keys=("3",)).run_forget()
        assert {model.table.name: lake.head(model) for model in models} == before
        assert not [table for table in lake.reader.list_tables(lake.namespace) if table.endswith("__forget")]


@pytest.mark.slow
def test_rows_are_forgotten_one_after_the_other_and_late_events_still_count(lake: Warehouse) -> None:
    """That change rows of forgotten keys are gone keeps nobody from computing rows from the others."""
    root, totals, names = customers(lake), best(lake), versions(lake)
    models = (root, totals, names)
    lake.append("customer_events", [(i, f"name{i}", ("eu", "us")[i % 2], i, "c", i) for i in range(6)], EVENTS)
    for model in models:
        lake.run(model)
    for key in ("5", "4"):
        assert forgetting(lake, root, models, keys=(key,)).run_forget().is_clean
    assert not values(lake, *parts(*models)) & {"name4", "name5"}
    assert [row[:4] for row in lake.rows(totals)] == [("eu", 2, 2, "name2"), ("us", 3, 4, "name3")]
    lake.append("customer_events", [(6, "name6", "eu", 9, "c", 60)], EVENTS)
    lake.append("customer_events", [(7, "name7", "us", 9, "c", 2)], EVENTS)
    for model in models:
        lake.run(model)
        assert lake.broken(model) == []
    assert [row[:4] for row in lake.rows(totals)] == [("eu", 9, 11, "name6"), ("us", 9, 13, "name3")]
    kept = lake.rows(names)
    assert lake.actions(lake.run(names, full_refresh=True)) == (0, 0, 0)
    assert lake.rows(names) == kept


@pytest.mark.slow
def test_a_table_of_any_kind_of_events_forgets_its_own_rows(lake: Warehouse) -> None:
    """A later event of a forgotten key begins a row of its own."""
    sql = "select id, name, v, lsn, op from {changes(customer_events)}"
    ordered: dict[str, Any] = {"primary_key": "id", "sequence_by": "lsn", "exclude_columns": ["op"]}
    both = (
        "select id, name, lsn as customer_at, cast(null as string) as how, cast(null as int) as paid, "
        "cast(null as bigint) as paid_at "
        "from {changes(customer_events)} union all select id, null, null, how, paid, at from {changes(payments)}"
    )
    flows = {"customer_at": ["name"], "paid_at": ["how"]}
    models = (
        following(lake, "summed", sql, **ordered, merge_columns={"v": "sum"}),
        following(lake, "added", sql, **ordered, merge_columns={"v": "old.v + new.v"}, on_match="update"),
        following(lake, "all_changes", sql, **ordered, keep="all", truncate_when="op = 't'"),
        following(lake, "contracts", sql, **ordered, history="scd2", valid_time="lsn"),
        following(lake, "partial", both, primary_key="id", sequence_by=flows, merge_columns={"paid": "sum"}),
    )
    lake.append("customer_events", [(9, "SECRET9", "eu", 9, "c", 0), (None, None, None, None, "t", 1)], EVENTS)
    lake.append("payments", [(2, "card", 7, 50), (3, "cash", 5, 51)], PAYMENTS)
    for model in models[2:3]:
        lake.run(model)
    lake.spark.sql(f"delete from {lake.sql_name('customer_events')} where lsn < 2")
    for number in range(2):
        rows = [(i, f"{('name', 'SECRET')[i == 3]}{i}{number}", "eu", i, "c", 10 * number + i) for i in (2, 3)]
        lake.append("customer_events", rows, EVENTS)
        for model in models:
            lake.run(model)
    for model in models:
        before = lake.rows(model)
        keys = ("3", "9") if model.table.name == "all_changes" else ("3",)
        certificate = forgetting(lake, model, (model,), keys=keys).run_forget()
        assert certificate.is_clean, certificate
        assert not {value for value in values(lake, *parts(model)) if str(value).startswith("SECRET")}
        assert lake.rows(model) == [row for row in before if row[0] != 3]
        assert lake.broken(model) == []
    lake.append("customer_events", [(3, "again", "eu", 1, "c", 70)], EVENTS)
    for model in models:
        lake.run(model)
        assert lake.broken(model) == []
        assert [row[1] for row in lake.rows(model) if row[0] == 3] == ["again"]
    assert lake.rows(models[0])[1] == (3, "again", 1, 70)
