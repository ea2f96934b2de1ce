"""Why a row is what it is: through filters, joins, groups and windows, down to the rows of the source."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.row_trail import RowChange, RowTrail, Transaction
from arctic_runtime.model.table import Model
from arctic_runtime.operations.why import build_trail_json, describe_trail
from arctic_runtime.spark.why import upstream_rows
from arctic_runtime.spark.why.trail import RowSearch
from tests.spark.replay import ORDERS as REPLAYED
from tests.spark.replay import Part, Replay, event, ingest, source_of
from tests.spark.warehouse import Warehouse

ORDERS = "id int, customer int, amount int, seq int, op string"
EVENTS = {"primary_key": "id", "input": "changes", "sequence_by": "seq", "delete_when": "op = 'd'"}
STORED = {"exclude_columns": ["seq", "op"]}


def trace(lake: Warehouse, models: list[Model], model: Model, *key: Any, **options: Any) -> RowTrail:
    search = RowSearch(lake.reader, lake.spark, {one.table: one for one in models}, options.pop("depth", None))
    return search.trace_row(model, [str(part) for part in key], **options)


def list_named(change: RowChange) -> list[tuple[str, dict[str, Any], str]]:
    """The upstream changes of a change: table, key and action of each."""
    return [
        (upstream.table.name, dict(one.key), one.action) for upstream in change.upstreams for one in upstream.changes
    ]


def build_orders(lake: Warehouse) -> Model:
    return lake.model("orders", "select * from {changes(landed)}", **EVENTS, **STORED)


@pytest.mark.in_turn
def test_a_sum_comes_from_the_change_of_one_order(lake: Warehouse) -> None:
    orders = build_orders(lake)
    paid = lake.model("paid", "select id, customer, amount from {orders} where amount > 0", primary_key="id")
    totals = lake.model(
        "totals", "select customer, sum(amount) as total from {paid} group by customer", primary_key="customer"
    )
    models = [orders, paid, totals]
    lake.append("landed", [(1, 7, 10, 1, "c"), (2, 7, 5, 1, "c"), (3, 8, 1, 1, "c")], ORDERS)
    for model in models:
        lake.run(model)
    lake.append("landed", [(2, 7, 6, 2, "u"), (3, 8, -1, 2, "u")], ORDERS)
    for model in models:
        lake.run(model)

    newest, first = trace(lake, models, totals, 7).changes
    assert (newest.action, newest.before, newest.after) == (
        "update",
        {"customer": 7, "total": 15},
        {"customer": 7, "total": 16},
    )
    assert newest.is_proven
    assert list_named(newest) == [("paid", {"id": 2}, "update")]
    (middle,) = newest.upstreams[0].changes
    assert middle.is_proven
    assert list_named(middle) == [("orders", {"id": 2}, "update")]
    assert first.action == "insert"
    assert list_named(first) == [("paid", {"id": 1}, "insert"), ("paid", {"id": 2}, "insert")]

    (gone, _) = trace(lake, models, totals, 8).changes
    assert gone.action == "delete"
    assert list_named(gone) == [("paid", {"id": 3}, "delete")]
    assert list_named(gone.upstreams[0].changes[0]) == [("orders", {"id": 3}, "update")]


@pytest.mark.in_turn
def test_an_upstream_whose_changed_rows_have_no_effect_is_named_with_their_number(lake: Warehouse) -> None:
    orders = build_orders(lake)
    people = lake.model(
        "people", "select * from {changes(landed_people)}", **EVENTS | {"primary_key": "customer"}, **STORED
    )
    query = (
        "select o.id, o.amount, p.region > 0 as is_far from {orders} o left join {people} p on p.customer = o.customer"
    )
    models = [orders, people, lake.model("shown", query, primary_key="id")]
    for seq in (1, 2):
        lake.append("landed", [(1, 7, 10 + seq, seq, "c")], ORDERS)
        lake.append("landed_people", [(7, seq, seq, "c")], "customer int, region int, seq int, op string")
        for model in models:
            lake.run(model)
    newest, _ = trace(lake, models, models[-1], 1).changes
    assert newest.is_proven
    counts = {upstream.table.name: (len(upstream.changes), upstream.without_effect) for upstream in newest.upstreams}
    assert counts == {"orders": (1, 0), "people": (0, 1)}


@pytest.mark.in_turn
def test_a_trail_of_keys_reads_no_table_by_spark_and_says_what_it_follows(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = build_orders(lake)
    totals = lake.model(
        "totals", "select customer, sum(amount) as total from {orders} group by customer", primary_key="customer"
    )
    lake.append("landed", [(1, 7, 10, 1, "c"), (2, 7, 5, 1, "c"), (3, 8, 1, 1, "c")], ORDERS)
    for model in (orders, totals):
        lake.run(model)
    lake.append("landed", [(2, 8, 6, 2, "u"), (1, 7, 10, 2, "d")], ORDERS)
    for model in (orders, totals):
        lake.run(model)

    def refuse(*_: Any) -> list[Any]:
        raise AssertionError("Spark has read a table")

    for name in ("read_rows_at", "read_until", "read_appended_rows"):
        monkeypatch.setattr(upstream_rows, name, refuse)
    said: list[str] = []
    search = RowSearch(lake.reader, lake.spark, {one.table: one for one in (orders, totals)}, say=said.append)
    newest, _ = search.trace_row(totals, ["7"]).changes
    assert (newest.action, newest.is_proven) == ("delete", True)
    assert list_named(newest) == [("orders", {"id": 1}, "delete"), ("orders", {"id": 2}, "update")]
    assert newest.run is not None
    assert said[0] == f"{totals.table}: version {newest.run.version}"
    assert [line.split(":")[0] for line in said] == [str(totals.table), *[str(orders.table)] * 2] * 2


def test_changes_after_the_time_for_a_trail_are_named_and_not_followed(lake: Warehouse) -> None:
    orders = build_orders(lake)
    doubled = lake.model("doubled", "select id, amount * 2 as amount from {orders}", primary_key="id")
    for amount in (1, 2):
        lake.append("landed", [(1, 7, amount, amount, "u")], ORDERS)
        lake.run(orders)
        lake.run(doubled)
    times = chain((0, 4), repeat(6))
    reader = lake.under(why={"seconds": 5}).reader
    search = RowSearch(reader, lake.spark, {one.table: one for one in (orders, doubled)}, clock=lambda: next(times))
    newest, first = search.trace_row(doubled, ["1"]).changes
    assert newest.is_proven
    (order,) = newest.upstreams[0].changes
    assert (order.upstreams, first.upstreams) == ((), ())
    assert order.ends == first.ends == "not followed after 5 s; ask for this row and version alone"


@pytest.mark.slow
def test_a_joined_row_comes_from_the_side_that_changed(lake: Warehouse) -> None:
    lake.append("people", [(7, "ann", 1, "c"), (8, "bob", 1, "c")], "customer int, name string, seq int, op string")
    customers = lake.model(
        "customers", "select * from {changes(people)}", **{**EVENTS, "primary_key": "customer"}, **STORED
    )
    orders = build_orders(lake)
    named = lake.model(
        "named",
        "select o.id, o.amount, c.name from {orders} o left join {customers} c on c.customer = o.customer",
        primary_key="id",
    )
    ranked = lake.model(
        "ranked",
        "select id, name, rank() over (partition by name order by amount, id) as place from {named}",
        primary_key="id",
    )
    models = [orders, customers, named, ranked]
    lake.append("landed", [(1, 7, 10, 1, "c"), (2, 7, 5, 1, "c"), (3, 8, 1, 1, "c")], ORDERS)
    for model in models:
        lake.run(model)
    lake.append("people", [(7, "anna", 2, "u"), (8, "bobby", 2, "u")], "customer int, name string, seq int, op string")
    lake.append("landed", [(4, 7, 1, 2, "c")], ORDERS)
    for model in models:
        lake.run(model)

    change = trace(lake, models, named, 1, depth=1).changes[0]
    assert change.is_proven
    assert list_named(change) == [("customers", {"customer": 7}, "update")]
    assert change.upstreams[0].changes[0].ends == "deeper layers were not asked for"

    place = trace(lake, models, ranked, 1).changes[0]
    assert place.is_proven
    assert place.changed_columns == ("name", "place")
    assert ("named", {"id": 1}, "update") in list_named(place)
    assert ("named", {"id": 4}, "insert") in list_named(place)
    assert ("named", {"id": 3}, "update") not in list_named(place)


@pytest.mark.in_turn
def test_a_trail_ends_at_the_event_of_a_landing_table(lake: Warehouse) -> None:
    orders = build_orders(lake)
    partial = lake.model(
        "partial",
        "select id, amount, customer, seq, op from {changes(landed)}",
        **{**EVENTS, "on_match": "update", "exclude_columns": ["seq", "op"]},
    )
    history = lake.model(
        "history", "select id, amount from {orders} where amount > 0", primary_key="id", history="scd2"
    )
    lake.load("names", [(7, "ann")], "customer int, name string")
    joined = lake.model(
        "joined",
        "select e.id, n.name, e.amount, e.seq, e.op"
        " from {changes(landed)} e left join {names} n on n.customer = e.customer",
        **EVENTS,
        **STORED,
    )
    models = [orders, partial, history, joined]
    lake.append("landed", [(1, 7, 10, 1, "c"), (2, 7, 5, 1, "c")], ORDERS)
    for model in models:
        lake.run(model)
    lake.append("landed", [(1, None, 11, 2, "u"), (1, None, 12, 3, "u")], ORDERS)
    for model in models:
        lake.run(model)

    newest, first = trace(lake, models, partial, 1).changes
    assert (newest.before, newest.after) == (
        {"id": 1, "amount": 10, "customer": 7},
        {"id": 1, "amount": 12, "customer": 7},
    )
    assert newest.notes == ("values that these events do not give are those of earlier events of the key",)
    (landed,) = newest.upstreams
    assert [event.after["seq"] for event in landed.changes if event.after] == [2, 3]
    assert [event.transaction.operation for event in landed.changes if event.transaction] == ["event", "event"]
    assert [event.after["seq"] for event in first.upstreams[0].changes if event.after] == [1]

    (last, _) = trace(lake, models, joined, 1).changes
    assert last.after == {"id": 1, "name": None, "amount": 12}
    assert [one.after["seq"] for one in last.upstreams[0].changes if one.after] == [2, 3]
    assert last.notes == (f"{lake.table('names')} is joined as it is now",)

    versions = trace(lake, models, history, 1).changes
    assert [(change.action, dict(change.key)["id"]) for change in versions] == [
        ("insert", 1),
        ("update", 1),
        ("insert", 1),
    ]
    for change in versions[:2]:
        assert list_named(change) == [("orders", {"id": 1}, "update")]
        (order,) = change.upstreams[0].changes
        assert [one.after["seq"] for one in order.upstreams[0].changes if one.after] == [2, 3]


@pytest.mark.in_turn
def test_a_trail_ends_at_the_transaction_of_an_ingested_source(lake: Warehouse) -> None:
    source = source_of(lake, "orders")
    order = {"id": 1, "item": "pen", "n": 2}
    log = [[Part("public.orders", REPLAYED, [event("c", None, order, lsn=5)])]]
    ingest(lake, source, Replay(log))
    ordered = source.tables[0].to_model(("id",))
    doubled = lake.model("doubled", "select id, n * 2 as n from {orders} where n > 0", primary_key="id")
    lake.run(doubled)
    log.append([Part("public.orders", REPLAYED, [event("u", order, {**order, "n": 3}, at=2_000_000, lsn=6)])])
    ingest(lake, source, Replay(log))
    lake.run(doubled)

    trail = trace(lake, [ordered, doubled], doubled, 1)
    newest = trail.changes[0]
    assert newest.is_proven
    (change,) = newest.upstreams[0].changes
    assert change.transaction == Transaction("public.orders", "update", "2", "2023-11-14T22:13:22.000000Z")
    lines = list(describe_trail(trail, 40))
    assert lines[1].startswith("id=1: update n 4 → 6 (incremental, version ")
    assert lines[2].startswith("└─ ")
    assert lines[4] == "      └─ source public.orders: update at 2, 2023-11-14T22:13:22.000000Z"
    origin = build_trail_json(trail)["changes"][0]["upstreams"][0]["changes"][0]["transaction"]
    assert origin == {
        "source": "public.orders",
        "operation": "update",
        "position": "2",
        "at": "2023-11-14T22:13:22.000000Z",
    }


@pytest.mark.in_turn
def test_a_trail_says_where_it_ends(lake: Warehouse) -> None:
    lake.append("rows", [(1, 1), (2, 2)], "id int, n int")
    sql = "select id, n, timestamp_seconds(id) as at, named_struct('a', n, 'b', array(n)) as parts from {rows}"
    model = lake.model("m", sql, primary_key="id")
    top = lake.model("top", "select id, n, sum(n) over (order by id) as run from {m}", primary_key="id")
    lake.run(model)
    lake.run(top)
    lake.append("rows", [(3, 3)], "id int, n int")
    lake.run(model)
    lake.run(top)
    assert trace(lake, [model, top], top, 7).changes == ()

    change = trace(lake, [model, top], top, 3).changes[0]
    assert list_named(change) == [("m", {"id": 3}, "insert")]
    (row,) = change.upstreams[0].changes
    assert row.is_proven
    assert [one.after for one in row.upstreams[0].changes] == [{"id": 3, "n": 3}]
    small = lake.under(why={"rows": 1})
    change = trace(small, [model, top], top, 3).changes[0]
    assert (change.upstreams[0].among, change.is_proven) == (1, False)

    other = lake.model("m", "select id, n + 1 as n from {rows}", primary_key="id")
    lake.run(other)
    newest, oldest = trace(lake, [other], other, 1).changes
    assert newest.ends == "the run followed an edit of the query (EDITED)"
    assert oldest.ends == "the model's query has changed since this run"
    with pytest.raises(ConfigError, match="no change of this row"):
        trace(lake, [other], other, 1, version="1")
    with pytest.raises(ConfigError, match="number of key values is wrong"):
        trace(lake, [other], other, 1, 2)
