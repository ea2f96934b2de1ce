"""Rows that `frozen_where` selects stay as they are in every kind of run, and what they miss is counted."""

from __future__ import annotations

import datetime
from random import Random
from typing import Any

import pytest

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.forgetting import Forget
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import describe_status, read_status
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.refresh_planner import Outcome, RefreshPlanner
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.refresh.restate import count_restated, restate_part
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.refresh.verify import verify_model
from tests.spark.refresh.frozen_rows import Row, count_withheld, follow
from tests.spark.warehouse import Rows, Warehouse, sorted_rows

ORDERS = "id bigint, day date, amount int, customer int"
NAMES = "customer int, name string"
PLAIN = "select id, day, amount from {orders}"
FIRST = datetime.date(2026, 1, 1)
OLD = "day < current_date - interval 10 days"
NOW = 40
"""Number of the day at which the tests begin; days before 30 are frozen then."""


def day(number: int) -> datetime.date:
    return FIRST + datetime.timedelta(days=number)


def is_frozen_at(now: int, place: int = 1) -> Any:
    return lambda row: row[place] is not None and row[place] < day(now - 10)


def refresh_at(lake: Warehouse, model: Model, now: int = NOW, **request: bool) -> Refresh:
    time = datetime.datetime.combine(day(now), datetime.time(12), datetime.timezone.utc)
    planner = RefreshPlanner(model, lake.reader, Request(**request), now=time, pins=PinnedSnapshots(time))
    return Refresh(planner, lambda: lake.spark)


def run_at(lake: Warehouse, model: Model, now: int = NOW, **request: bool) -> Outcome:
    outcome = refresh_at(lake, model, now, **request).run_refresh()
    assert outcome.reason != "INCREMENT_FAILED", outcome.because
    return outcome


def load(lake: Warehouse, orders: Rows, names: Rows | None = None) -> None:
    for name, rows, columns, key in (
        ("orders", orders, ORDERS, "id"),
        ("names", names or [(n, f"name {n}") for n in range(3)], NAMES, "customer"),
    ):
        lake.load(f"raw_{name}", rows, columns)
        lake.run(lake.model(name, f"select * from {{raw_{name}}}", primary_key=key))


def a_model(
    lake: Warehouse, sql: str = "select id, day, amount from {orders}", name: str = "m", **config: Any
) -> Model:
    return lake.model(name, sql, **{"primary_key": "id", "frozen_where": OLD, "refresh": "incremental", **config})


def last_of(lake: Warehouse, model: Model) -> RunSummary:
    last = find_last_run(lake.state(model).changes)
    assert last is not None
    return last


def by_key(rows: Rows) -> dict[Any, Row]:
    return {row[0]: row for row in rows}


def differing(refresh: Refresh) -> list[str]:
    return [f"{finding.check}: {finding.examples}" for finding in verify_model(refresh) if finding.broken]


ROWS: Rows = [(1, day(5), 10, 0), (2, day(25), 20, 1), (3, day(35), 30, 2), (4, day(38), 40, 0)]


def test_changes_of_frozen_rows_are_counted_and_not_applied(lake: Warehouse) -> None:
    load(lake, ROWS)
    model = a_model(lake)
    assert run_at(lake, model).frozen == 0
    # 1 is expired, 2 and 3 change, 5 comes too late, 6 does not, and 4 moves into the frozen part.
    load(lake, [(2, day(26), 21, 1), (3, day(35), 31, 2), (4, day(3), 40, 0), (5, day(4), 5, 0), (6, day(39), 6, 0)])
    outcome = run_at(lake, model)
    assert (outcome.mode, lake.actions(outcome), outcome.frozen) == ("incremental", (1, 2, 0), 3)
    rows = [(1, day(5), 10), (2, day(25), 20), (3, day(35), 31), (4, day(3), 40), (6, day(39), 6)]
    assert lake.rows(model) == rows
    assert (last_of(lake, model).frozen, last_of(lake, model).frozen_total) == ("3", "3")
    assert differing(refresh_at(lake, model)) == []
    notes = [finding.note for finding in verify_model(refresh_at(lake, model)) if finding.note]
    assert notes == ["frozen rows are not compared: 3"]
    # 2 comes back under its key with a new day, 4 leaves the source, and nothing else happens.
    load(lake, [(2, day(39), 22, 1), (3, day(35), 31, 2), (5, day(39), 5, 0), (6, day(39), 6, 0)])
    outcome = run_at(lake, model)
    assert (lake.actions(outcome), outcome.frozen) == ((1, 0, 0), 2)
    assert lake.rows(model) == [*rows[:-1], (5, day(39), 5), rows[-1]]
    assert differing(refresh_at(lake, model)) == []
    status = "\n".join(describe_status(read_status(lake.reader, model, [])))
    assert "frozen: 5 changes not applied since frozen rows were last computed, 2 of them by the last run" in status


@pytest.mark.in_turn
def test_time_alone_freezes_and_a_run_with_nothing_to_publish_keeps_the_count(lake: Warehouse) -> None:
    load(lake, ROWS)
    model = a_model(lake)
    run_at(lake, model)
    load(lake, ROWS[:2])
    outcome = run_at(lake, model, NOW + 20)
    assert (lake.actions(outcome), outcome.frozen) == ((0, 0, 0), 2)
    assert last_of(lake, model).frozen == "2"
    assert lake.rows(model) == sorted([row[:3] for row in ROWS], key=repr)
    assert run_at(lake, model, NOW + 20).mode == "unchanged"


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_full_refresh_leaves_frozen_rows_unless_it_is_told_to(lake: Warehouse, merge: str) -> None:
    load(lake, ROWS)
    model = a_model(lake, merge=merge)
    run_at(lake, model)
    load(lake, [(3, day(35), 31, 2), (5, day(3), 5, 0)])
    outcome = run_at(lake, model, full_refresh=True)
    assert (outcome.reason, lake.actions(outcome), outcome.frozen) == ("FULL_REFRESH", (0, 1, 1), 3)
    assert lake.rows(model) == [(1, day(5), 10), (2, day(25), 20), (3, day(35), 31)]
    outcome = run_at(lake, model, full_refresh=True, with_frozen=True)
    assert (lake.actions(outcome), outcome.frozen) == ((1, 0, 2), 0)
    assert lake.rows(model) == [(3, day(35), 31), (5, day(3), 5)]
    last = last_of(lake, model)
    assert (last.frozen, last.frozen_total) == ("applied", None)
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_a_restatement_computes_frozen_rows_only_if_it_is_told_to(lake: Warehouse) -> None:
    load(lake, ROWS)
    model = a_model(lake)
    run_at(lake, model)
    load(lake, [(1, day(5), 11, 0), (2, day(25), 21, 1), *ROWS[2:]])
    assert run_at(lake, model).frozen == 2
    part = restate_part(refresh_at(lake, model), "id < 2")
    assert (part.rows["update"], part.frozen) == (0, 1)
    assert count_restated(refresh_at(lake, model), "id < 2", with_frozen=True).rows["update"] == 1
    part = restate_part(refresh_at(lake, model), "id < 2", with_frozen=True)
    assert (part.rows["update"], part.frozen) == (1, 0)
    assert lake.rows(model)[:2] == [(1, day(5), 11), (2, day(25), 20)]
    assert last_of(lake, model).frozen == "applied"


@pytest.mark.in_turn
def test_a_table_follows_its_query_again_once_nothing_is_frozen(lake: Warehouse) -> None:
    load(lake, ROWS)
    run_at(lake, a_model(lake))
    load(lake, ROWS[2:])
    assert run_at(lake, a_model(lake)).frozen == 2
    model = a_model(lake, frozen_where=None)
    # The key of a row that the query has lost comes back: an insert for the query, an update of the table.
    load(lake, [(1, day(5), 12, 0), *ROWS[2:]])
    outcome = run_at(lake, model)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (0, 1, 0))
    assert lake.rows(model) == [(1, day(5), 12), (2, day(25), 20), (3, day(35), 30), (4, day(38), 40)]
    assert lake.actions(run_at(lake, model, full_refresh=True)) == (0, 0, 1)
    assert last_of(lake, model).frozen_total is None
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_events_of_frozen_rows_are_not_applied(lake: Warehouse) -> None:
    columns = "id bigint, day date, amount int, op string"
    lake.append("events", [(1, day(5), 10, "u"), (2, day(35), 20, "u")], columns)
    sql = "select id, day, amount, op from {changes(events)}"
    config: dict[str, Any] = {"input": "changes", "exclude_columns": ["op"], "delete_when": "op = 'd'"}
    model = a_model(lake, sql, refresh="auto", truncate_when="op = 't'", **config)
    run_at(lake, model)
    lake.append("events", [(1, None, None, "d"), (2, day(35), 21, "u"), (3, day(4), 5, "u")], columns)
    outcome = run_at(lake, model)
    assert (lake.actions(outcome), outcome.frozen) == ((0, 1, 0), 2)
    assert lake.rows(model) == [(1, day(5), 10), (2, day(35), 21)]
    lake.append("events", [(9, None, None, "t")], columns)
    outcome = run_at(lake, model)
    assert (lake.actions(outcome), outcome.frozen) == ((0, 0, 1), 1)
    outcome = run_at(lake, model, full_refresh=True)
    assert lake.rows(model) == [(1, day(5), 10)]


@pytest.mark.in_turn
def test_an_edit_leaves_frozen_rows_and_computes_all_if_it_may_decide_anew_what_came_too_late(lake: Warehouse) -> None:
    load(lake, ROWS)
    run_at(lake, a_model(lake))
    doubled = a_model(lake, "select id, day, amount * 2 as amount from {orders} where amount < 40")
    outcome = run_at(lake, doubled)
    assert (outcome.reason, lake.actions(outcome), outcome.frozen) == ("EDITED", (0, 1, 1), 2)
    load(lake, [*ROWS, (5, day(4), 5, 0)])
    assert run_at(lake, doubled).frozen == 1
    more = a_model(lake, "select id, day, amount * 2 as amount, customer from {orders} where amount < 40")
    outcome = run_at(lake, more)
    assert (outcome.reason, outcome.frozen) == ("EDITED", 2), outcome.because
    assert lake.rows(more) == [(1, day(5), 10, None), (2, day(25), 20, None), (3, day(35), 60, 2)]
    later = a_model(lake, "select id, date_add(day, 30) as day, amount, customer from {orders}")
    outcome = run_at(lake, later)
    assert outcome.reason == "QUERY_CHANGED"
    assert "rows came too late for its frozen part" in outcome.because
    assert lake.rows(later)[-1] == (5, day(34), 5, 0)


@pytest.mark.in_turn
def test_an_edit_that_adds_rows_finds_frozen_ones_with_their_keys(lake: Warehouse) -> None:
    load(lake, ROWS)
    few = a_model(lake, "select id, day, amount from {orders} where amount < 30")
    run_at(lake, few)
    load(lake, [(1, day(5), 90, 0), *ROWS[1:]])
    assert run_at(lake, few).frozen == 1
    outcome = run_at(lake, a_model(lake))
    assert (lake.actions(outcome), outcome.frozen) == ((2, 0, 0), 1)
    assert lake.rows(few)[0] == (1, day(5), 10)


@pytest.mark.in_turn
def test_a_revert_leaves_frozen_rows_and_does_not_go_back_behind_a_run_that_computed_them(lake: Warehouse) -> None:
    load(lake, ROWS)
    good, wrong = a_model(lake), a_model(lake, "select id, day, amount + 1 as amount from {orders}")
    run_at(lake, good)
    assert run_at(lake, wrong).frozen == 2
    outcome = run_at(lake, good, NOW + 6)
    assert (outcome.reason, lake.actions(outcome), outcome.frozen) == ("REVERTED", (0, 1, 0), 1)
    assert lake.rows(good) == [(1, day(5), 10), (2, day(25), 20), (3, day(35), 31), (4, day(38), 40)]
    run_at(lake, wrong, full_refresh=True, with_frozen=True)
    assert lake.rows(good)[0] == (1, day(5), 11)
    outcome = run_at(lake, good)
    assert outcome.reason == "EDITED", outcome.because
    assert (lake.actions(outcome), outcome.frozen) == ((0, 2, 0), 2)


@pytest.mark.in_turn
def test_an_erasure_beats_freezing(lake: Warehouse) -> None:
    columns = "id bigint, day date, amount int"
    lake.append("events", [(1, day(5), 10), (2, day(5), 20), (3, day(35), 30)], columns)
    orders = lake.model("orders", "select * from {changes(events)}", primary_key="id", input="changes")
    rows = a_model(lake)
    sums = a_model(lake, "select day, sum(amount) as amount from {m} group by day", "sums", primary_key="day")
    for model in (orders, rows, sums):
        run_at(lake, model)
    Forgetting(orders, (orders, rows, sums), lake.reader, lambda: lake.spark, Forget(keys=("1",))).run_forget()
    assert lake.rows(rows) == [(2, day(5), 20), (3, day(35), 30)]
    assert lake.rows(sums) == [(day(5), 20), (day(35), 30)]
    assert {row["id"] for row in lake.log(rows)} == {2, 3}


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("where", "because"),
    [
        ("dai < current_date", "did you mean 'day'"),
        ("day", "can't select rows"),
        ("amount + 1", "can't select rows"),
    ],
)
def test_a_predicate_that_does_not_fit_the_columns_is_refused_before_a_table_is_made(
    lake: Warehouse, where: str, because: str
) -> None:
    load(lake, ROWS)
    model = a_model(lake, frozen_where=where)
    with pytest.raises(ConfigError, match=because):
        run_at(lake, model)
    assert lake.state(model).changes is None


KINDS: dict[str, dict[str, Any]] = {
    "deltas": {},
    "compared": {"refresh": "full"},
    "joined": {"sql": "select o.id, o.day, o.amount, n.name from {orders} o left join {names} n using (customer)"},
    "read": {"merge": "on_read"},
    "ranked": {"sql": "select id, day, rank() over (partition by customer order by amount, id) as place from {orders}"},
    "state": {"sql": "select customer as id, max(day) as day, sum(amount) as total from {orders} group by customer"},
    "groups": {"sql": "select customer as id, max(day) as day, max_by(id, amount) as best from {orders} group by 1"},
}


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 4), *(pytest.param(seed, 6, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_random_histories_end_as_the_rule_in_python_says(lake: Warehouse, seed: int, steps: int) -> None:
    print(f"seed {seed}")
    chance, now = Random(seed), NOW
    orders = {key: random_order(chance, key, now) for key in range(24)}
    load(lake, list(orders.values()))
    models = {name: a_model(lake, name=f"m_{name}", **kind) for name, kind in KINDS.items()}
    tables: dict[str, dict[Any, Row]] = {}
    for step in range(steps):
        is_whole = step > 0 and step == steps - 2
        for name, model in models.items():
            query = by_key(sorted_rows(lake.spark.sql(model.sql)))
            before = tables.get(name, {})
            outcome = run_at(lake, model, now, full_refresh=is_whole)
            tables[name] = follow(before, query, is_frozen_at(now))
            assert by_key(lake.rows(model)) == tables[name], (name, step, outcome)
            if is_whole:
                assert outcome.frozen == count_withheld(before, query, is_frozen_at(now)), (name, step)
            if name in ("state", "joined"):
                assert differing(refresh_at(lake, model, now)) == [], (name, step)
        now += chance.choice((0, 1, 4))
        for key in chance.sample(range(30), 9):
            orders.pop(key, None)
            if chance.random() < 0.6:
                orders[key] = random_order(chance, key, now)
        load(lake, list(orders.values()), [(n, f"name {n} {step // 2}") for n in range(3)])


QUERIES = (
    PLAIN,
    "select id, day, amount * 2 as amount from {orders}",
    "select id, day, amount from {orders} where amount > 40",
    "select id, date_add(day, 5) as day, amount from {orders}",
)
PART = "id % 3 = 0"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_edits_reverts_and_restatements_end_as_the_rule_in_python_says(lake: Warehouse, seed: int) -> None:
    print(f"seed {seed}")
    chance, now = Random(seed), NOW
    orders = {key: random_order(chance, key, now) for key in range(12)}
    load(lake, list(orders.values()))
    sql, table, reasons = PLAIN, {}, set()
    versions: dict[str, dict[Any, Row]] = {}
    """By query, the rows of the newest version that it made since frozen rows were computed."""
    for step in range(12):
        is_frozen = is_frozen_at(now)
        query = by_key(sorted_rows(lake.spark.sql(a_model(lake, sql).sql)))
        outcome = run_at(lake, a_model(lake, sql), now)
        reasons.add(outcome.reason)
        if outcome.reason == "REVERTED":
            table = follow(table, versions[sql], is_frozen)
        table = follow(table, query, is_frozen)
        assert by_key(lake.rows(a_model(lake, sql))) == table, (step, outcome)
        if chance.random() < 0.4:
            with_frozen = chance.random() < 0.4
            restate_part(refresh_at(lake, a_model(lake, sql), now), PART, with_frozen)
            part = follow(table, query, (lambda _: False) if with_frozen else is_frozen)
            table = {key: row for key, row in table.items() if key % 3} | {k: v for k, v in part.items() if not k % 3}
            assert by_key(lake.rows(a_model(lake, sql))) == table, (step, with_frozen)
            versions = {} if with_frozen else versions
        assert differing(refresh_at(lake, a_model(lake, sql), now)) == [], step
        versions[sql] = table
        now += chance.choice((0, 1, 4))
        if step % 2:
            sql = chance.choice(QUERIES)
        else:
            for key in chance.sample(range(15), 4):
                orders.pop(key, None)
                if chance.random() < 0.7:
                    orders[key] = random_order(chance, key, now)
            load(lake, list(orders.values()))
    assert {"CHANGES", "REVERTED"} <= reasons, reasons


def random_order(chance: Random, key: int, now: int) -> Row:
    # Few customers, and old ones among them, so that groups are frozen too.
    customer = chance.randrange(12)
    return (key, day(now - chance.choice((0, 3, 8, 11, 14, 20))), chance.randrange(100), customer)
