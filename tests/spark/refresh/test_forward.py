"""An edit that goes forward: rows stay as they are, and those that later changes reach are of the new query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from arctic_runtime.errors import PlanError
from arctic_runtime.model.table import Model
from arctic_runtime.operations.inspect import describe_history, describe_status, read_history, read_status
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.refresh.restate import restate_part
from tests.spark.models.test_windows_of_time import COLUMNS, DAY, run_at
from tests.spark.models.test_windows_of_time import START as TODAY
from tests.spark.models.test_windows_of_time import rows_of as rows_back
from tests.spark.warehouse import Warehouse, refuse

ORDERS, NAMES = "id int, customer int, amount int", "customer int, name string"
Row = dict[str, Any]
Orders = dict[int, tuple[int, int]]
"""Customer and amount of each order, by its number."""


@dataclass(frozen=True)
class Sources:
    orders: Orders
    names: dict[int, str]

    def load(self, lake: Warehouse, is_keyed: bool) -> None:
        rows = [(key, *row) for key, row in self.orders.items()]
        for name, rows_of, columns, key in (
            ("orders", rows, ORDERS, "id"),
            ("names", list(self.names.items()), NAMES, "customer"),
        ):
            lake.load(f"raw_{name}" if is_keyed else name, rows_of, columns)
            if is_keyed:
                lake.run(lake.model(name, f"select * from {{raw_{name}}}", primary_key=key))

    def list_touched(self, later: Sources) -> set[int]:
        """The orders that are other ones later, or whose customer has another name."""
        renamed = {c for c in {*self.names, *later.names} if self.names.get(c) != later.names.get(c)}
        keys = {*self.orders, *later.orders}
        return {
            key
            for key in keys
            if self.orders.get(key) != later.orders.get(key)
            or {state.orders[key][0] for state in (self, later) if key in state.orders} & renamed
        }


@dataclass(frozen=True)
class Edit:
    """A query over orders and names, as SQL and in Python."""

    sql: str
    make: Callable[[int, int, str | None], Row | None]

    def compute(self, sources: Sources) -> dict[int, Row]:
        made = {
            key: self.make(key, amount, sources.names.get(customer))
            for key, (customer, amount) in sources.orders.items()
        }
        return {key: row for key, row in made.items() if row is not None}


FROM = "from {orders} o left join {names} n on n.customer = o.customer"
PLAIN = Edit(f"select o.id, o.amount, n.name {FROM}", lambda key, amount, name: {"amount": amount, "name": name})
EDITS = (
    PLAIN,
    Edit(
        f"select o.id, o.amount * 10 as amount, n.name {FROM}",
        lambda key, amount, name: {"amount": amount * 10, "name": name},
    ),
    Edit(
        f"select o.id, -o.amount as amount, n.name {FROM} where o.amount > 4",
        lambda key, amount, name: {"amount": -amount, "name": name} if amount > 4 else None,
    ),
    Edit(
        f"select o.id, o.amount, concat(n.name, '!') as name, o.amount + 1 as more {FROM}",
        lambda key, amount, name: {"amount": amount, "name": name and f"{name}!", "more": amount + 1},
    ),
)


@dataclass
class Expected:
    """What the table may hold: rows of keys that changed by the query of a run, and all others as they were."""

    table: dict[int, Row] = field(default_factory=dict)
    columns: tuple[str, ...] = ("amount", "name")

    def follow(self, edit: Edit, before: Sources, after: Sources, shown: Mapping[int, Row]) -> None:
        """Compares the table after a run with what it may be: a touched row may stay if the query gives the same."""
        was, now, touched = edit.compute(before), edit.compute(after), before.list_touched(after)
        self.columns = tuple(dict.fromkeys([*self.columns, *(name for row in now.values() for name in row)]))
        for key in {*self.table, *now, *shown}:
            stays = self._fill(self.table.get(key), {})
            moves = self._fill(now.get(key), self.table.get(key) or {})
            may = [moves] if was.get(key) != now.get(key) else [stays, moves] if key in touched else [stays]
            assert shown.get(key) in may, (key, edit.sql)
        self.table = dict(shown)

    def _fill(self, row: Row | None, known: Row) -> Row | None:
        if row is None:
            return None
        return {name: row[name] if name in row else known.get(name) for name in self.columns}


def shown(lake: Warehouse, model: Model) -> dict[int, Row]:
    rows = [row.asDict() for row in lake.spark.table(lake.sql_name(model.table.name)).collect()]
    return {row.pop("id"): row for row in rows}


def change(random: Random, sources: Sources) -> Sources:
    orders, names = dict(sources.orders), dict(sources.names)
    for _ in range(random.randrange(4)):
        key = random.randrange(14)
        if random.random() < 0.3:
            orders.pop(key, None)
        else:
            orders[key] = (random.randrange(4), random.randrange(9))
    if random.random() < 0.3:
        names[random.randrange(4)] = f"name {random.randrange(9)}"
    return Sources(orders, names)


def forward(lake: Warehouse, sql: str, name: str = "m", key: str = "id", **config: Any) -> Model:
    return lake.model(name, sql, primary_key=key, on_query_change="forward", **config)


START = Sources({i: (i % 4, i % 9) for i in range(12)}, {i: f"name {i}" for i in range(3)})


@pytest.mark.in_turn
@pytest.mark.parametrize(("seed", "merge"), [(1, "on_write"), (2, "on_read")])
def test_random_edits_and_changes_leave_rows_of_the_queries_of_their_last_changes(
    lake: Warehouse, seed: int, merge: str
) -> None:
    random, sources, is_keyed = Random(seed), START, seed % 2 == 0
    sources.load(lake, is_keyed)
    lake.run(forward(lake, PLAIN.sql, merge=merge))
    edit, expected = PLAIN, Expected(PLAIN.compute(sources))
    for _ in range(6):
        later, edited = change(random, sources), random.choice(EDITS)
        later.load(lake, is_keyed)
        model = forward(lake, edited.sql, merge=merge)
        outcome = lake.run(model)
        assert (outcome.reason == "FORWARD") is (edited is not edit), (seed, outcome)
        assert outcome.mode in ("incremental", "unchanged"), (seed, outcome)
        expected.follow(edited, sources, later, shown(lake, model))
        assert lake.broken(model) == [], seed
        sources, edit = later, edited
    assert lake.run(model, refuse).mode == "unchanged"
    lake.run(model, full_refresh=True)
    assert {key: row["amount"] for key, row in shown(lake, model).items()} == {
        key: row["amount"] for key, row in edit.compute(sources).items()
    }
    assert [text for text in lake.left_out(model) if "edit" in text] == []


def status_lines(lake: Warehouse, model: Model) -> list[str]:
    return [line for line in describe_status(read_status(lake.reader, model, [model])) if "earlier queries" in line]


def test_a_table_says_how_many_rows_are_of_earlier_queries_until_all_are_restated(lake: Warehouse) -> None:
    START.load(lake, False)
    lake.run(forward(lake, PLAIN.sql))
    later = Sources({**START.orders, 0: (0, 100), 20: (1, 1)}, START.names)
    later.load(lake, False)
    model = forward(lake, EDITS[1].sql)
    assert lake.actions(lake.run(model)) == (1, 1, 0)
    (line,) = status_lines(lake, model)
    assert line.endswith("; up to 12 rows are still of earlier queries")
    assert [text.partition(" since")[0] for text in lake.left_out(model)] == [
        "the query gives the other rows: 11 were not written"
    ]
    done = restate_part(lake.refresh_of(model), "id < 6")
    assert done.rows == {"insert": 0, "update": 5, "delete": 0, "upsert": 0}
    assert lake.broken(model) == []
    assert status_lines(lake, model) == [line]
    restate_part(lake.refresh_of(model), "true")
    assert shown(lake, model) == EDITS[1].compute(later)
    assert (status_lines(lake, model), lake.broken(model), lake.left_out(model)) == ([], [], [])
    texts = [text for entry in read_history(lake.reader, model)[:2] for text in describe_history(entry)]
    assert [text.strip() for text in texts if "where" in text] == ["where true", "where id < 6"]
    assert lake.run(model, refuse).mode == "unchanged"


@pytest.mark.in_turn
def test_groups_go_forward_without_their_aggregate_state(lake: Warehouse) -> None:
    START.load(lake, False)
    sql = "select customer, sum(amount{more}) as total from {{orders}} group by customer"
    lake.run(forward(lake, sql.format(more=""), key="customer", refresh="incremental"))
    first = Sources({**START.orders, 0: (0, 5)}, START.names)
    first.load(lake, False)
    lake.run(forward(lake, sql.format(more=""), key="customer", refresh="incremental"))
    before: dict[int, int] = dict(lake.rows(forward(lake, sql.format(more=""), key="customer")))
    later = Sources({**first.orders, 1: (1, 100)}, START.names)
    later.load(lake, False)
    model = forward(lake, sql.format(more=" + 1000"), key="customer", refresh="incremental")
    assert lake.actions(lake.run(model)) == (0, 1, 0)
    own = [amount for customer, amount in later.orders.values() if customer == 1]
    assert dict(lake.rows(model)) == {**before, 1: sum(own) + 1000 * len(own)}
    Sources({**later.orders, 2: (2, 50)}, START.names).load(lake, False)
    assert lake.actions(lake.run(model)) == (0, 1, 0)
    assert lake.broken(model) == []
    lake.spark.sql(f"update {lake.sql_name(model.base.name)} set total = 1 where customer = 1")
    assert lake.broken(model)[0].startswith("the query gives the rows that were written since its edit: ")


@pytest.mark.in_turn
def test_an_edit_that_can_not_be_followed_is_refused_and_changes_nothing(lake: Warehouse) -> None:
    START.load(lake, False)
    model = forward(lake, PLAIN.sql)
    lake.run(model)
    before, head = lake.rows(model), lake.head(model)
    ranked = forward(lake, "select id, amount, string(rank() over (order by amount, id)) as name from {orders}")
    message = r"(?s)`on_query_change: forward`.*EVERYTHING_AFFECTED.*--full-refresh -s m.*recompute"
    with pytest.raises(PlanError, match=message):
        lake.run(ranked)
    assert (lake.rows(model), lake.head(model)) == (before, head)
    lake.run(ranked, full_refresh=True)
    assert lake.broken(ranked) == []


@pytest.mark.in_turn
def test_a_table_that_went_forward_is_recomputed_only_by_the_key_or_a_request(lake: Warehouse) -> None:
    START.load(lake, False)
    lake.run(forward(lake, PLAIN.sql))
    model = forward(lake, EDITS[1].sql)
    outcome = lake.run(model)
    assert (outcome.mode, outcome.reason, lake.actions(outcome)) == ("incremental", "FORWARD", (0, 0, 0))
    outcome = lake.run(lake.model("m", EDITS[1].sql, primary_key="id"))
    assert (outcome.mode, outcome.reason) == ("full", "QUERY_CHANGED")
    assert "rows of earlier queries" in outcome.because
    assert shown(lake, model) == EDITS[1].compute(START)
    assert status_lines(lake, model) == []


@pytest.mark.in_turn
def test_a_restored_row_of_an_earlier_query_is_no_difference(lake: Warehouse) -> None:
    START.load(lake, False)
    lake.run(forward(lake, PLAIN.sql))
    model = forward(lake, EDITS[1].sql)
    lake.run(model)
    version = lake.head(model)
    Sources({**START.orders, 0: (0, 100)}, START.names).load(lake, False)
    lake.run(model)
    restore_version(lake.session_of(model), version)
    assert shown(lake, model) == PLAIN.compute(START)
    assert lake.broken(model) == []
    lake.run(model)
    assert shown(lake, model) == {**PLAIN.compute(START), 0: {"amount": 1000, "name": "name 0"}}
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_the_versions_of_rows_that_stay_stay_open(lake: Warehouse) -> None:
    START.load(lake, False)
    lake.run(forward(lake, PLAIN.sql, history="scd2"))
    later = Sources({**START.orders, 0: (0, 100)}, START.names)
    later.load(lake, False)
    model = forward(lake, EDITS[1].sql, history="scd2")
    assert lake.run(model).reason == "FORWARD"
    current = lake.spark.table(lake.sql_name("m")).where("_valid_to is null").select("id", "amount").collect()
    assert {row.id: row.amount for row in current} == {
        key: 1000 if key == 0 else amount for key, (_, amount) in START.orders.items()
    }
    assert lake.spark.table(lake.sql_name("m")).count() == len(START.orders) + 1
    assert lake.broken(model) == []


@pytest.mark.in_turn
def test_rows_that_enter_a_window_of_time_are_of_the_new_query(lake: Warehouse) -> None:
    lake.load("source", rows_back({1: 0, 2: 1, 3: -1, 4: -2}), COLUMNS)
    sql = "select id, {column} as shown from {{source}} where day <= current_date"
    run_at(lake, forward(lake, sql.format(column="g")), TODAY)
    model = forward(lake, sql.format(column="concat(g, '!')"))
    outcome = run_at(lake, model, TODAY + DAY)
    assert (outcome.reason, lake.actions(outcome)) == ("FORWARD", (1, 0, 0))
    assert lake.rows(model) == [(1, "b"), (2, "a"), (3, "b!")]
    assert lake.actions(run_at(lake, model, TODAY + 2 * DAY)) == (1, 0, 0)
    assert lake.rows(model)[-1] == (4, "a!")
