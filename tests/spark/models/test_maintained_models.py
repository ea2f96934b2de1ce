"""Models over other models, kept by what changed: exact after every batch, and no more written than what differs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from arctic_runtime.ivm.strategies.pairs import Pairs
from arctic_runtime.model.table import Model
from arctic_runtime.spark.refresh import increments
from arctic_runtime.thresholds import IncrementalThresholds
from tests.spark.warehouse import Warehouse, sorted_rows

ORDERS = "id int, customer int, amount decimal(10,2), state string"
CUSTOMERS = "customer int, name string, city string"

QUERIES: dict[str, tuple[str | list[str], str]] = {
    "join": (
        "id",
        "select o.id, o.amount, c.name, c.city from {orders} o left join {customers} c on o.customer = c.customer",
    ),
    "inner join and filter": (
        "id",
        "select id, name, amount * 2 as twice from {orders} join {customers} using (customer) where state <> 'void'",
    ),
    "groups": (
        "city",
        "select coalesce(c.city, '-') as city, count(*) as n, sum(o.amount) as total, max(o.amount) as top, "
        "count(distinct o.state) as states from {orders} o left join {customers} c using (customer) group by 1",
    ),
    "having": (
        "customer",
        "select customer, avg(amount) as mean from {orders} where customer is not null "
        "group by customer having count(*) > 1",
    ),
    "ranks": (
        "id",
        "select id, customer, row_number() over (partition by customer order by amount, id) as place, "
        "sum(amount) over (partition by customer) as total from {orders}",
    ),
    "without partner": (
        "customer",
        "select * from {customers} c where not exists "
        "(select 1 from {orders} o where o.customer = c.customer and o.state = 'paid')",
    ),
    "both kinds": (
        ["kind", "id"],
        "select 'order' as kind, id, amount from {orders} where amount > 3 "
        "union all select 'customer', customer, null from {customers}",
    ),
    "full join": (
        "key",
        "select coalesce(a.customer, c.customer) as key, n, name from (select customer, count(*) as n from {orders} "
        "where customer is not null group by customer) a full join {customers} c on a.customer = c.customer",
    ),
    "rollup": (
        ["level", "city", "state"],
        "select grouping_id() as level, coalesce(c.city, '-') as city, coalesce(o.state, '-') as state, count(*) as n, "
        "sum(o.amount) as total, max(o.id) as last from {orders} o left join {customers} c using (customer) "
        "group by rollup(c.city, o.state)",
    ),
    "through a view": ("id", "select v.id, v.name, v.amount from {named} v where v.amount is not null"),
}

TELLING = ("join", "groups", "ranks", "full join", "rollup", "through a view")
"""Queries of all kinds of maintenance, which every run of the tests follows."""

MORE: dict[str, tuple[str | list[str], str]] = {
    "cube by affected keys": (
        ["level", "city", "state"],
        "select grouping_id() as level, coalesce(c.city, '-') as city, coalesce(o.state, '-') as state, "
        "count(distinct o.amount) as n from {orders} o left join {customers} c using (customer) "
        "group by cube(c.city, o.state)",
    ),
    "a row that is looked up": (
        "id",
        "select id, amount, (select name from {customers} c where c.customer = o.customer) as name from {orders} o",
    ),
    "not in, with nulls": (
        "id",
        "select id, amount from {orders} where customer not in (select customer from {orders} where state = 'void')",
    ),
    "in below or": (
        "id",
        "select id, amount from {orders} where amount > 4 or customer in "
        "(select customer from {customers} where city = 'x')",
    ),
    "the orders before": (
        "id",
        "select id, (select count(*) from {orders} p where p.customer = o.customer and p.id < o.id) as n "
        "from {orders} o",
    ),
    "the greatest sums": (
        "customer",
        "select customer, sum(amount) as total from {orders} where customer is not null group by customer "
        "order by total desc, customer limit 3",
    ),
}
"""Queries that the slow tests follow as well."""

JOINS: dict[str, tuple[str, str]] = {
    "joined to itself": (
        "id",
        "select o.id, o.amount, p.amount as other, c.name, d.city from {orders} o join {orders} p on p.id = o.customer "
        "join {customers} c on c.customer = o.customer left join {customers} d on d.customer = p.customer",
    ),
    "sums of a join": (
        "city",
        "select c.city, count(*) as n, sum(o.amount) as total from {orders} o join {customers} c using (customer) "
        "where c.city is not null group by c.city",
    ),
}
"""Queries of which the changes of one table look for partners in another in several ways."""


@dataclass
class Shop:
    """Two keyed tables whose rows come from random batches of events."""

    lake: Warehouse
    random: random.Random
    orders: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    customers: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    models: tuple[Model, ...] = ()

    def __post_init__(self) -> None:
        common = {"input": "changes", "delete_when": "op = 'd'", "exclude_columns": ["op"]}
        orders = "select id, customer, amount, state, op from {changes(order_events)}"
        customers = "select customer, name, city, op from {changes(customer_events)}"
        self.models = (
            self.lake.model("orders", orders, primary_key="id", merge="on_read", **common),
            self.lake.model("customers", customers, primary_key="customer", **common),
        )

    def batch(self, size: int, commits: int = 1) -> None:
        for _ in range(commits):
            self._append("order_events", ORDERS, self.orders, 40, size, self._order)
            self._append("customer_events", CUSTOMERS, self.customers, 8, max(1, size // 4), self._customer)
            for model in self.models:
                self.lake.run(model)

    def _append(
        self, table: str, columns: str, held: dict[int, Any], keys: int, size: int, make: Callable[[int], Any]
    ) -> None:
        events = []
        for _ in range(size):
            key = self.random.randrange(keys)
            if key in held and self.random.random() < 0.3:
                events.append((*held.pop(key), "d"))
            else:
                held[key] = make(key)
                events.append((*held[key], "u"))
        self.lake.append(table, events, f"{columns}, op string")

    def _order(self, key: int) -> tuple[Any, ...]:
        pick = self.random.choice
        amount = pick([None, *range(6)])
        return (key, pick([None, *range(8)]), None if amount is None else _cents(amount), pick(["paid", "void", "new"]))

    def _customer(self, key: int) -> tuple[Any, ...]:
        return (key, self.random.choice("abc"), self.random.choice(["x", "y", None]))


def _cents(amount: int) -> Any:
    from decimal import Decimal

    return Decimal(amount)


def a_view(lake: Warehouse) -> None:
    lake.spark.sql(
        f"create view {lake.sql_name('named')} as select o.id, o.amount, c.name from {lake.sql_name('orders')} o "
        f"left join {lake.sql_name('customers')} c on o.customer = c.customer"
    )


LARGE: dict[str, dict[str, int]] = {
    "pruning": {"scanned_table_rows": 0, "scanned_table_ratio": 0, "bucket_pruning_keys": 0},
    "incremental": {
        "compared_groups": 0,
        "large_source_rows": 0,
        "single_task_rows": 0,
        "cached_change_rows": 0,
    },
    "joins": {"shuffled_rows": 0},
}
HUGE = {
    **LARGE,
    "incremental": {
        **LARGE["incremental"],
        "repeated_read_rows": -1,
        "always_incremental_rows": -1,
        "reducer_row_ratio": 0,
    },
}
SIZES: dict[str, dict[str, dict[str, int]]] = {"small": {}, "large": LARGE, "huge": HUGE}


@pytest.fixture(
    params=["large", pytest.param("small", marks=pytest.mark.slow), pytest.param("huge", marks=pytest.mark.slow)]
)
def sized(request: pytest.FixtureRequest, lake: Warehouse) -> Warehouse:
    """A warehouse whose tables are maintained as small ones, or as large ones, of which as little is read as can be."""
    return lake.under(**SIZES[request.param])


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 12])
def test_maintained_tables_are_what_their_queries_give_after_all_batches(sized: Warehouse, batches: int) -> None:
    """Verified after every fourth batch and the last: what one batch leaves wrong stays wrong in the next ones."""
    lake = sized
    queries = {name: QUERIES[name] for name in TELLING} if batches < 12 else {**QUERIES, **MORE}
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed of the batches: {seed}")
    shop = Shop(lake, random.Random(seed))
    shop.batch(30)
    a_view(lake)
    models = [
        lake.model(f"m{place}", sql, primary_key=key, refresh="strict", merge="on_read" if place % 2 else "on_write")
        for place, (key, sql) in enumerate(queries.values())
    ]
    for model in models:
        assert lake.run(model).mode == "create"
    for turn in range(batches):
        shop.batch(shop.random.choice([1, 4, 12]), commits=2 - turn % 2)
        for name, model in zip(queries, models, strict=True):
            assert lake.run(model).mode in ("incremental", "unchanged"), name
            assert lake.run(model).mode == "unchanged", name
        if turn % 4 == 3 or turn == batches - 1:
            assert {
                name: broken for name, model in zip(queries, models, strict=True) if (broken := lake.broken(model))
            } == {}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        pytest.param("joined to itself", IncrementalThresholds().reducer_values, marks=pytest.mark.slow),
        pytest.param("sums of a join", -1, marks=pytest.mark.slow),
        pytest.param("joined to itself", -1, marks=pytest.mark.slow),
        pytest.param("sums of a join", IncrementalThresholds().reducer_values, marks=pytest.mark.slow),
    ],
)
def test_a_table_that_several_terms_read_is_read_once_for_all(lake: Warehouse, name: str, most: int) -> None:
    """Also where more is sought in it than is looked for in that way."""
    lake = lake.under(incremental={"cached_change_rows": 0, "reducer_values": most, "repeated_read_rows": -1})
    shop = Shop(lake, random.Random(2))
    shop.batch(30)
    key, query = JOINS[name]
    model = lake.model("joined", query, primary_key=key, refresh="strict")
    lake.run(model)
    for commits in (1, 2):
        shop.batch(6, commits)
        plan = lake.refresh_of(model).planner.plan_refresh().decision.increment
        assert plan is not None
        assert {part.source.name for part in plan.reducers} == {"orders", "customers"}
        assert f"all that these look for in {lake.table('orders')} is read once" in plan.describe_plan()
        assert lake.run(model).mode == "incremental"
        assert lake.broken(model) == []


BELOW_MOST = """
    select c.city, count(*) as n, sum(o.amount) as amount
    from {orders} o join {customers} c on c.customer = o.customer
    where c.city = 'x' and o.amount < (select max(p.amount) from {orders} p where p.customer = c.customer)
    group by c.city
"""


@pytest.mark.slow
@pytest.mark.parametrize("read_again", [-1, IncrementalThresholds().repeated_read_rows])
def test_changes_that_no_filtered_partner_has_are_left_out(lake: Warehouse, read_again: int) -> None:
    """What several terms ask the filtered table is told once, before the part of another that is read by it."""
    limits = {"always_incremental_rows": -1, "reducer_row_ratio": 0, "repeated_read_rows": read_again}
    lake = lake.under(incremental=limits)
    shop = Shop(lake, random.Random(3))
    shop.batch(40)
    tables = {name: lake.sql_name(name) for name in ("orders", "customers")}
    model = lake.model("below", BELOW_MOST.format(**tables), primary_key="city", refresh="strict")
    lake.run(model)
    for commits in (1, 2):
        shop.batch(8, commits)
        plan = lake.refresh_of(model).planner.plan_refresh().decision.increment
        assert plan is not None
        assert plan.spools
        assert bool(plan.reducers) == (read_again < 0)
        assert lake.run(model).mode == "incremental"
        assert lake.broken(model) == []


@pytest.mark.slow
def test_rows_of_a_large_table_are_found_before_changes_are_laid_over_it(lake: Warehouse) -> None:
    """Changes that wait to be merged bring rows to what is looked for, take rows from it, and delete rows."""
    lake = lake.under(incremental={"unmerged_table_rows": -1})
    orders, customers = Shop(lake, random.Random(1)).models

    def send(*events: tuple[int, int, str]) -> None:
        """Of orders: the id, the customer, and what is done."""
        lake.append("order_events", [(*e[:2], _cents(1), "new", e[2]) for e in events], f"{ORDERS}, op string")
        lake.run(orders)

    def name(customer: int, called: str) -> None:
        lake.append("customer_events", [(customer, called, "x", "u")], f"{CUSTOMERS}, op string")
        lake.run(customers)

    for customer in (1, 2):
        name(customer, "first")
    send(*[(key, 1 + key % 2, "u") for key in range(40)])
    key, query = QUERIES["join"]
    model = lake.model("named_orders", query, primary_key=key, refresh="strict")
    lake.run(model)
    send((1, 1, "u"), (2, 2, "u"), (3, 2, "d"), (50, 2, "u"))
    lake.run(model)
    name(2, "second")
    decision = lake.refresh_of(model).planner.plan_refresh().decision
    assert decision.increment is not None
    assert [part.source for part in decision.increment.reducers] == [orders.table]
    assert lake.run(model).mode == "incremental"
    assert lake.broken(model) == []


PAIRED = """
    select o.id, o.customer, c.name, 100 / o.amount as share, map('state', o.state) as tags
    from {orders} o join {customers} c on o.customer = c.customer and c.city > 'a'
    where o.state <> 'void' and not exists (select 1 from {customers} p where p.name = o.state)
"""


@pytest.mark.slow
def test_a_changed_row_is_followed_together_with_what_it_was(lake: Warehouse) -> None:
    """An amount of 0, by which nothing can be divided, has only what the filter leaves out."""
    shop = Shop(lake, random.Random(1))

    def send(*events: tuple[int, int | None, int, str, str]) -> None:
        lake.append("order_events", [(*e[:2], _cents(e[2]), *e[3:]) for e in events], f"{ORDERS}, op string")
        lake.run(shop.models[0])

    customers = [(1, "one", "x", "u"), (2, "two", "y", "u"), (3, "paid", "z", "u"), (4, "four", None, "u")]
    lake.append("customer_events", customers, f"{CUSTOMERS}, op string")
    lake.run(shop.models[1])
    send((1, 1, 5, "new", "u"), (2, 2, 5, "new", "u"), (3, 1, 0, "void", "u"), (4, 9, 5, "new", "u"),
         (5, 2, 5, "new", "u"), (6, 1, 5, "new", "u"), (7, 1, 5, "paid", "u"), (8, 2, 5, "new", "u"))  # fmt: skip
    model = lake.model("m", PAIRED, primary_key="id", refresh="strict")
    thin = lake.model("thin", "select id, customer from {orders}", primary_key="id", refresh="strict")
    assert [lake.run(each).rows["insert"] for each in (model, thin)] == [5, 8]
    send((1, 2, 5, "new", "u"), (2, 2, 0, "void", "u"), (3, 1, 4, "new", "u"), (4, 2, 5, "new", "u"),
         (5, 2, 5, "new", "d"), (6, 4, 5, "new", "u"), (7, 1, 5, "new", "u"), (8, 2, 5, "open", "u"),
         (9, None, 5, "new", "u"), (10, 1, 0, "void", "u"), (11, 1, 2, "new", "u"))  # fmt: skip
    for each in (model, thin):
        decided = lake.refresh_of(each).planner.explain_refresh().decision.increment
        assert decided is not None
        assert isinstance(decided.maintenance, Pairs)
    assert lake.actions(lake.run(model)) == (4, 2, 3)
    changes = {row["id"]: (row["_action"], row["name"], row["_before"]) for row in lake.log(model)[-9:]}
    gone = {"customer": 2, "name": "two", "share": _cents(20), "tags": {"state": "new"}}
    one = {**gone, "customer": 1, "name": "one"}
    assert changes == {
        1: ("update", "two", one),
        2: ("delete", "two", gone),
        3: ("insert", "one", None),
        4: ("insert", "two", None),
        5: ("delete", "two", gone),
        6: ("delete", "one", one),
        7: ("insert", "one", None),
        8: ("update", "two", gone),
        11: ("insert", "one", None),
    }
    assert lake.actions(lake.run(thin)) == (3, 3, 1)
    send((1, 1, 5, "new", "u"), (12, 1, 5, "new", "u"), (2, 2, 5, "new", "u"), (11, 1, 2, "new", "d"))
    send((1, 2, 5, "new", "u"), (12, 1, 5, "new", "d"), (2, 1, 5, "new", "u"), (11, 2, 2, "new", "u"))
    assert lake.actions(lake.run(model)) == (1, 1, 0)
    assert lake.actions(lake.run(thin)) == (0, 2, 0)
    assert [lake.broken(each) for each in (model, thin)] == [[], []]


@pytest.mark.slow
def test_columns_that_the_query_lost_keep_their_values_in_rows_that_change(lake: Warehouse) -> None:
    shop = Shop(lake, random.Random(1))
    lake.append("order_events", [(1, 1, _cents(5), "new", "u"), (2, 2, _cents(6), "new", "u")], f"{ORDERS}, op string")
    lake.run(shop.models[0])
    lake.run(lake.model("m", "select id, customer, state from {orders}", primary_key="id"))
    shrunk = lake.model("m", "select id, customer from {orders}", primary_key="id", refresh="strict")
    lake.run(shrunk)
    lake.append("order_events", [(1, 9, _cents(5), "paid", "u"), (2, 2, _cents(6), "new", "d")], f"{ORDERS}, op string")
    lake.run(shop.models[0])
    assert lake.actions(lake.run(shrunk)) == (0, 1, 1)
    assert lake.rows(shrunk) == [(1, 9, "new")]
    assert lake.log(shrunk)[-2]["_before"] == {"customer": 1, "state": "new"}


@pytest.mark.in_turn
def test_maps_are_followed_too(lake: Warehouse) -> None:
    columns = "id int, tags map<string,int>"
    lake.append("m_events", [(1, {"a": 1}), (2, {"b": 2})], columns)
    up = lake.model("up", "select id, tags from {changes(m_events)}", primary_key="id", input="changes")
    model = lake.model(
        "m", "select id, tags, map('n', id) as own from {up} union all select -1, null, null", primary_key="id"
    )
    lake.run(up)
    lake.run(model)
    lake.append("m_events", [(1, {"a": 1}), (2, {"b": 3})], columns)
    lake.run(up)
    assert lake.actions(lake.run(model)) == (0, 1, 0)
    assert lake.broken(model) == []


@pytest.mark.slow
def test_an_upstream_that_stores_what_its_origin_sent_is_followed_by_lookups(lake: Warehouse) -> None:
    columns = "id int, grp int, amount int, op string"
    lake.append("e", [(n, n % 3, n, "u") for n in range(9)], columns)
    up = lake.model("up", "select id, grp, amount, op from {changes(e)}", primary_key="id", input="changes",
                    changelog="input", merge="on_read", delete_when="op = 'd'", exclude_columns=["op"])  # fmt: skip
    plain = lake.model("plain", "select id, amount + 1 as more from {up}", primary_key="id", refresh="strict")
    sums = lake.model(
        "sums", "select grp, sum(amount) as s from {up} group by grp", primary_key="grp", refresh="strict"
    )
    for model in (up, plain, sums):
        lake.run(model)
    for events in ([(1, 1, 10, "u"), (2, 2, 2, "d")], [(1, 2, 10, "u"), (50, 0, 1, "u"), (77, 0, 0, "d")]):
        lake.append("e", events, columns)
        lake.run(up)
    assert lake.actions(lake.run(plain)) == (1, 1, 1)
    assert lake.run(sums).mode == "incremental"
    assert [lake.broken(model) for model in (up, plain, sums)] == [[], [], []]


@pytest.mark.slow
def test_a_plain_table_that_is_recreated_is_compared_with_what_it_was(lake: Warehouse) -> None:
    lake.append("facts", [(n, n % 3) for n in range(20)], "id int, kind int")
    seed = lake.sql_name("kinds")

    def reload(rows: str) -> None:
        lake.spark.sql(f"create or replace table {seed} using iceberg as select * from values {rows} as v(kind, name)")

    reload("(0, 'a'), (1, 'b'), (2, 'c')")
    sql = "select id, name from {facts} left join {kinds} using (kind)"
    model = lake.model("m", sql, primary_key="id", refresh="strict")
    lake.run(model)
    reload("(0, 'a'), (1, 'b'), (2, 'c')")
    assert lake.actions(lake.run(model)) == (0, 0, 0)
    reload("(0, 'a'), (1, 'B'), (3, 'c')")
    outcome = lake.run(model)
    assert (outcome.mode, lake.actions(outcome)) == ("incremental", (0, 13, 0))
    assert lake.broken(model) == []


KEYS_THAT_SHOW_ONE_COLUMN = {
    "windows": "select id, id as again, count(*) over (partition by grp) as n from {facts}",
    "groups": "select grp as id, grp as again, max(v) as top, count(distinct v) as n from {facts} group by grp",
    "totals": "select grp as id, count(*) as n, grp as again, sum(v) as total from {facts} group by grp",
    "rows": "select id, v, id as again from {facts} where v > 1",
}


@pytest.mark.slow
def test_two_columns_of_a_key_can_show_one_column(lake: Warehouse) -> None:
    columns = "id int, grp int, v int"
    lake.load("facts", [(n, n % 3, n) for n in range(9)], columns)
    models = [
        lake.model(name, sql, primary_key=["id", "again"], refresh="strict")
        for name, sql in KEYS_THAT_SHOW_ONE_COLUMN.items()
    ]
    for model in models:
        lake.run(model)
    lake.load("facts", [(n, n % 2 if n < 4 else n % 3, n + n // 8) for n in range(1, 10)], columns)
    assert [lake.run(model).mode for model in models] == ["incremental"] * len(models)
    assert [lake.rows(model) for model in models] == [sorted_rows(lake.spark.sql(model.sql)) for model in models]


WIDE = 30
WIDE_QUERIES: dict[str, tuple[str, str]] = {
    "filter": ("id", "select * from {wide} where c1 > 5 and coalesce(c2, c3) < 1000"),
    "joins": (
        "id",
        "select w.*, l.name, m.name as other from {wide} w left join {names} l on l.k = w.c1 "
        "join {names} m on m.k = w.c2 where w.c3 > 1 and l.name is not null",
    ),
    "partners": ("id", "select * from {wide} w where exists (select 1 from {names} n where n.k = w.c1) and c2 > 0"),
    "both kinds": ("id", "select * from {wide} where c1 > 5 union all select * from {wide} where c1 <= 5"),
    "expressions": (
        "id",
        "select id, " + ", ".join(f"case when c{i} > 9 then c{i} + c{i + 1} else c{i} end as d{i}" for i in range(29))
        + " from {wide} where c1 between 1 and 1000",
    ),
    "groups": (
        "c1",
        "select c1, " + ", ".join(f"max(c{i}) as d{i}" for i in range(2, 30)) + " from {wide} group by c1",
    ),
    "places": ("id", "select *, row_number() over (partition by c1 order by id) as place from {wide} where c2 > 0"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_tables_of_many_columns_are_followed(lake: Warehouse, merge: str) -> None:
    """Optimizers that conclude conditions from others can take forever over a condition on all columns."""
    columns = ", ".join(f"c{i} bigint" for i in range(WIDE))
    rows = [(n, *(n * (i + 1) % 17 for i in range(WIDE))) for n in range(40)]
    lake.append("wide_events", [(*row, "c", 0) for row in rows], f"id bigint, {columns}, op string, lsn bigint")
    lake.load("name_rows", [(n, f"name {n}") for n in range(17)], "k bigint, name string")
    events = {"input": "changes", "sequence_by": "lsn", "delete_when": "op = 'd'", "exclude_columns": ["op", "lsn"]}
    wide = lake.model("wide", "select * from {changes(wide_events)}", primary_key="id", merge=merge, **events)
    names = lake.model("names", "select * from {name_rows}", primary_key="k")
    models = [
        lake.model(f"w{place}", sql, primary_key=key, refresh="strict", merge=merge)
        for place, (key, sql) in enumerate(WIDE_QUERIES.values())
    ]
    for model in (wide, names, *models):
        lake.run(model)
    changed = [(*(row[0], *(value + 1 for value in row[1:])), "u", 1) for row in rows[:5]]
    lake.append("wide_events", [*changed, (*rows[7], "d", 1)], f"id bigint, {columns}, op string, lsn bigint")
    lake.run(wide)
    for name, model in zip(WIDE_QUERIES, models, strict=True):
        assert lake.run(model).mode == "incremental", name
        assert lake.rows(model) == sorted_rows(lake.spark.sql(model.sql)), name


GROUPS = "select place, sum(v) as total from {facts} group by place"


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("shown", "changed", "is_followed"),
    [
        ("", 8, True),
        ("", 15, False),
        pytest.param(" having sum(v) > 28", 15, True, marks=pytest.mark.slow),
        pytest.param(" having sum(v) > 20", 15, False, marks=pytest.mark.slow),
    ],
    ids=["few", "most", "few of those that are shown", "most of those that are shown"],
)
def test_everything_is_computed_where_most_of_a_large_table_may_differ(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch, shown: str, changed: int, is_followed: bool
) -> None:
    lake = lake.under(incremental={"large_source_rows": 0})
    followed: list[int] = []

    def spy(spark: Any, new: Any, keys: Any, *rest: Any) -> Any:
        followed.append(keys.count())
        return recomputed(spark, new, keys, *rest)

    recomputed = increments.recompute_affected_rows
    monkeypatch.setattr(increments, "recompute_affected_rows", spy)
    columns = "id bigint, place int, v double"
    rows = {n: (n, n % 20, 1001.0 if n == 0 else n / 4) for n in range(60)}
    lake.load("s", rows.values(), columns)
    facts = lake.model("facts", "select * from {s}", primary_key="id")
    totals_of = lake.model("m", GROUPS + shown, primary_key="place")
    for model in (facts, totals_of):
        lake.run(model)
    rows |= {n: (n, n, 7.0) for n in range(1, 1 + changed)}
    lake.load("s", rows.values(), columns)
    lake.run(facts)
    followed.clear()
    outcome = lake.run(totals_of)
    assert (outcome.mode, outcome.reason) == (("incremental", "CHANGES") if is_followed else ("full", "COST"))
    assert followed == ([changed] if is_followed else [])
    assert lake.broken(totals_of) == []
