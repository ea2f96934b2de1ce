"""A table takes over what a clone has computed, once its query is that of the clone, and goes on from there."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from arctic_runtime.catalog.observation.clones import observe_computed
from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.looking import describe_next_run
from arctic_runtime.operations.operation import OperationContext
from arctic_runtime.operations.registry import get_operation
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.refresh_planner import Outcome, RefreshPlanner
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.maintenance.cloning import reset_model
from arctic_runtime.spark.refresh.promote import plan_promoted_run
from arctic_runtime.spark.refresh.run import Refresh
from tests.crash.dying import dying
from tests.spark.maintenance.test_cloning import clone_of
from tests.spark.refresh.test_edits import JOIN, PAID, PARTS, ROWS, TOTALS, check, has_no_table, load, write_for
from tests.spark.refresh.test_reverts import LATER
from tests.spark.warehouse import Warehouse, sorted_rows
from tests.unit.ivm.edits.edited import random_sources
from tests.unit.ivm.edits.random_edits import random_edit, random_query

pytestmark = pytest.mark.in_turn


@pytest.fixture
def dev(lake: Warehouse) -> Warehouse:
    name = f"{lake.namespace}_dev"
    lake.spark.sql(f"create namespace {lake.environment.profile.catalog}.{name}")
    return replace(lake, namespace=name)


def move(lake: Warehouse, dev: Warehouse, model: Model, *upstreams: str) -> Model:
    """The same model in the other namespace, where it reads clones of these upstreams."""
    sql = model.sql
    for upstream in upstreams:
        sql = sql.replace(lake.sql_name(upstream), dev.sql_name(upstream))
    return replace(model, table=dev.table(model.table.name), sql=sql)


def planner_of(lake: Warehouse, dev: Warehouse, model: Model) -> RefreshPlanner:
    tables = {dev.table(name): lake.table(name) for name in ("m", "below", model.table.name)}
    clone = observe_computed(lake.reader, replace(model, table=dev.table(model.table.name)), tables)
    assert clone is not None
    return RefreshPlanner(model, lake.reader, Request(clone=clone))


def promote(lake: Warehouse, dev: Warehouse, model: Model) -> Outcome | None:
    planner = planner_of(lake, dev, model)
    planned = plan_promoted_run(planner, lambda: lake.spark)
    return None if planned is None else Refresh(planner, lambda: lake.spark).run_refresh(planned)


NAMED = f"{PAID} and amount > 3"
LESS = NAMED.replace("amount from", "amount, -amount as less from")
THIRDS = "select id % 3 as third, sum(amount) as total from {m} group by 1"
EDITS: dict[str, tuple[str, str, str, tuple[int, int, int]]] = {
    "column": (PAID, f"{PAID.replace('amount', 'amount, amount * 2 as twice', 1)}", "id", (0, 8, 0)),
    "narrow": (PAID, NAMED, "id", (0, 0, 2)),
    "part": ("select id, 'order' as kind from {orders}", PARTS, "id", (3, 0, 0)),
    "join": ("select id, customer from {orders}", JOIN, "id", (0, 9, 3)),
    "total": (TOTALS, TOTALS.replace("group by", "where amount > 2 group by"), "customer", (0, 2, 0)),
}  # fmt: skip


@pytest.mark.parametrize("merge", ["on_write", "on_read"])
@pytest.mark.parametrize("edit", list(EDITS))
def test_a_table_takes_over_the_rows_of_its_clone(lake: Warehouse, dev: Warehouse, edit: str, merge: str) -> None:
    before, after, key, changed = EDITS[edit]
    load(lake, ROWS)
    old = lake.model("m", before, primary_key=key, merge=merge)
    lake.run(old)
    below = lake.model("below", "select * from {m}", primary_key=key)
    lake.run(below)
    clone_of(lake, dev, old)
    new = lake.model("m", after, primary_key=key, merge=merge)
    assert dev.run(move(lake, dev, new)).reason == ("QUERY_CHANGED" if edit == "total" else "EDITED")
    lines = "\n".join(describe_next_run(new, planner_of(lake, dev, new).explain_refresh()))
    assert f"incremental (PROMOTED: {dev.table('m')} has computed this query)" in lines
    outcome = promote(lake, dev, new)
    assert outcome is not None
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("incremental", "PROMOTED", changed), (
        outcome.because
    )
    check(lake, new)
    assert promote(lake, dev, new) is None
    followed = lake.run(below)
    assert lake.actions(followed) == changed
    check(lake, below)


def test_an_edit_of_a_clone_reads_its_own_rows_and_then_follows_its_own_upstreams(
    lake: Warehouse, dev: Warehouse
) -> None:
    load(lake, ROWS)
    upstream = lake.model("m", PAID, primary_key="id")
    below = lake.model("below", "select id, amount from {m}", primary_key="id")
    for model in (upstream, below):
        lake.run(model)
    own_upstream = clone_of(lake, dev, upstream)
    clone_of(lake, dev, below, upstream)
    dev.run(own_upstream)
    edited = lake.model("below", "select id, amount, amount * 2 as twice from {m} where amount > 3", primary_key="id")
    clone = move(lake, dev, edited, "m")
    outcome = dev.run(clone)
    assert (outcome.reason, lake.actions(outcome)) == ("EDITED", (0, 6, 2)), outcome.because
    check(dev, clone)
    load(lake, LATER)
    dev.run(own_upstream)
    again = replace(clone, sql=clone.sql.replace("> 3", "> 4"))
    assert dev.run(again).reason == "EDITED"
    check(dev, again)


def test_changes_of_both_since_the_clone_was_made_are_told_apart(lake: Warehouse, dev: Warehouse) -> None:
    load(lake, ROWS)
    old, new = (
        lake.model("m", sql, primary_key="id")
        for sql in (PAID, NAMED.replace("amount from", "amount, -amount as less from"))
    )
    lake.run(old)
    clone_of(lake, dev, old)
    dev.run(move(lake, dev, new))
    load(lake, {**ROWS, "orders": ROWS["orders"][:-3]})
    lake.run(old)
    load(lake, LATER)
    dev.run(move(lake, dev, new))
    lake.run(old)
    load(lake, {**LATER, "orders": LATER["orders"][2:]})
    lake.run(old)
    outcome = promote(lake, dev, new)
    assert outcome is not None
    assert (outcome.mode, outcome.reason) == ("incremental", "PROMOTED")
    check(lake, new)
    load(lake, ROWS)
    assert lake.run(new).reason == "CHANGES"
    check(lake, new)


def test_dropping_the_clone_leaves_the_table(lake: Warehouse, dev: Warehouse) -> None:
    load(lake, ROWS)
    old, new = (lake.model("m", sql, primary_key="id") for sql in (PAID, NAMED))
    lake.run(old)
    clone = clone_of(lake, dev, old)
    dev.run(move(lake, dev, new))
    promote(lake, dev, new)
    reset_model(dev.session_of(clone))
    check(lake, new)
    load(lake, LATER)
    lake.run(new)
    check(lake, new)


def test_models_below_take_over_clones_that_read_those_that_were_taken_over(lake: Warehouse, dev: Warehouse) -> None:
    load(lake, ROWS)
    old, new = (lake.model("m", sql, primary_key="id") for sql in (PAID, NAMED))
    below = lake.model(
        "below",
        "select id % 3 as third, sum(amount) as total from {m} group by 1",
        primary_key="third",
        refresh="incremental",
    )
    lake.run(old)
    lake.run(below)
    clone_of(lake, dev, old)
    clone_of(lake, dev, below, old)
    load(lake, LATER)
    dev.run(move(lake, dev, new))
    dev.run(move(lake, dev, below, "m"))
    lake.run(old)
    lake.run(below)
    assert promote(lake, dev, below) is None, "m was not promoted, so `below` follows it by itself"
    assert promote(lake, dev, new) is not None
    outcome = promote(lake, dev, below)
    assert outcome is not None
    assert outcome.reason == "PROMOTED"
    assert lake.state(below).aggregate_state is not None
    check(lake, below)
    load(lake, ROWS)
    lake.run(new)
    followed = lake.run(below)
    assert (followed.mode, followed.reason) == ("incremental", "CHANGES")
    check(lake, below)


def test_rows_are_compared_if_change_rows_are_gone_or_columns_went(lake: Warehouse, dev: Warehouse) -> None:
    load(lake, ROWS)
    config: dict[str, Any] = {"primary_key": "id", "on_schema_change": "sync_all_columns"}
    wide = "select id, amount, customer, state from {orders}"
    old, new = (lake.model("m", sql, **config) for sql in (wide, wide.replace(", customer", "") + " where amount > 1"))
    lake.run(old)
    clone_of(lake, dev, old)
    dev.run(move(lake, dev, new))
    planned = planner_of(lake, dev, new).plan_refresh()
    assert planned.decision.promotion is not None
    assert planned.decision.promotion.changed is None
    outcome = promote(lake, dev, new)
    assert outcome is not None
    assert outcome.reason == "PROMOTED"
    check(lake, new)


def test_a_clone_with_another_query_is_refused_by_name(lake: Warehouse, dev: Warehouse) -> None:
    load(lake, ROWS)
    old, new = (lake.model("m", sql, primary_key="id") for sql in (PAID, NAMED))
    lake.run(old)
    clone_of(lake, dev, old)
    assert promote(lake, dev, new) is None, "the clone has computed nothing"
    dev.run(move(lake, dev, new))
    other = lake.model("m", f"{NAMED} and amount < 9", primary_key="id")
    with pytest.raises(ConfigError, match="its query, or a view that it reads, is another one"):
        promote(lake, dev, other)
    assert promote(lake, dev, old) is None, "the table has the rows of this query"
    lake.run(other)
    check(lake, other)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_random_histories_of_both_sides_end_with_the_rows_of_the_query(
    lake: Warehouse, dev: Warehouse, seed: int
) -> None:
    draw = Random(seed)
    load(lake, random_sources(draw))
    query, reasons = random_query(draw), Counter[str]()
    while has_no_table(lake, lake.model("m", write_for(lake, query), primary_key=list(query.key))):
        query = random_query(draw)
    config: dict[str, Any] = {
        "primary_key": list(query.key),
        "merge": draw.choice(("on_read", "on_write")),
        "on_schema_change": draw.choice(("append_new_columns", "sync_all_columns")),
    }

    def build_model() -> Model:
        return lake.model("m", write_for(lake, query), **config)

    def run(warehouse: Warehouse, model: Model) -> None:
        try:
            warehouse.run(model)
        except DataError:
            assert has_no_table(warehouse, model), model.sql

    own = build_model()
    lake.run(own)
    clone_of(lake, dev, own)
    for _ in range(8):
        step = draw.choice(("load", "run", "edit", "run clone", "promote"))
        if step == "load":
            load(lake, random_sources(draw))
        elif step == "run":
            run(lake, own)
        elif step == "edit":
            query = random_edit(draw, query)[1]
        elif step == "run clone":
            run(dev, move(lake, dev, build_model()))
        else:
            with suppress(ConfigError):
                outcome = promote(lake, dev, build_model())
                reasons[outcome.reason if outcome else "nothing"] += 1
                own = build_model() if outcome else own
        if step in ("run", "promote"):
            assert lake.broken(own) == []
    query = random_edit(draw, query)[1]
    while has_no_table(lake, build_model()):
        query = random_edit(draw, query)[1]
    dev.run(move(lake, dev, build_model()))
    outcome = promote(lake, dev, build_model())
    own = build_model()
    wanted, table = lake.spark.sql(own.sql), lake.spark.table(lake.sql_name("m"))
    lake.run(own)
    assert sorted_rows(table.select(*map(quote_name, wanted.columns))) == sorted_rows(wanted), own.sql
    assert lake.broken(own) == []
    assert reasons.total() or outcome is not None


def test_the_operation_takes_over_what_it_can_and_says_what_it_left(lake: Warehouse, dev: Warehouse) -> None:
    load(lake, ROWS)
    old, new = (lake.model("m", sql, primary_key="id") for sql in (PAID, NAMED))
    below = lake.model("below", THIRDS, primary_key="third", refresh="incremental")
    lake.run(old)
    lake.run(below)
    clone_of(lake, dev, old)
    clone_of(lake, dev, below, old)
    dev.run(move(lake, dev, new))
    dev.run(move(lake, dev, below, "m"))
    operation, given = get_operation("promote"), {"from_schema": dev.namespace, "state": None, "from_target": None}
    context = OperationContext(lake.reader, lambda: lake.spark, (below, new))
    planned = operation.run_operation(context, [below, new], given, plan=True)
    assert planned.lines[0] == f"{new.table}: would take over {dev.table('m')}"
    assert f"{below.table}: would be decided once {dev.table('m')} is taken over" in planned.lines
    other = lake.model("m", f"{NAMED} and amount < 9", primary_key="id")
    with pytest.raises(ConfigError, match="its query, or a view that it reads, is another one"):
        operation.run_operation(context, [other], given)
    answer = operation.run_operation(context, [below, new], given)
    assert answer.lines == (
        f"{new.table}: took over {dev.table('m')}, +0 ~0 -2",
        f"{below.table}: took over {dev.table('below')}, +0 ~2 -0",
    )
    check(lake, new)
    check(lake, below)
    again = operation.run_operation(context, [below, new], given)
    assert again.data["promoted"] == {}
    assert set(again.data["left"]) == {str(new.table), str(below.table)}


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_promotion_that_dies_is_ended_by_another_one_or_by_a_run(lake: Warehouse, dev: Warehouse, merge: str) -> None:
    reasons = Counter[str]()
    for last in itertools.count():
        name = f"m{last}"
        load(lake, ROWS)
        old, new = (lake.model(name, sql, primary_key="id", merge=merge) for sql in (PAID, NAMED))
        lake.run(old)
        clone_of(lake, dev, old)
        dev.run(move(lake, dev, new))
        load(lake, LATER)
        lake.run(old)
        life = dying(last, lambda model=new: promote(lake, dev, model))  # type: ignore[misc]
        outcome = promote(lake, dev, new) or lake.run(new)
        reasons[outcome.reason] += 1
        check(lake, new)
        if life is None:
            break
    assert last > 8
    assert "PROMOTED" in reasons
    assert set(reasons) <= {"PROMOTED", "CHANGES", "NOTHING_NEW"}
