"""If a query goes back to what it was, the table returns to its version of that time and follows changes from there."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest

from arctic_runtime.errors import DataError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.looking import describe_next_run
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.refresh_planner import RefreshPlanner
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.savepoint import make_savepoint
from tests.crash.dying import run_until
from tests.spark.refresh.test_edits import PAID, ROWS, TOTALS, check, has_no_table, load, write_for
from tests.spark.warehouse import Warehouse, refuse, sorted_rows
from tests.unit.ivm.edits.edited import random_sources
from tests.unit.ivm.edits.random_edits import random_edit, random_query

pytestmark = pytest.mark.in_turn

WRONG = "select id, amount * 100 as amount from {orders} where state = 'paid' and amount % 2 = 0"
LATER = {**ROWS, "orders": [*ROWS["orders"][2:], (1, 1, 50, "paid", None), (40, 1, 9, "paid", None)]}


def test_a_query_that_goes_back_takes_back_what_the_other_one_did(lake: Warehouse) -> None:
    load(lake, ROWS)
    good = lake.model("m", PAID, primary_key="id")
    lake.run(good)
    rows, version = lake.rows(good), lake.head(good)
    below = lake.model("below", "select id, amount + 1 as more from {m}", primary_key="id")
    lake.run(below)
    assert lake.actions(lake.run(lake.model("m", WRONG, primary_key="id"))) == (0, 4, 4)
    lake.run(below)
    lines = "\n".join(describe_next_run(good, RefreshPlanner(good, lake.reader).explain_refresh()))
    assert f"incremental (REVERTED: the query is again that of version {version} of 2" in lines
    assert f"takes back 8 change rows of the table since version {version}" in lines
    outcome = lake.run(good)
    assert (outcome.mode, outcome.reason) == ("incremental", "REVERTED"), outcome.because
    assert lake.actions(outcome) == (4, 4, 0)
    assert lake.rows(good) == rows
    check(lake, good)
    followed = lake.run(below)
    assert (followed.mode, followed.reason, lake.actions(followed)) == ("incremental", "CHANGES", (4, 4, 0))
    check(lake, below)


@pytest.mark.parametrize("merge", ["on_read", pytest.param("on_write", marks=pytest.mark.slow)])
def test_changes_before_between_and_after_are_followed_in_the_run_of_the_revert(lake: Warehouse, merge: str) -> None:
    load(lake, ROWS)
    good = lake.model("m", PAID, primary_key="id", merge=merge)
    lake.run(good)
    load(lake, {**ROWS, "orders": ROWS["orders"][:-2]})
    lake.run(good)
    lake.run(lake.model("m", WRONG, primary_key="id", merge=merge))
    load(lake, LATER)
    lake.run(lake.model("m", WRONG, primary_key="id", merge=merge))
    load(lake, {**LATER, "orders": LATER["orders"][4:]})
    outcome = lake.run(good)
    assert (outcome.mode, outcome.reason) == ("incremental", "REVERTED"), outcome.because
    check(lake, good)


def test_a_stored_aggregate_is_followed_from_its_earlier_state(lake: Warehouse) -> None:
    load(lake, ROWS)
    good = lake.model("m", TOTALS, primary_key="customer", refresh="incremental")
    lake.run(good)
    load(lake, {**ROWS, "orders": ROWS["orders"][1:]})
    lake.run(good)
    kept = lake.state(good).aggregate_state
    lake.run(lake.model("m", TOTALS.replace("sum(", "max("), primary_key="customer", refresh="incremental"))
    outcome = lake.run(good)
    assert (outcome.mode, outcome.reason) == ("incremental", "REVERTED"), outcome.because
    assert lake.state(good).aggregate_state == kept
    check(lake, good)
    load(lake, LATER)
    assert lake.run(good).mode == "incremental"
    check(lake, good)


def test_columns_of_the_other_query_stay_or_go_as_the_model_allows(lake: Warehouse) -> None:
    load(lake, ROWS)
    for name, policy in (("kept", "append_new_columns"), ("dropped", "sync_all_columns"), ("hidden", "ignore")):
        config: dict[str, Any] = {"primary_key": "id", "on_schema_change": policy}
        good = lake.model(name, PAID, **config)
        lake.run(good)
        wide = WRONG.replace("amount from", "amount, 7 as seven from")
        lake.run(lake.model(name, wide, **config))
        outcome = lake.run(good)
        assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("incremental", "REVERTED", (4, 4, 0)), policy
        wanted = lake.spark.sql(good.sql)
        table = lake.spark.table(lake.sql_name(name))
        assert sorted_rows(table.select(*wanted.columns)) == sorted_rows(wanted)
        assert ("seven" in table.columns) == (policy == "append_new_columns")
        assert lake.broken(good) == []


def test_a_column_that_the_other_query_dropped_is_computed_anew(lake: Warehouse) -> None:
    load(lake, ROWS)
    config: dict[str, Any] = {"primary_key": "id", "on_schema_change": "sync_all_columns"}
    good = lake.model("m", PAID, **config)
    lake.run(good)
    lake.run(lake.model("m", PAID.replace(", amount", ""), **config))
    assert lake.run(good).reason in ("EDITED", "QUERY_CHANGED")
    check(lake, good)


@pytest.mark.slow
def test_a_version_that_has_expired_is_not_returned_to(lake: Warehouse) -> None:
    load(lake, ROWS)
    good = lake.model("m", TOTALS, primary_key="customer")
    lake.run(good)
    other = lake.model("m", TOTALS.replace("sum(", "max("), primary_key="customer")
    lake.run(other)
    load(lake, LATER)
    lake.run(other)
    for table in (good.table.changes, good.table):
        lake.spark.sql(
            f"call {lake.environment.profile.catalog}.system.expire_snapshots("
            f"table => '{table.schema}.{table.name}', older_than => current_timestamp(), retain_last => 1)"
        )
    outcome = lake.run(good)
    assert (outcome.mode, outcome.reason) == ("full", "QUERY_CHANGED")
    check(lake, good)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_run_that_dies_in_a_revert_is_followed_by_one_that_ends_it(lake: Warehouse, merge: str) -> None:
    reasons = Counter[str]()
    for last in itertools.count():
        load(lake, ROWS)
        good = lake.model(f"m{last}", PAID, primary_key="id", merge=merge)
        lake.run(good)
        lake.run(lake.model(f"m{last}", WRONG, primary_key="id", merge=merge))
        load(lake, LATER)
        life = run_until(lake, good, last)
        reasons[lake.run(good).reason] += 1
        check(lake, good)
        if life is None:
            break
    assert last > 8
    assert {"REVERTED", "CHANGES"} <= set(reasons)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_random_histories_of_edits_and_reverts_end_with_the_rows_of_the_query(lake: Warehouse, seed: int) -> None:
    draw = Random(seed)
    queries = [random_query(draw)]
    name, reasons = f"m{seed}", Counter[str]()
    config: dict[str, Any] = {
        "primary_key": list(queries[0].key),
        "refresh": draw.choice(("auto", "incremental")),
        "merge": draw.choice(("on_read", "on_write")),
        "on_schema_change": draw.choice(("append_new_columns", "sync_all_columns", "ignore")),
    }

    def build_model() -> Model:
        return lake.model(name, write_for(lake, queries[-1]), **config)

    load(lake, random_sources(draw))
    for number in range(7):
        if number and draw.random() < 0.6:
            load(lake, random_sources(draw))
        step = draw.choice(("edit", "back", "back", "stay")) if number else "stay"
        if step != "stay":
            queries.append(random_edit(draw, queries[-1])[1] if step == "edit" else draw.choice(queries))
        model = build_model()
        try:
            outcome = lake.run(model)
        except DataError:
            assert has_no_table(lake, model), model.sql
            continue
        reasons[outcome.reason] += 1
        wanted, table = lake.spark.sql(model.sql), lake.spark.table(lake.sql_name(name))
        stored = {column.lower() for column in table.columns}
        shown = [quote_name(column) for column in wanted.columns if column.lower() in stored]
        assert sorted_rows(table.select(*shown)) == sorted_rows(wanted.select(*shown)), (
            step,
            outcome.reason,
            model.sql,
        )
        assert lake.broken(model) == []
    assert sum(reasons.values()) > 0


def test_a_table_that_was_restored_to_a_cut_waits_for_its_query(lake: Warehouse) -> None:
    cut = "build_20261128T083012Z_0a1b"
    load(lake, ROWS)
    good, bad = (lake.model("m", sql, primary_key="id") for sql in (PAID, WRONG))
    below = lake.model("below", "select id, amount from {m}", primary_key="id")
    lake.run(good)
    make_savepoint(lake.session_of(good), cut)
    rows = lake.rows(good)
    lake.run(bad)
    lake.run(below)
    context = OperationContext(lake.reader, lambda: lake.spark, (bad, below))
    restored = get_operation("restore").run_operation(context, [bad, below], {"version": None, "cut": cut})
    assert f"{bad.table} waits: its query is not that of the cut" in restored.lines
    load(lake, LATER)
    waiting = lake.run(bad, session=refuse)
    assert (waiting.mode, waiting.reason) == ("unchanged", "WAITS_FOR_RESTORED_QUERY")
    assert lake.left_out(bad) == [f"the query gives the table: {waiting.because}"]
    lake.run(below)
    assert lake.rows(good) == lake.rows(below) == rows
    status = "\n".join(get_operation("status").run_operation(context, [bad], {"tree": False, "partition": None}).lines)
    assert f"waits for the query of {cut}" in status
    assert "`arctic resume m`" in status
    followed = lake.run(good)
    assert (followed.mode, followed.reason, lake.actions(followed)) == ("incremental", "CHANGES", (1, 1, 0))
    check(lake, good)
    assert get_operation("resume").run_operation(context, [bad], {}).data == {}
    assert lake.run(bad).mode == "incremental"
    check(lake, bad)


def test_a_wait_is_ended_by_its_query_or_by_a_resume(lake: Warehouse) -> None:
    cut = "build_20261128T083012Z_0a1b"
    load(lake, ROWS)
    good, bad = (lake.model("m", sql, primary_key="id") for sql in (PAID, WRONG))
    lake.run(good)
    make_savepoint(lake.session_of(good), cut)
    lake.run(bad)
    context = OperationContext(lake.reader, lambda: lake.spark, (bad,))
    restore = {"version": None, "cut": cut}
    get_operation("restore").run_operation(context, [bad], restore)
    assert lake.run(good).reason == "NOTHING_NEW"
    assert lake.run(good, session=refuse).reason == "NOTHING_NEW"
    assert lake.run(bad).mode == "incremental"
    get_operation("restore").run_operation(context, [bad], restore)
    assert lake.run(bad).reason == "WAITS_FOR_RESTORED_QUERY"
    assert get_operation("resume").run_operation(context, [bad], {}).data == {str(bad.table): cut}
    assert lake.run(bad).mode == "incremental"
    check(lake, bad)
