"""Columns that follow all events of a key: sums, extremes, sets, firsts and lasts, and expressions over two rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.merge_columns import COMMUTATIVE
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from tests.spark.documented import documented
from tests.spark.maintenance.test_expiry import expiring
from tests.spark.models.test_change_models import cdc
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

EVENTS = (
    "id int, total int, high int, low int, was int, now int, doc string, tags array<string>, plain int, op string, "
    "lsn int"
)
QUERY = "select id, total, high, low, was, now, doc, tags, plain, op, lsn from {changes(events)}"
FUNCTIONS = {
    "total": "sum",
    "high": "max",
    "low": "min",
    "was": "first",
    "now": "last",
    "doc": "last_non_null",
    "tags": "union",
}
Event = tuple[Any, ...]


def merged(lake: Warehouse, name: str = "m", sql: str = QUERY, **config: Any) -> Model:
    return cdc(lake, name, sql, **{"merge_columns": FUNCTIONS, **config})


def joined(old: Any, new: Any, function: str) -> Any:
    """What a function makes of a value that is there and one that arrives."""
    known = [value for value in (old, new) if value is not None]
    match function:
        case "sum":
            return sum(known) if known else None
        case "max" | "min":
            return {"max": max, "min": min}[function](known) if known else None
        case "union":
            elements = {element for value in known for element in value}
            return sorted(elements, key=lambda element: (element is None, element)) if known else None
        case "first":
            return old
        case "last_non_null":
            return known[-1] if known else None
        case _:
            return new


def applied(events: Sequence[Event], on_match: str = "last") -> list[tuple[Any, ...]]:
    """What events leave behind, one at a time in the order of their sequence, then of their arrival."""
    columns = ("total", "high", "low", "was", "now", "doc", "tags", "plain")
    functions = [FUNCTIONS.get(column, on_match) for column in columns]
    table: dict[int, list[Any]] = {}
    for _, (key, *values, op, _) in sorted(enumerate(events), key=lambda placed: (placed[1][-1], placed[0])):
        if op == "d":
            table.pop(key, None)
            continue
        nothing = [None if function in COMMUTATIVE else new for function, new in zip(functions, values, strict=True)]
        old = table.get(key, nothing)
        table[key] = [joined(*pair) for pair in zip(old, values, functions, strict=True)]
    return sorted(((key, *row) for key, row in table.items()), key=repr)


def stream(seed: int, count: int) -> list[Event]:
    """Events in any order, of which some come twice."""
    chance = random.Random(seed)

    def number() -> int | None:
        return chance.choice([None, *range(-3, 9)])

    def event() -> Event:
        tags = chance.choice([None, [], ["a"], ["b", "a"], ["c", None, "a", "a"]])
        values = (number(), number(), number(), number(), number(), chance.choice([None, "x", "y"]), tags, number())
        return (chance.randrange(8), *values, chance.choice([None, "u", "u", "u", "d"]), chance.randrange(count))

    events = [event() for _ in range(count)]
    again = chance.sample(events, count // 8)
    return [*events, *again]


@pytest.mark.parametrize(
    ("on_match", "merge", "seed"),
    [
        pytest.param("replace", "on_read", 1, marks=pytest.mark.slow),
        pytest.param("update", "on_write", 2, marks=pytest.mark.slow),
        pytest.param("ignore", "on_read", 3, marks=pytest.mark.slow),
        pytest.param("replace", "on_write", 4, marks=pytest.mark.slow),
    ],
)
def test_any_split_of_late_and_repeated_events_leaves_the_same_table(
    lake: Warehouse, on_match: str, merge: str, seed: int
) -> None:
    plain = {"replace": "last", "update": "last_non_null", "ignore": "first"}[on_match]
    events = stream(seed, 64)
    model = merged(lake, on_match=on_match, merge=merge)
    cuts = [0, *sorted(random.Random(seed).sample(range(1, len(events)), 3)), len(events)]
    for start, end in pairwise(cuts):
        lake.append("events", events[start:end], EVENTS)
        lake.run(model)
        assert lake.rows(model) == applied(events[:end], plain), f"seed {seed}"
    compact_table(lake.session_of(model), "full")
    assert lake.rows(model) == applied(events, plain)
    assert lake.broken(model) == lake.left_out(model) == [], f"seed {seed}"
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


COUNTED = "id int, n int, op string, lsn int"
EXPRESSIONS = {
    "n": "CASE WHEN new.op = 'x' THEN old.n * 2 ELSE old.n + new.N END",
    "m": "greatest(old.m, new.n) + old.n",
}


def counted(events: Sequence[tuple[int, int, str, int]]) -> list[tuple[int, int, int]]:
    table: dict[int, tuple[int, int]] = {}
    for key, n, op, _ in sorted(events, key=lambda event: event[-1]):
        if op == "d":
            table.pop(key, None)
        elif key not in table:
            table[key] = (n, n)
        else:
            old, top = table[key]
            table[key] = (old * 2 if op == "x" else old + n, max(top, n) + old)
    return sorted((key, *row) for key, row in table.items())


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_an_expression_sees_one_event_after_the_other_whenever_they_arrive(lake: Warehouse, merge: str) -> None:
    chance = random.Random(9)
    places = chance.sample(range(100), 48)
    events = [(chance.randrange(5), chance.randrange(1, 4), chance.choice("uuuxd"), place) for place in places]
    sql = "select id, n, n as m, op, lsn from {changes(events)}"
    model = merged(lake, sql=sql, merge=merge, merge_columns=EXPRESSIONS)
    for start, end in pairwise((0, 20, 36, 48)):
        lake.append("events", events[start:end], COUNTED)
        lake.run(model)
        assert lake.rows(model) == counted(events[:end])
    assert lake.broken(model) == lake.left_out(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


ORDERS = "id int, customer int, amount int"
TOTALS = "select customer, amount as total, 1 as orders from {changes(orders)}"


def totals(lake: Warehouse, **config: Any) -> Model:
    """Totals by customer of a table that tells what its rows were."""
    functions = {"total": "sum", "orders": "sum"}
    settings: dict[str, Any] = {"primary_key": "customer", "input": "changes", "merge_columns": functions}
    return lake.model("totals", config.pop("sql", TOTALS), **{**settings, **config})


def grouped(rows: Sequence[tuple[int, int, int]], customers: set[int]) -> list[tuple[int, int, int]]:
    amounts = {customer: [amount for _, owner, amount in rows if owner == customer] for customer in customers}
    return sorted(((customer, sum(own), len(own)) for customer, own in amounts.items()), key=repr)


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", pytest.param("on_read", marks=pytest.mark.slow)])
def test_sums_follow_updates_deletes_and_rows_that_move_to_another_key(lake: Warehouse, merge: str) -> None:
    chance = random.Random(5)
    orders = lake.model("orders", "select * from {s}", primary_key="id", merge=merge)
    model = totals(lake, merge=merge)
    customers: set[int] = set()
    for number in range(3):
        keys = chance.sample(range(20), 12)
        rows = [(key, chance.randrange(4), chance.randrange(9)) for key in keys]
        customers |= {customer for _, customer, _ in rows}
        lake.load("s", rows, ORDERS)
        lake.run(orders)
        if number == 1:
            continue  # The next run of the sums reads two commits at once.
        lake.run(model)
        assert lake.rows(model) == grouped(rows, customers)
    assert lake.broken(model) == lake.left_out(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.in_turn
def test_functions_that_can_not_take_back_a_value_say_so_where_they_would_have_to(lake: Warehouse) -> None:
    orders = lake.model("orders", "select * from {s}", primary_key="id")
    functions = {"high": "max", "total": "sum"}
    sql = "select customer, amount as high, amount as total from {changes(orders)}"
    model = totals(lake, sql=sql, merge_columns=functions)
    steps: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]] | None]] = [
        ([(1, 1, 5), (2, 1, 7), (3, 2, 1)], [(1, 7, 12), (2, 1, 1)]),
        ([(1, 1, 6), (2, 1, 7), (3, 2, 9)], [(1, 7, 13), (2, 9, 9)]),
        ([(1, 1, 6), (2, 1, 3), (3, 2, 9)], None),
    ]
    for rows, expected in steps:
        lake.load("s", rows, ORDERS)
        lake.run(orders)
        if expected is None:
            with pytest.raises(DataError, match=r"`merge_columns: high: max` can't take back(?s:.*)'customer': 1"):
                lake.run(model)
        else:
            lake.run(model)
            assert lake.rows(model) == expected
    assert lake.rows(model) == [(1, 7, 13), (2, 9, 9)]


def test_a_source_that_does_not_tell_what_rows_were_is_refused(lake: Warehouse) -> None:
    source = "id int, customer int, amount int, lsn int"
    config = {"primary_key": "id", "input": "changes", "sequence_by": "lsn", "changelog": "input"}
    orders = lake.model("orders", "select id, customer, amount, lsn from {changes(s)}", **config)
    model = totals(lake)
    lake.append("s", [(1, 1, 5, 1)], source)
    lake.run(orders)
    lake.run(model)
    lake.append("s", [(1, 1, 6, 2)], source)
    lake.run(orders)
    with pytest.raises(DataError, match="does not show rows as they were before"):
        lake.run(model)
    sql = "select customer, sum(amount) as total, count(*) as orders from {changes(orders)} group by 1"
    grouping = totals(lake, sql=sql)
    with pytest.raises(ConfigError, match=r"expected: a plain select from one changes"):
        lake.run(grouping)
    assert lake.rows(model) == [(1, 5, 1)]


@pytest.mark.slow
def test_sums_start_from_the_rows_that_a_compacted_changelog_still_has(lake: Warehouse) -> None:
    orders = lake.model("orders", "select * from {s}", primary_key="id", retention={"changes": "1m", "versions": "1m"})
    for rows in ([(1, 1, 5), (2, 1, 7)], [(1, 1, 6), (2, 2, 7)], [(1, 2, 8)]):
        lake.load("s", rows, ORDERS)
        lake.run(orders)
    expiring(lake, orders)
    model = totals(lake)
    lake.run(model)
    assert lake.rows(model) == [(2, 8, 1)]


def test_late_events_after_a_restore_and_declared_rows_are_refused(lake: Warehouse) -> None:
    model = merged(lake)
    event = (1, 1, 1, 1, 1, 1, "x", ["a"], 1, "u")
    lake.append("events", [(*event, 5)], EVENTS)
    lake.run(model)
    restore_version(lake.session_of(model), lake.head(model))
    lake.append("events", [(*event, 3)], EVENTS)
    with pytest.raises(DataError, match="with `merge_columns` a row depends on all events"):
        lake.run(model)
    with pytest.raises(ConfigError, match="without merge_columns"):
        overwrite_with_source(lake.refresh_of(model), lake.table("events"), "9")


@pytest.mark.in_turn
def test_the_examples_of_the_documentation_give_what_they_say(lake: Warehouse) -> None:
    columns = "customer_id int, amount decimal(10,2), channel string, email string, kind string, paid_at int"
    payments = documented(lake, "concepts.md", "## Merge functions", "payments_by_customer")
    orders = lake.model("ods_orders", "select * from {s}", primary_key="id")
    sums = documented(lake, "concepts.md", "## Merge functions", "totals", number=1)
    events = [(1, 5, "web", "a@b", "paid", 10), (1, 2, "app", None, "refund", 30), (2, 1, "app", None, "closed", 5)]
    lake.append("payments", [(payment, Decimal(amount), *rest) for payment, amount, *rest in events], columns)
    lake.run(payments)
    lake.append("payments", [(1, Decimal(7), "web", "late@b", "paid", 20)], columns)
    lake.run(payments)
    assert lake.rows(payments) == [(1, Decimal(14), 10, Decimal(7), ["app", "web"], "late@b", 10, 30)]
    for rows in ([(1, 1, 5), (2, 1, 7)], [(1, 1, 6), (2, 2, 7)]):
        lake.load("s", rows, "id int, customer_id int, amount int")
        lake.run(orders)
        lake.run(sums)
    assert lake.rows(sums) == [(1, 6, 1), (2, 7, 1)]
    assert lake.broken(payments) == lake.broken(sums) == []
