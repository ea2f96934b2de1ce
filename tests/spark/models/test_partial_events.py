"""Events that have some columns of their row only: a list, a mask or a text says which, and null is a value."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.refresh.overwrite import overwrite_with_source, restore_version
from tests.spark.documented import documented
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from arctic_runtime.model.table import Model

MARKER = "__debezium_unavailable_value"
COLUMNS = ("name", "email", "score")
EVENTS = "id int, name string, email string, score int, op string, at int, changed array<string>"

LIST = "changed"
MASK = (
    "case when changed is not null then named_struct('name', array_contains(changed, 'name'), "
    "'EMAIL', array_contains(changed, 'email'), 'score', array_contains(changed, 'score')) end as changed"
)
MAP = (
    "case when changed is not null then map_from_arrays(array('name', 'Email', 'score'), "
    "transform(array('name', 'email', 'score'), x -> array_contains(changed, x))) end as changed"
)
BITS = (
    "filter(array('name', 'email', 'score'), (x, i) -> getbit("
    "case when changed is null or array_contains(changed, 'name') then 1 else 0 end + "
    "case when changed is null or array_contains(changed, 'email') then 2 else 0 end + "
    "case when changed is null or array_contains(changed, 'score') then 4 else 0 end, i) = 1) as changed"
)
Event = tuple[Any, ...]


def customers(lake: Warehouse, changed: str = LIST, sql: str | None = None, **config: Any) -> Model:
    query = f"select id, name, email, score, op, at, {changed} from {{changes(events)}}"
    settings: dict[str, Any] = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": "at",
        "columns_to_update": "changed",
        "delete_when": "op = 'd'",
        "exclude_columns": "op",
    }
    declared = {key: value for key, value in {**settings, **config}.items() if value is not None}
    return lake.model("customers", sql or query, **declared)


def applied(events: Sequence[Event], columns: Sequence[str] = COLUMNS) -> list[tuple[Any, ...]]:
    """What events leave behind, one at a time in the order of their place, then of their arrival."""
    table: dict[int, dict[str, Any]] = {}
    for _, (key, *values, op, at, changed) in sorted(enumerate(events), key=lambda placed: (placed[1][-2], placed[0])):
        if op == "d":
            table.pop(key, None)
            continue
        row = table.setdefault(key, dict.fromkeys((*columns, "at")))
        row["at"] = at
        row |= {
            column: value for column, value in zip(columns, values, strict=True) if changed is None or column in changed
        }
    return sorted(((key, *row.values()) for key, row in table.items()), key=repr)


def stream(seed: int, count: int, keys: int = 6) -> list[Event]:
    """Events in any order, of which some come twice. A value of a column that an event does not have says nothing."""
    some: list[list[str] | None] = [None, [], ["name"], ["email", "score"], ["score"], ["name", "email"]]
    return drawn(random.Random(seed), count, keys, ([None, "a", "b"], [None, "x", "y"], [None, 1, 2]), some)


def drawn(
    chance: random.Random,
    count: int,
    keys: int,
    values: Sequence[Sequence[Any]],
    some: Sequence[list[str] | None],
) -> list[Event]:
    """Events with one of the `values` of each column, and `some` of the columns."""
    events: list[Event] = [
        (
            chance.randrange(keys),
            *map(chance.choice, values),
            chance.choice("uuuud"),
            at,
            chance.choice(some),
        )
        for at in chance.sample(range(1000), count)
    ]
    return [*events, *chance.sample(events, count // 6)]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("changed", "merge", "keep", "seed"),
    [
        (LIST, "on_write", "net", 1),
        pytest.param(MASK, "on_read", "net", 2, marks=pytest.mark.slow),
        pytest.param(MAP, "on_write", "all", 3, marks=pytest.mark.slow),
        pytest.param(LIST, "on_read", "all", 4, marks=pytest.mark.slow),
        pytest.param(BITS, "on_write", "net", 5, marks=pytest.mark.slow),
    ],
)
def test_any_order_of_partial_events_leaves_each_column_as_its_newest_event_says(
    lake: Warehouse, changed: str, merge: str, keep: str, seed: int
) -> None:
    events = stream(seed, 48)
    model = customers(lake, changed, merge=merge, keep=keep)
    for start, end in pairwise((0, 20, 36, len(events))):
        lake.append("events", events[start:end], EVENTS)
        lake.run(model)
        assert lake.rows(model) == applied(events[:end]), f"seed {seed}"
    compact_table(lake.session_of(model), "full")
    assert lake.rows(model) == applied(events)
    assert lake.broken(model) == lake.left_out(model) == [], f"seed {seed}"
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_value_that_the_source_did_not_send_stays_as_it_is(lake: Warehouse, merge: str) -> None:
    events = [(*event[:-1], [*event[-1], "score"] if event[-1] is not None else None) for event in stream(7, 48)]
    marked = [
        (
            key,
            *[
                value if changed is None or column in changed else MARKER
                for column, value in (("name", n), ("email", e))
            ],
            *values,
        )
        for key, n, e, *values, changed in events
    ]
    sql = "select id, name, email, score, op, at from {changes(events)}"
    model = customers(lake, sql=sql, columns_to_update=None, unavailable_value=MARKER, merge=merge)
    columns = "id int, name string, email string, score int, op string, at int"
    for start, end in pairwise((0, 20, 36, len(events))):
        lake.append("events", marked[start:end], columns)
        lake.run(model)
        assert lake.rows(model) == applied(events[:end])
    assert lake.broken(model) == lake.left_out(model) == []
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


def test_each_type_has_its_form_of_the_text_for_values_that_were_not_sent(lake: Warehouse) -> None:
    raw = MARKER.encode()
    kinds = {
        "string": ("old", MARKER),
        "binary": (bytearray(b"old"), bytearray(raw)),
        "array<string>": (["old"], [MARKER]),
        "array<binary>": ([bytearray(b"old")], [bytearray(raw)]),
        "array<int>": ([1], list(raw)),
        "array<double>": ([1.0], [float(number) for number in raw]),
        "map<string,string>": ({"old": "old"}, {MARKER: MARKER}),
    }
    names = [f"c{i}" for i in range(len(kinds))]
    columns = ", ".join(["id int", "at int", *(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))])
    sql = f"select id, at, {', '.join(names)} from {{changes(events)}}"
    config = {"primary_key": "id", "input": "changes", "sequence_by": "at", "unavailable_value": MARKER}
    model = lake.model("m", sql, **config)
    old, unsent = ([pair[i] for pair in kinds.values()] for i in (0, 1))
    lake.append("events", [(1, 1, *old), (2, 1, *old)], columns)
    lake.run(model)
    lake.append("events", [(1, 2, *unsent), (2, 2, *[None] * len(names)), (3, 2, *unsent)], columns)
    lake.run(model)
    nothing = [None] * len(names)
    assert lake.rows(model) == [(1, 2, *old), (2, 2, *nothing), (3, 2, *nothing)]


PROFILES = "id int, name string, email string, op string, at int, changed array<string>"
ORDERS = "id int, last string, spent int, op string, at int, changed array<string>"
UNION = (
    "select id, name, email, at as profile_at, cast(null as string) as last, cast(null as int) as spent, "
    "cast(null as int) as order_at, op, changed from {changes(profiles)} "
    "union all select id, null, null, null, last, spent, at, op, changed from {changes(orders)}"
)
FLOWS = {"profile_at": ["name", "email"], "order_at": ["last", "spent"]}


def wide_rows(flows: dict[str, Sequence[Event]]) -> list[tuple[Any, ...]]:
    """Of each flow the columns as the newest events with them say; a delete empties all columns of its flow."""
    empty = dict.fromkeys(column for at, columns in FLOWS.items() for column in (*columns, at))
    table: dict[int, dict[str, Any]] = {}
    for place, events in flows.items():
        ordered = sorted(enumerate(events), key=lambda placed: (placed[1][-2], placed[0]))
        for _, (key, *values, op, at, changed) in ordered:
            row = table.setdefault(key, dict(empty))
            for flow, value in zip(FLOWS[place], values, strict=True):
                if op == "d" or changed is None or flow in changed:
                    row[flow] = None if op == "d" else value
            row[place] = at
    return sorted(((key, *row.values()) for key, row in table.items()), key=repr)


def flow_stream(seed: int, count: int, columns: Sequence[str], numbers: bool) -> list[Event]:
    second: list[Any] = [None, 1, 2] if numbers else [None, "p", "q"]
    some: list[list[str] | None] = [None, [], [columns[0]], [columns[1]]]
    return drawn(random.Random(seed), count, 5, ([None, "x", "y"], second), some)


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("merge", "seed"), [pytest.param("on_write", 11, marks=pytest.mark.slow), pytest.param("on_read", 12)]
)
def test_a_late_event_of_a_flow_still_brings_the_columns_that_no_later_one_has(
    lake: Warehouse, merge: str, seed: int
) -> None:
    profiles = flow_stream(seed, 30, FLOWS["profile_at"], numbers=False)
    orders = flow_stream(seed + 100, 30, FLOWS["order_at"], numbers=True)
    config = {"sequence_by": FLOWS, "delete_when": "op = 'd'", "columns_to_update": "changed"}
    model = lake.model("wide", UNION, primary_key="id", input="changes", exclude_columns="op", merge=merge, **config)
    seen: dict[str, list[Event]] = {"profile_at": [], "order_at": []}
    for number, (start, end) in enumerate(pairwise((0, 12, 24, 35))):
        for place, table, events, columns in (
            ("profile_at", "profiles", profiles[start:end], PROFILES),
            ("order_at", "orders", orders[start:end], ORDERS),
        ):
            if number == 1 and place == "order_at":
                continue
            part = events if number != 2 or place == "profile_at" else orders[12:]
            lake.append(table, part, columns)
            seen[place] += part
        lake.run(model)
        assert lake.rows(model) == wide_rows(dict(seen)), f"seed {seed}"
    compact_table(lake.session_of(model), "full")
    assert lake.rows(model) == wide_rows(dict(seen))
    assert lake.broken(model) == lake.left_out(model) == [], f"seed {seed}"
    assert lake.actions(lake.run(model, full_refresh=True)) == (0, 0, 0)


@pytest.mark.slow
def test_functions_count_the_columns_that_an_event_has_alone(lake: Warehouse) -> None:
    functions = {
        "name": "last_non_null",
        "score": "sum",
        "email": "coalesce(new.email, '-') || coalesce(old.email, '')",
    }
    model = customers(lake, merge_columns=functions, delete_when=None)
    lake.append("events", [(1, "a", "x", 5, "u", 1, None), (2, "b", "y", 7, "u", 2, ["name"])], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "a", "x", 5, 1), (2, "b", None, None, 2)]
    late = (1, "c", "z", 2, "u", 0, ["score"])
    lake.append("events", [late, (1, "d", "w", 3, "u", 4, ["EMAIL"]), (2, "e", None, 1, "u", 3, ["score"])], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "a", "wx", 7, 4), (2, "b", None, 1, 3)]
    assert lake.broken(model) == lake.left_out(model) == []


@pytest.mark.slow
def test_without_a_sequence_the_position_in_the_source_orders_the_events(lake: Warehouse) -> None:
    model = customers(lake, sequence_by=None, exclude_columns=["op", "at"])
    events = [(*event[:-2], at, event[-1]) for at, event in enumerate(stream(9, 40))]
    for start, end in pairwise((0, 25, len(events))):
        lake.append("events", events[start:end], EVENTS)
        lake.run(model)
        assert lake.rows(model) == [row[:-1] for row in applied(events[:end])]
    assert lake.broken(model) == lake.left_out(model) == []


@pytest.mark.slow
def test_a_column_that_comes_later_is_null_until_an_event_brings_it(lake: Warehouse) -> None:
    sql = "select id, name, op, at, changed from {changes(events)}"
    lake.append("events", [(1, "a", "x", 5, "u", 1, None)], EVENTS)
    lake.run(customers(lake, sql=sql))
    model = customers(lake)
    down = lake.model("down", "select email, count(*) as n from {customers} group by email", primary_key="email")
    lake.append("events", [(1, "b", "y", 6, "u", 2, ["name"]), (2, "c", "z", 7, "u", 2, ["email", "id"])], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "b", 2, None, None), (2, None, 2, "z", None)]
    lake.append("events", [(1, None, "w", 6, "u", 3, ["email", "score"])], EVENTS)
    lake.run(model)
    assert lake.rows(model) == [(1, "b", 3, "w", 6), (2, None, 2, "z", None)]
    lake.run(down)
    assert lake.rows(down) == [("w", 1), ("z", 1)]
    assert lake.broken(model) == lake.broken(down) == []


def test_misspelt_columns_and_what_needs_whole_rows_are_refused(lake: Warehouse) -> None:
    model = customers(lake)
    lake.append("events", [(1, "a", "x", 5, "u", 5, ["name", "mail"])], EVENTS)
    with pytest.raises(DataError, match=r"of 1 events names columns that the query does not have(?s:.*)'mail'"):
        lake.run(model)
    model = customers(lake, "array_intersect(changed, array('name')) as changed")
    lake.run(model)
    assert lake.rows(model) == [(1, "a", None, None, 5)]
    with pytest.raises(ConfigError, match="without merge_columns, columns_to_update and unavailable_value"):
        overwrite_with_source(lake.refresh_of(model), lake.table("events"), "9")
    restore_version(lake.session_of(model), lake.head(model))
    lake.append("events", [(1, "b", "x", 5, "u", 3, ["name"])], EVENTS)
    with pytest.raises(DataError, match="with `columns_to_update` a row depends on all events"):
        lake.run(model)
    sums = lake.model(
        "sums",
        "select name, score, array('score') as changed from {changes(customers)}",
        primary_key="name",
        input="changes",
        merge_columns={"score": "sum"},
        columns_to_update="changed",
    )
    with pytest.raises(ConfigError, match="takes back whole rows"):
        lake.run(sums)


def test_the_example_of_the_documentation_keeps_columns_that_an_event_does_not_have(lake: Warehouse) -> None:
    model = documented(lake, "concepts.md", "### Which columns an event has", "customers")
    columns = "customer_id int, name string, email string, notes string, op string, lsn int, changed array<string>"
    first = (7, "Ann", "ann@x", "long", "c", 1, None)
    lake.append("customer_events", [first], columns)
    lake.run(model)
    news = [(7, None, None, MARKER, "u", 2, None), (7, None, "a@x", None, "u", 3, ["email", "phone"])]
    lake.append("customer_events", news, columns)
    lake.run(model)
    assert lake.rows(model) == [(7, None, "a@x", "long", 3)]
    assert lake.broken(model) == []
