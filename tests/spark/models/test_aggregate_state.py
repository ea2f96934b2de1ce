"""Sums and counts that are added to: exact after every batch, and after a death at any place."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from pyspark.sql import DataFrame

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.properties import KIND, RUN
from arctic_runtime.model.run_summary import find_last_run
from arctic_runtime.model.shape import ChangeSet
from arctic_runtime.model.table import Model
from arctic_runtime.spark.refresh import aggregate_state as totals
from arctic_runtime.spark.refresh import images
from arctic_runtime.spark.refresh import run as runs
from arctic_runtime.spark.tables.append import publish_changes
from arctic_runtime.spark.tables.context import Appended, Context
from arctic_runtime.spark.tables.rows.frames import read_table, to_column
from tests.spark.warehouse import Warehouse

AMOUNTS = (None, Decimal(0), Decimal(1), Decimal("7.25"), Decimal(-3))
SALES = "id int, shop string, amount decimal(15,2), items bigint, weight double"

ONE_GROUP_SHOWN = "having sum(amount) > 146"
"""Holds for one shop of the rows that land first and for one after the first batch, of three and four shops."""

QUERIES: dict[str, tuple[str | list[str], str]] = {
    "sums": (
        "shop",
        "select shop, count(*) as n, count(amount) as known, sum(amount) as amount, sum(items) as items "
        "from {sales} where shop is not null group by shop",
    ),
    "means": (
        ["shop", "kind"],
        "select shop, items % 2 = 0 as kind, avg(amount) as mean, count_if(amount > 5) as dear from {sales} "
        "where shop is not null and items is not null group by shop, items % 2 = 0",
    ),
    "having": (
        "shop",
        "select coalesce(shop, '-') as shop, sum(items) as items from {sales} group by coalesce(shop, '-') "
        "having sum(amount) > 10",
    ),
    "extremes": (
        "shop",
        "select shop, min(amount) as least, max(amount) filter (where items > 2) as most, max(items) as items, "
        "min(cast(items as smallint)) as few, count(*) as n from {sales} where shop is not null group by shop",
    ),
    "best": (
        "shop",
        "with shops as (select shop, sum(items) as items from {sales} where shop is not null group by shop) "
        "select shop, items from shops where items = (select max(items) from shops)",
    ),
    "ranks": (
        "shop",
        "select shop, sum(items) / sum(sum(items)) over () as part, rank() over (order by count(*), sum(items)) as "
        "place from {sales} where shop is not null group by shop",
    ),
    "rollup": (
        ["level", "shop", "kind"],
        "select grouping_id() as level, coalesce(shop, '-') as shop, coalesce(items % 2, -1) as kind, count(*) as n, "
        "sum(amount) as amount, max(items) as most from {sales} group by rollup(shop, items % 2)",
    ),
    "the greatest": (
        "shop",
        "select shop, sum(items) as items from {sales} where shop is not null group by shop order by items desc, shop "
        "limit 2",
    ),
    "one row": (
        [],
        "select count(*) as n, sum(amount) as amount, avg(amount) as mean, min(amount) as least, max(shop) as last "
        "from {sales} where items > 3",
    ),
}


SLOW = ("best", "sums", "means", "having", "ranks", "rollup", "the greatest")


def landed(lake: Warehouse) -> Model:
    lake.append(
        "landed",
        [(n, "abc"[n % 3], Decimal(n), n % 7, n / 4, "c", n) for n in range(30)],
        f"{SALES}, op string, lsn int",
    )
    return lake.model(
        "sales",
        "select * from {changes(landed)}",
        primary_key="id",
        input="changes",
        sequence_by="lsn",
        delete_when="op = 'd'",
        exclude_columns=["op", "lsn"],
    )


def batch(lake: Warehouse, seed: int) -> None:
    """Inserts, updates that move rows between shops, and deletes; shop 'c' is emptied by every third batch."""
    chance = random.Random(seed)
    rows: list[tuple[Any, ...]] = []
    for place, key in enumerate(chance.sample(range(60), 12)):
        shop, amount, items = chance.choice("abd") or None, chance.choice(AMOUNTS), chance.randrange(9)
        shown = None if chance.random() < 0.2 else shop
        rows.append((key, shown, amount, items, 0.5, "d" if chance.random() < 0.3 else "u", 100 * seed + place))
    if seed % 3 == 0:
        rows += [(key, "b", Decimal(2), 2, 0.5, "u", 100 * seed + 50 + key) for key in range(2, 30, 3)]
    lake.append("landed", rows, f"{SALES}, op string, lsn int")


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "kind",
    ["extremes", "one row", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)],
)
def test_aggregate_state_that_is_added_to_stays_that_of_the_query(lake: Warehouse, kind: str) -> None:
    if kind == "extremes":
        lake = lake.under(incremental={"compared_groups": 0})
    key, sql = QUERIES[kind]
    sales, model = landed(lake), lake.model("kept", sql, primary_key=key, refresh="strict")
    lake.run(sales)
    lake.run(model)
    assert lake.state(model).aggregate_state is None
    for seed in (1, 2, 3):
        batch(lake, seed)
        lake.run(sales)
        assert lake.run(model).mode == "incremental"
        state = lake.state(model)
        assert state.aggregate_state is not None
        # The run that makes totals computes everything, which tells nothing of what following changes takes.
        last = find_last_run(state.changes)
        assert (last is not None and last.estimated is not None) == (seed > 1)
    # Totals that one batch leaves wrong stay so in the next ones.
    assert lake.broken(model) == []


@pytest.mark.slow
def test_more_groups_than_the_driver_takes(lake: Warehouse) -> None:
    """The result stays within the limit, so the state is still planned; the changed groups exceed it."""
    query = f"{QUERIES['extremes'][1]} {ONE_GROUP_SHOWN}"
    sales, model = landed(lake), lake.model("kept", query, primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    for seed in (1, 2, 3):
        batch(lake, seed)
        lake.run(sales)
        assert lake.run(model).mode == "incremental"
        assert lake.state(model).aggregate_state is not None
        assert lake.broken(model) == []
        lake = lake.under(incremental={"state_groups": 1})


@pytest.mark.slow
def test_aggregate_state_of_too_many_groups_is_not_kept_and_not_tried_again(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result stays within the limit, so the state is planned; its groups exceed it."""
    lake = lake.under(incremental={"state_groups": 1})
    query = f"select shop, sum(items) as items from {{sales}} where shop is not null group by shop {ONE_GROUP_SHOWN}"
    sales, model = landed(lake), lake.model("kept", query, primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    computed = counted(monkeypatch, "_compute_state")
    for seed, times in ((1, 1), (2, 1)):
        batch(lake, seed)
        lake.run(sales)
        assert lake.run(model).mode == "incremental"
        state = lake.state(model)
        assert state.aggregate_state is None
        last = find_last_run(state.changes)
        assert last is not None
        assert last.no_aggregate_state is not None
        assert len(computed) == times
        assert lake.broken(model) == []
    lake.run(model, full_refresh=True)
    last = find_last_run(lake.state(model).changes)
    assert last is not None
    assert last.no_aggregate_state is None


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Gains an element each time that a function of the totals' module is called."""
    calls: list[str] = []
    function = getattr(totals, name)

    def called(*args: Any) -> Any:
        calls.append(name)
        return function(*args)

    monkeypatch.setattr(totals, name, called)
    return calls


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", [pytest.param("sums", marks=pytest.mark.slow), "extremes"])
def test_what_has_moved_is_computed_once(lake: Warehouse, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    sales, model = landed(lake), lake.model("kept", QUERIES[kind][1], primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    batch(lake, 1)
    lake.run(sales)
    lake.run(model)
    batch(lake, 2)
    lake.run(sales)
    plans: list[str] = []

    def written(changes: ChangeSet, context: Context, overtaken: Callable[[DataFrame], Appended | None]) -> Appended:
        with redirect_stdout(StringIO()) as plan:
            changes.rows.explain()
        plans.append(plan.getvalue())
        return publish_changes(changes, context, overtaken)

    monkeypatch.setattr(runs, "publish_changes", written)
    lake.run(model)
    assert ["kept__totals" in plan for plan in plans] == [True]
    assert ["sales" in plan for plan in plans] == [False]
    assert lake.broken(model) == []


@pytest.mark.slow
def test_the_sources_are_read_only_where_an_extreme_went(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    sales, model = landed(lake), lake.model("kept", QUERIES["extremes"][1], primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    batch(lake, 1)
    lake.run(sales)
    lake.run(model)
    for place, (action, is_read) in enumerate((("u", False), ("u", False), ("d", True))):
        lake.append("landed", [(70, "a", Decimal(1000), 9, 0.5, action, 900 + place)], f"{SALES}, op string, lsn int")
        lake.append("landed", [(71 + place, "b", None, 3, 0.5, "u", 900)], f"{SALES}, op string, lsn int")
        lake.run(sales)
        with monkeypatch.context() as patched:
            patched.setattr(images, "read_rows_at", _dies)
            with pytest.raises(KeyboardInterrupt) if is_read else nullcontext():
                lake.run(model)
        lake.run(model)
        assert lake.broken(model) == []
    assert lake.state(model).aggregate_state is not None


@pytest.mark.slow
def test_what_groups_are_of_and_what_they_are_asked_for_may_be_columns_of_one_table(lake: Warehouse) -> None:
    lake.append(
        "shops", [("a", "n", "s"), ("b", "s", "n"), ("d", "s", None)], "shop string, region string, near string"
    )
    sql = (
        "select region, most from (select p.region, max(s.amount) as most from {sales} s join {shops} p "
        "on p.shop = s.shop group by p.region) g where exists (select 1 from {shops} o where o.near = g.region)"
    )
    sales, model = landed(lake), lake.model("kept", sql, primary_key="region", refresh="strict")
    lake.run(sales)
    lake.run(model)
    for place, action in enumerate("uud"):
        lake.append("landed", [(70, "a", Decimal(1000), 9, 0.5, action, 100 + place)], f"{SALES}, op string, lsn int")
        batch(lake, place + 2)
        lake.run(sales)
        lake.run(model)
        assert lake.state(model).aggregate_state is not None
        assert lake.broken(model) == []


@pytest.mark.slow
@pytest.mark.parametrize("is_behind", [False, True])
def test_wrong_aggregate_state_is_found(lake: Warehouse, is_behind: bool) -> None:
    sales, model = landed(lake), lake.model("kept", QUERIES["extremes"][1], primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    batch(lake, 1)
    lake.run(sales)
    lake.run(model)
    if is_behind:
        batch(lake, 2)
        lake.run(sales)
    assert lake.broken(model) == []
    spoil_totals(lake, model)
    (broken,) = lake.broken(model)
    assert broken.startswith("the totals are those of the rows that were read")
    assert "computed" in broken
    assert "kept" in broken


def spoil_totals(lake: Warehouse, model: Model) -> None:
    """Puts others, with one row more in each group, in the place of the newest run's totals, as if it had kept them."""
    state = lake.state(model)
    last = find_last_run(state.changes)
    assert state.aggregate_state is not None
    assert last is not None
    kept = read_table(lake.spark, model.table.totals, state.aggregate_state)
    spoiled = lake.spark.createDataFrame(kept.withColumn("total_1", to_column("total_1") + 1).collect(), kept.schema)
    lake.reader.catalog.drop_table((lake.namespace, "kept__totals"))
    writer = spoiled.writeTo(lake.sql_name("kept__totals")).tableProperty("format-version", "3")
    writer.tableProperty(KIND, "totals").option(f"snapshot-property.{RUN}", last[RUN]).create()


@pytest.mark.slow
def test_sums_of_floats_are_not_added_to(lake: Warehouse) -> None:
    sales = landed(lake)
    sql = "select shop, sum(weight) as weight from {sales} where shop is not null group by shop"
    model = lake.model("kept", sql, primary_key="shop", refresh="incremental")
    lake.run(sales)
    lake.run(model)
    batch(lake, 1)
    lake.run(sales)
    assert lake.run(model).mode == "incremental"
    assert lake.state(model).aggregate_state is None
    assert lake.broken(model) == []


@pytest.mark.slow
def test_two_groups_of_one_key_are_noticed_if_aggregate_state_is_added_to(lake: Warehouse) -> None:
    sales = landed(lake)
    lake.run(sales)
    sql = "select coalesce(shop, '-') as shop, sum(items) as items from {sales} group by shop"
    model = lake.model("shops", sql, primary_key="shop", refresh="strict")
    lake.run(model)
    for place, shop in enumerate((None, "-")):
        row = (50 + place, shop, Decimal(1), 1, 0.5, "u", 100 + place)
        lake.append("landed", [row], f"{SALES}, op string, lsn int")
        lake.run(sales)
        with pytest.raises(DataError, match="shop") if shop else nullcontext():
            assert lake.run(model).mode == "incremental"


@pytest.mark.slow
def test_aggregate_state_of_a_run_that_died_is_ignored(lake: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    sales = landed(lake)
    model = lake.model("kept", QUERIES["sums"][1], primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    for seed in (1, 2):
        batch(lake, seed)
        lake.run(sales)
        with monkeypatch.context() as patched:
            patched.setattr(runs, "publish_changes", _dies)
            with pytest.raises(KeyboardInterrupt):
                lake.run(model)
        batch(lake, seed + 10)
        lake.run(sales)
        lake.run(model)
        assert lake.broken(model) == []


def _dies(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_full_refresh_ends_the_aggregate_state_and_the_next_run_recreates_it(lake: Warehouse) -> None:
    sales = landed(lake)
    model = lake.model("kept", QUERIES["sums"][1], primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.run(model)
    for request in ({}, {"full_refresh": True}, {}, {}):
        batch(lake, 3 + len(request))
        lake.run(sales)
        lake.run(model, **request)
        assert (lake.state(model).aggregate_state is None) == bool(request)
        assert lake.broken(model) == []


def test_another_table_under_the_name_of_the_aggregate_state_is_left_alone(lake: Warehouse) -> None:
    sales = landed(lake)
    model = lake.model("kept", QUERIES["sums"][1], primary_key="shop", refresh="strict")
    lake.run(sales)
    lake.append("kept__totals", [(1,)], "id int")
    with pytest.raises(ConfigError, match="kept__totals"):
        lake.run(model)
    assert [row.id for row in lake.spark.table(lake.sql_name("kept__totals")).select(to_column("id")).collect()] == [1]
