"""Why a row is what it is: through filters, joins, groups and windows, down to the rows of the source."""

from __future__ import annotations

from typing import Any

from arctic_runtime.model.row_trail import RowChange, RowTrail
from arctic_runtime.model.table import Model
from arctic_runtime.spark.why.trail import RowSearch
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
