"""Several flows of events into one wide table: each brings its columns, in an order of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import restore_version
from tests.spark.documented import documented
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

PROFILES = "id int, name string, email string, at int, op string"
ORDERS = "id int, last string, spent int, at int, op string"
QUERY = (
    "select id, name, email, at as profile_at, cast(null as string) as last, cast(null as int) as spent, "
    "cast(null as int) as order_at, op from {changes(profiles)} "
    "union all select id, null, null, null, last, spent, at, op from {changes(orders)}"
)
FLOWS = {"profile_at": ["name", "email"], "order_at": ["last"]}
Event = tuple[Any, ...]


def wide(lake: Warehouse, sql: str = QUERY, **config: Any) -> Model:
    settings: dict[str, Any] = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": FLOWS,
        "merge_columns": {"spent": "sum"},
        "exclude_columns": "op",
    }
    return lake.model("wide", sql, **{key: value for key, value in {**settings, **config}.items() if value is not None})


class Rows:
    """The wide rows, event by event in the order of their arrival."""

    def __init__(self, sums: bool) -> None:
        self.sums = sums
        self.table: dict[int, dict[str, Any]] = {}

    def apply(self, flow: str, events: Sequence[Event]) -> None:
        for key, first, second, at, op in events:
            row = self.table.setdefault(
                key, dict.fromkeys(("name", "email", "profile_at", "last", "spent", "order_at"))
            )
            values = {"name": first, "email": second} if flow == "profile_at" else {"last": first}
            if flow == "order_at" and self.sums and second is not None:
                row["spent"] = (row["spent"] or 0) + second
            if flow == "order_at" and not self.sums:
                values["spent"] = second
            if row[flow] is None or at >= row[flow]:
                gone = op == "d" and not self.sums
                row |= {flow: at, **(dict.fromkeys(values) if gone else values)}

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(((key, *row.values()) for key, row in self.table.items()), key=repr)


def stream(seed: int, count: int, numbers: bool) -> list[Event]:
    """Events in any order, of which some come twice."""
    chance = random.Random(seed)
    second = [None, 1, 2] if numbers else [None, "p", "q"]
    events = [
        (chance.randrange(6), chance.choice([None, "x", "y"]), chance.choice(second), place, chance.choice("uuud"))
        for place in chance.sample(range(1000), count)
    ]
    return [*events, *chance.sample(events, count // 6)]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("merge", "sums", "seed"),
    [
        ("on_write", True, 1),
        pytest.param("on_read", False, 2, marks=pytest.mark.slow),
        pytest.param("on_write", False, 3, marks=pytest.mark.slow),
        pytest.param("on_read", True, 4, marks=pytest.mark.slow),
    ],
)
def test_a_late_event_of_one_flow_touches_no_column_of_another(
    lake: Warehouse, merge: str, sums: bool, seed: int
) -> None:
    profiles, orders = stream(seed, 30, numbers=False), stream(seed + 100, 30, numbers=True)
    config: dict[str, Any] = {} if sums else {"merge_columns": None, "delete_when": "op = 'd'"}
    flows = FLOWS if sums else {**FLOWS, "order_at": ["last", "spent"]}
    model = wide(lake, merge=merge, sequence_by=flows, **config)
    expected = Rows(sums)
    for number, (start, end) in enumerate(pairwise((0, 12, 20, 35))):
        for flow, table, events, columns in (
            ("profile_at", "profiles", profiles, PROFILES),
            ("order_at", "orders", orders, ORDERS),
        ):
            if number == 1 and flow == "order_at":
                continue
            part = events[start:end] if number != 2 or flow == "profile_at" else events[12:]
            lake.append(table, part, columns)
            expected.apply(flow, part)
        lake.run(model)
        assert lake.rows(model) == expected.rows(), f"seed {seed}"
    compact_table(lake.session_of(model), "full")
    assert lake.rows(model) == expected.rows()
    assert lake.broken(model) == lake.left_out(model) == [], f"seed {seed}"
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.in_turn
def test_each_flow_is_read_from_where_it_was_and_null_is_a_value(lake: Warehouse) -> None:
    model = wide(lake)
    lake.append("profiles", [(1, "a", "a@x", 10, "u")], PROFILES)
    lake.append("orders", [(1, "o1", 5, 3, "u")], ORDERS)
    lake.run(model)
    lake.append("profiles", [(1, None, "b@x", 20, "u"), (2, "z", None, 1, "u")], PROFILES)
    outcome = lake.run(model)
    assert lake.actions(outcome) == (1, 1, 0)
    assert lake.rows(model) == [(1, None, "b@x", 20, "o1", 5, 3), (2, "z", None, 1, None, None, None)]
    head = lake.head(model)
    lake.append("orders", [(1, "o0", 7, 2, "u"), (2, "p1", 1, 9, "u")], ORDERS)
    lake.run(model)
    assert lake.rows(model) == [(1, None, "b@x", 20, "o1", 12, 3), (2, "z", None, 1, "p1", 1, 9)]
    assert lake.broken(model) == []
    restore_version(lake.session_of(model), head)
    lake.append("orders", [(1, "o3", 1, 30, "u")], ORDERS)
    lake.run(model)
    assert lake.rows(model)[0] == (1, None, "b@x", 20, "o3", 6, 30)


@pytest.mark.slow
def test_a_flow_that_is_added_brings_its_columns_to_the_rows_that_are_there(lake: Warehouse) -> None:
    sql = "select id, name, email, at as profile_at, op from {changes(profiles)}"
    model = wide(lake, sql=sql, sequence_by={"profile_at": ["name", "email"]}, merge_columns=None)
    down = lake.model("down", "select last, count(*) as n from {wide} group by last", primary_key="last")
    lake.append("profiles", [(1, "a", "a@x", 10, "u")], PROFILES)
    lake.append("orders", [(1, "o1", 5, 3, "u"), (2, "o2", 1, 1, "u")], ORDERS)
    lake.run(model)
    model = wide(lake)
    lake.run(model)
    assert lake.rows(model) == [(1, "a", "a@x", 10, "o1", 5, 3), (2, None, None, None, "o2", 1, 1)]
    lake.run(down)
    assert lake.rows(down) == [("o1", 1), ("o2", 1)]
    assert lake.broken(model) == lake.broken(down) == []


def test_events_without_a_flow_ties_and_columns_without_a_flow_are_refused(lake: Warehouse) -> None:
    lake.append("profiles", [(1, "a", "a@x", None, "u")], PROFILES)
    lake.append("orders", [(1, "o1", 5, 3, "u")], ORDERS)
    with pytest.raises(DataError, match=r"1 events have a null in every column of `sequence_by`(?s:.*)'name': 'a'"):
        lake.run(wide(lake))
    with pytest.raises(ConfigError, match="spent belongs to no flow"):
        lake.run(wide(lake, merge_columns=None))
    lake.append_v2("old", [(1, "a", "a@x", 1, "u"), (1, "b", "a@x", 1, "u")], PROFILES)
    sql = "select id, name, email, at as profile_at from {changes(old)}"
    tied = wide(lake, sql=sql, sequence_by={"profile_at": ["name", "email"]}, merge_columns=None, exclude_columns=None)
    with pytest.raises(DataError, match=r"events of one key differ but have the same `profile_at`(?s:.*)'id': 1"):
        lake.run(tied)


def test_the_example_of_the_documentation_joins_two_flows_in_a_row(lake: Warehouse) -> None:
    model = documented(lake, "concepts.md", "### Several flows", "customers")
    lake.append("profiles", [(7, "Ann", "ann@x", 20)], "customer_id int, name string, email string, updated_at int")
    lake.append(
        "orders", [(7, "o1", 5, 10), (8, "o2", 2, 11)], "customer_id int, order_id string, amount int, ordered_at int"
    )
    lake.run(model)
    lake.append("profiles", [(7, "Anna", "a@x", 10)], "customer_id int, name string, email string, updated_at int")
    lake.append("orders", [(7, "o3", 4, 30)], "customer_id int, order_id string, amount int, ordered_at int")
    lake.run(model)
    assert lake.rows(model) == [(7, "Ann", "ann@x", 20, "o3", 9, 30), (8, None, None, None, "o2", 2, 11)]
    assert lake.broken(model) == []
