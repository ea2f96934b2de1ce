"""After an edit of a query its new result is derived from the table, and only the differences are published."""

# ruff: noqa: E501

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from arctic_runtime.effects import set_failpoint
from arctic_runtime.errors import DataError
from arctic_runtime.model.properties import QUERY_TEXT
from arctic_runtime.model.table import Model
from arctic_runtime.operations.looking import describe_next_run
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.statement import quote_name
from tests.crash.dying import run_until
from tests.spark.warehouse import Warehouse, refuse, sorted_rows
from tests.unit.ivm.edits.edited import random_sources
from tests.unit.ivm.edits.random_edits import Written, random_edit, random_query
from tests.unit.ivm.edits.seeds import list_renames

SOURCES = {
    "orders": ("id bigint, customer int, amount int, state string, day string", "id"),
    "customers": ("customer int, name string, city string, country int", "customer"),
    "countries": ("country int, title string", "country"),
    "lines": ("id bigint, line int, price int", ["id", "line"]),
}
HEAP = "id bigint, amount int, customer int"
PAID = "select id, amount from {orders} where state = 'paid'"
JOIN = "select o.id, o.customer, c.name from {orders} o join {customers} c on c.customer = o.customer"
PARTS = "select id, 'order' as kind from {orders} union all select id, 'heap' as kind from {heap}"
TOTALS = "select customer, sum(amount) as total from {orders} group by customer"
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "orders": [(i, i % 4, i, "paid" if i % 3 else "open", "2024-01-01") for i in range(12)],
    "customers": [(i, f"name {i}", f"city {i}", i) for i in range(3)],
    "countries": [(i, f"title {i}") for i in range(2)],
    "lines": [(i, 1, i) for i in range(5)],
    "heap": [(i + 100, i, i) for i in range(3)],
}


def load(lake: Warehouse, rows: dict[str, list[tuple[Any, ...]]]) -> None:
    """Lands rows, which arctic models with keys follow."""
    for name, (columns, key) in SOURCES.items():
        lake.load(f"raw_{name}", rows[name], columns)
        lake.run(lake.model(name, f"select * from {{raw_{name}}}", primary_key=key))
    lake.load("heap", rows["heap"], HEAP)


def draw_rows(draw: Random) -> dict[str, list[tuple[Any, ...]]]:
    """Random rows; each order has a customer, which is the key of groups."""
    rows = random_sources(draw)
    return {**rows, "orders": [(row[0], row[1] or 0, *row[2:]) for row in rows["orders"]]}


def check(lake: Warehouse, model: Model) -> None:
    assert lake.rows(model) == sorted_rows(lake.spark.sql(model.sql))
    assert lake.broken(model) == []
    assert lake.run(model, session=refuse).mode == "unchanged"


def edited(lake: Warehouse, old: str, new: str, key: str = "id", **config: Any) -> tuple[int, int, int]:
    """Runs a model with an old query, then with the new one, which has to be an edit; returns its change rows."""
    load(lake, ROWS)
    lake.run(lake.model("m", old, primary_key=key, **config))
    model = lake.model("m", new, primary_key=key, **config)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("incremental", "EDITED"), outcome.because
    check(lake, model)
    return lake.actions(outcome)


EDITS: dict[str, tuple[str, str, tuple[int, int, int]]] = {
    "column": ("select id, amount from {orders}", "select id, amount, amount * 2 as twice from {orders}", (0, 12, 0)),
    "format": (PAID, "with o as (select * from {orders}) select o.id, o.amount /* ! */ from o where ('paid' = o.state)", (0, 0, 0)),
    "narrow": (PAID, f"{PAID} and amount > 4", (0, 0, 3)),
    "widen": (PAID, "select id, amount from {orders}", (4, 0, 0)),
    "join": ("select id, customer from {orders}", JOIN, (0, 9, 3)),
    "left join": ("select id, customer from {orders}", JOIN.replace("join", "left join"), (0, 9, 0)),
    "exists": (PAID, f"{PAID} and exists (select 1 from {{lines}} l where l.id = {{orders}}.id)", (0, 0, 5)),
    "not in": ("select id from {orders}", "select id from {orders} where not exists (select 1 from {lines} l where l.id = {orders}.id)", (0, 0, 5)),
    "part": ("select id, 'order' as kind from {orders}", PARTS, (3, 0, 0)),
    "no part": (PARTS, "select id, 'order' as kind from {orders}", (0, 0, 3)),
    "source column": (JOIN, JOIN.replace("c.name", "c.name, c.city, o.amount"), (0, 9, 0)),
    "combination": (PAID, "select o.id, amount, name, amount + 1 as next from {orders} o left join {customers} c on c.customer = o.customer where amount > 1", (3, 7, 1)),
}  # fmt: skip
QUICK_EDITS = ("column", "part", "combination")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind not in QUICK_EDITS else []) for kind in EDITS]
)
def test_an_edit_publishes_the_differences_alone(lake: Warehouse, kind: str) -> None:
    old, new, actions = EDITS[kind]
    assert edited(lake, old, new) == actions


def test_groups_are_filtered_without_their_rows(lake: Warehouse) -> None:
    assert edited(lake, TOTALS, f"{TOTALS} having sum(amount) > 15", key="customer") == (0, 0, 2)


def test_changes_of_the_sources_are_followed_in_the_run_of_the_edit(lake: Warehouse) -> None:
    load(lake, ROWS)
    lake.run(lake.model("m", PAID, primary_key="id"))
    load(lake, {**ROWS, "orders": [*ROWS["orders"][2:], (1, 1, 50, "paid", None), (40, 1, 9, "paid", None)]})
    model = lake.model("m", f"{PAID} and amount > 4", primary_key="id")
    assert "next run: incremental (EDITED: where amount > 4)" in "\n".join(
        describe_next_run(model, RefreshPlanner(model, lake.reader).explain_refresh())
    )
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("incremental", "EDITED", (2, 0, 3))
    check(lake, model)


def test_a_model_below_reads_what_the_edit_changed(lake: Warehouse) -> None:
    load(lake, ROWS)
    lake.run(lake.model("m", PAID, primary_key="id"))
    below = lake.model("below", "select id, amount from {m}", primary_key="id")
    lake.run(below)
    lake.run(lake.model("m", f"{PAID} and amount > 4", primary_key="id"))
    outcome = lake.run(below)
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("incremental", "CHANGES", (0, 0, 3))


@pytest.mark.parametrize("policy", ["append_new_columns", "sync_all_columns", "ignore"])
def test_columns_come_and_go_as_the_model_allows(lake: Warehouse, policy: str) -> None:
    load(lake, ROWS)
    config: dict[str, Any] = {"primary_key": "id", "on_schema_change": policy}
    lake.run(lake.model("m", "select id, amount, state, cast(customer as smallint) as c from {orders}", **config))
    new = "select id, c + 1 as d, amount as quantity, c from (select *, cast(customer as smallint) as c from {orders})"
    model = lake.model("m", new, **config, renamed_columns={"quantity": "amount"})
    assert lake.run(model).reason == "EDITED"
    kept = {"append_new_columns": "state", "sync_all_columns": "", "ignore": "state"}[policy]
    names = {"id", "quantity", "c", *({"d"} if policy != "ignore" else ()), *filter(None, (kept,))}
    table = lake.spark.table(lake.sql_name("m"))
    assert set(table.columns) == names
    assert lake.broken(model) == []
    both = [name for name in ("id", "quantity", "c", "d") if name in names]
    assert sorted_rows(table.select(*both)) == sorted_rows(lake.spark.sql(model.sql).select(*both))
    assert not kept or sorted_rows(table.select("id", "state")) == sorted(
        ((row[0], row[3]) for row in ROWS["orders"]), key=repr
    )


@pytest.mark.parametrize("merge", ["on_read", "on_write"])
def test_a_table_with_unmerged_changes_is_edited(lake: Warehouse, merge: str) -> None:
    load(lake, ROWS)
    lake.run(lake.model("m", PAID, primary_key="id", merge=merge))
    load(lake, {**ROWS, "orders": ROWS["orders"][3:]})
    lake.run(lake.model("m", PAID, primary_key="id", merge=merge))
    model = lake.model("m", f"{PAID} and amount > 4", primary_key="id", merge=merge)
    outcome = lake.run(model)
    assert (outcome.reason, lake.actions(outcome)) == ("EDITED", (0, 0, 1))
    check(lake, model)


def test_a_text_that_is_not_of_the_last_run_is_not_believed(lake: Warehouse) -> None:
    load(lake, ROWS)
    old = lake.model("m", PAID, primary_key="id")
    lake.run(old)
    lie = lake.model("m", "select id, amount from {orders} where amount > 4", primary_key="id")
    text = '{"sql": "' + lie.sql + '", "views": {}}'
    lake.spark.sql(f"alter table {lake.sql_name('m__changes')} set tblproperties ('{QUERY_TEXT}' = '{text}')")
    outcome = lake.run(lie)
    assert (outcome.mode, outcome.reason) == ("full", "QUERY_CHANGED")
    check(lake, lie)


def test_rows_of_a_new_part_with_the_key_of_others_fail_as_in_a_full_run(lake: Warehouse) -> None:
    load(lake, {**ROWS, "heap": [(3, 1, 1)]})
    lake.run(lake.model("m", "select id, 'order' as kind from {orders}", primary_key="id"))
    with pytest.raises(Exception, match="duplicate key"):
        lake.run(lake.model("m", PARTS, primary_key="id"))


def test_what_no_rule_covers_is_computed_in_full_by_name(lake: Warehouse) -> None:
    load(lake, ROWS)
    lake.run(lake.model("m", TOTALS, primary_key="customer"))
    model = lake.model("m", TOTALS.replace("total ", "total, count(*) as n "), primary_key="customer")
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason) == ("full", "QUERY_CHANGED")
    assert outcome.because.endswith("the column n reads what the table does not have")
    check(lake, model)


def test_an_edit_that_fails_is_computed_in_full_and_followed_later(lake: Warehouse) -> None:
    """The condition is not evaluated for rows that the join drops, in the order in which Spark runs the query."""
    load(lake, ROWS)
    lake.run(lake.model("m", "select id, state from {orders}", primary_key="id"))
    sql = "select id, state, cast(if(state = 'paid', '1', state) as int) as n from {orders} where state <> 'open'"
    model = lake.model("m", sql, primary_key="id")
    assert lake.run(model).reason in ("EDITED", "QUERY_CHANGED")
    check(lake, model)
    load(lake, {**ROWS, "orders": ROWS["orders"][3:]})
    assert lake.run(model).mode == "incremental"


def test_readers_of_a_view_see_the_columns_and_rows_of_an_edit_together(lake: Warehouse) -> None:
    load(lake, ROWS)
    config: dict[str, Any] = {"primary_key": "id", "merge": "on_read", "on_schema_change": "sync_all_columns"}
    old = lake.model("m", "select id, state from {orders} where id > 3", **config)
    lake.run(old)
    model = lake.model("m", "select id, amount * 2 as twice from {orders} where id > 3 and amount > 4", **config)
    seen = []

    def look(_: str, action: Callable[[], Any]) -> Any:
        done = action()
        seen.append(sorted_rows(lake.spark.table(lake.sql_name("m"))))
        return done

    with set_failpoint(look):
        assert lake.run(model).reason == "EDITED"
    assert len(seen) > 5
    for rows in seen:
        assert rows in (sorted_rows(lake.spark.sql(old.sql)), sorted_rows(lake.spark.sql(model.sql)))


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_run_that_dies_in_an_edit_is_followed_by_one_that_ends_it(lake: Warehouse, merge: str) -> None:
    reasons = Counter[str]()
    for last in itertools.count():
        load(lake, ROWS)
        lake.run(lake.model(f"m{last}", PAID, primary_key="id", merge=merge))
        load(lake, {**ROWS, "orders": [*ROWS["orders"][2:], (1, 1, 50, "paid", None), (40, 1, 9, "paid", None)]})
        sql = PAID.replace("amount from", "amount, amount * 2 as twice from") + " and amount > 4"
        model = lake.model(f"m{last}", sql, primary_key="id", merge=merge)
        life = run_until(lake, model, last)
        reasons[lake.run(model).reason] += 1
        check(lake, model)
        if life is None:
            break
    assert last > 8
    assert {"EDITED", "CHANGES"} <= set(reasons)


def write_for(lake: Warehouse, query: Written) -> str:
    """The text of a random query over the tables of a warehouse."""
    names = r"(?i)\b(orders|customers|countries|lines|heap)\b"
    return re.sub(names, lambda one: lake.sql_name(one[0].lower()), query.write())


def has_no_table(lake: Warehouse, model: Model) -> bool:
    """Whether a query has several rows of a key, or a key with a null, so that no table can be made of it."""
    key = [quote_name(name) for name in model.config.primary_key]
    keys = lake.spark.sql(model.sql).select(*key)
    return keys.na.drop().distinct().count() < keys.count()


@pytest.mark.in_turn
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_random_histories_of_changes_and_edits_end_with_the_rows_of_the_query(lake: Warehouse, seed: int) -> None:
    draw = Random(seed)
    queries = [random_query(draw)]
    load(lake, draw_rows(draw))
    name, reasons = f"m{seed}", Counter[str]()
    config = {"primary_key": list(queries[0].key), "refresh": draw.choice(("auto", "incremental"))}
    for number in range(7):
        way = draw.choice(("edit", "edit", "both", "changes", "undo")) if number else "first"
        if way in ("edit", "both"):
            queries.append(random_edit(draw, queries[-1])[1])
        if way == "undo":
            queries.append(queries[max(len(queries) - 2, 0)])
        if way in ("both", "changes"):
            load(lake, draw_rows(draw))
        renamed = list_renames(draw, *queries[-2:]) if len(queries) > 1 else {}
        model = lake.model(name, write_for(lake, queries[-1]), **config, renamed_columns=renamed)
        try:
            reasons[lake.run(model).reason] += 1
        except DataError:
            assert has_no_table(lake, model), model.sql
            continue
        wanted = lake.spark.sql(model.sql)
        table = lake.spark.table(lake.sql_name(name)).select(*map(quote_name, wanted.columns))
        assert sorted_rows(table) == sorted_rows(wanted), (way, model.sql)
        assert lake.broken(model) == []
    assert sum(reasons.values()) > 0
