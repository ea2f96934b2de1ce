"""Lineage of columns: what each use is called, and that a column which is not named changes nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

import duckdb
import pytest

from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.model.names import TableName
from arctic_runtime.service.telemetry.lineage.columns import (
    ColumnLineage,
    SourceColumnRead,
    Uses,
    compute_column_lineage,
)
from tests.unit.ivm.analysed_queries import QUERIES, RELATIONS, VIEWS
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect, load, rows

SEED = 20261125


@cache
def lineage(sql: str) -> ColumnLineage:
    analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
    return compute_column_lineage(analysed.tree, analysed.outputs)


def describe_uses(uses: Uses) -> dict[str, list[str]]:
    """`table.column` → the kinds of its uses, those that mask with a star."""
    return {
        f"{origin.table.name}.{origin.column}": [f"{use.kind}{'*' * use.is_masking}" for use in sorted(value)]
        for origin, value in uses.items()
    }


@dataclass(frozen=True)
class Case:
    sql: str
    columns: dict[str, dict[str, list[str]]]
    rows: dict[str, list[str]]


CASES = (
    Case("select id from orders", {"id": {"orders.id": ["IDENTITY"]}}, {}),
    Case("select (amount) as a from orders", {"a": {"orders.amount": ["IDENTITY"]}}, {}),
    Case("select 1 as one, count(*) as n from orders", {"one": {}, "n": {}}, {}),
    Case(
        "select amount + customer as a, cast(amount as string) as b from orders",
        {
            "a": {"orders.amount": ["TRANSFORMATION"], "orders.customer": ["TRANSFORMATION"]},
            "b": {"orders.amount": ["TRANSFORMATION"]},
        },
        {},
    ),
    Case(
        "select id from orders where amount > 1 and state = 'paid'",
        {"id": {"orders.id": ["IDENTITY"]}},
        {"orders.amount": ["FILTER"], "orders.state": ["FILTER"]},
    ),
    Case(
        "select case when state = 'paid' then amount else 0 end as a from orders",
        {"a": {"orders.state": ["CONDITIONAL"], "orders.amount": ["TRANSFORMATION"]}},
        {},
    ),
    Case(
        "select if(amount > 1, amount, customer) as a, coalesce(amount, customer) as b from orders",
        {
            "a": {"orders.amount": ["CONDITIONAL", "TRANSFORMATION"], "orders.customer": ["TRANSFORMATION"]},
            "b": {"orders.amount": ["TRANSFORMATION"], "orders.customer": ["TRANSFORMATION"]},
        },
        {},
    ),
    Case(
        "select md5(state) as a, upper(sha2(state, 256)) as b, upper(state) as c from orders",
        {
            "a": {"orders.state": ["TRANSFORMATION*"]},
            "b": {"orders.state": ["TRANSFORMATION*"]},
            "c": {"orders.state": ["TRANSFORMATION"]},
        },
        {},
    ),
    Case(
        "select customer, sum(amount + 1) as s, count(state) as n from orders group by customer",
        {
            "customer": {"orders.customer": ["IDENTITY"]},
            "s": {"orders.amount": ["AGGREGATION"]},
            "n": {"orders.state": ["AGGREGATION*"]},
        },
        {"orders.customer": ["GROUP_BY"]},
    ),
    Case(
        "select sum(amount) filter (where state = 'paid') + 1 as s from orders",
        {"s": {"orders.amount": ["AGGREGATION"], "orders.state": ["FILTER"]}},
        {},
    ),
    Case(
        "select o.id, i.price from orders o join items i on o.id = i.id and i.line > 1",
        {"id": {"orders.id": ["IDENTITY"]}, "price": {"items.price": ["IDENTITY"]}},
        {"orders.id": ["JOIN"], "items.id": ["JOIN"], "items.line": ["FILTER"]},
    ),
    Case(
        "select id from orders o where exists (select 1 from items i where i.id = o.id and i.price > 1)",
        {"id": {"orders.id": ["IDENTITY"]}},
        {"orders.id": ["JOIN"], "items.id": ["JOIN"], "items.price": ["FILTER"]},
    ),
    Case(
        "select id, sum(amount) over (partition by customer order by id) as s, lag(amount) over (order by id) as l "
        "from orders",
        {
            "id": {"orders.id": ["IDENTITY"]},
            "s": {"orders.amount": ["AGGREGATION"], "orders.customer": ["WINDOW"], "orders.id": ["WINDOW"]},
            "l": {"orders.amount": ["TRANSFORMATION"], "orders.id": ["WINDOW"]},
        },
        {},
    ),
    Case(
        "select distinct customer as c from orders",
        {"c": {"orders.customer": ["IDENTITY"]}},
        {"orders.customer": ["GROUP_BY"]},
    ),
    Case(
        "select id from orders union all select line + 1 from items",
        {"id": {"orders.id": ["IDENTITY"], "items.line": ["TRANSFORMATION"]}},
        {},
    ),
    Case(
        "select id from items except select id from orders",
        {"id": {"items.id": ["IDENTITY"]}},
        {"items.id": ["FILTER"], "orders.id": ["FILTER"]},
    ),
    Case(
        "select id, tag from orders lateral view explode(tags) t as tag",
        {"id": {"orders.id": ["IDENTITY"]}, "tag": {"orders.tags": ["TRANSFORMATION"]}},
        {"orders.tags": ["JOIN"]},
    ),
    Case(
        "select p.customer, n.cost from paid p join named n on p.id = n.item",
        {"customer": {"orders.customer": ["IDENTITY"]}, "cost": {"items.price": ["IDENTITY"]}},
        {"orders.state": ["FILTER"], "orders.id": ["JOIN"], "items.id": ["JOIN"]},
    ),
    Case(
        "select a.s + 1 as t from (select customer, sum(amount) as s from orders group by customer) a",
        {"t": {"orders.amount": ["AGGREGATION"]}},
        {"orders.customer": ["GROUP_BY"]},
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sql)
def test_a_use_of_a_column_has_its_name(case: Case) -> None:
    columns = lineage(case.sql)
    assert {name: describe_uses(uses) for name, uses in columns.columns.items()} == case.columns
    assert describe_uses(columns.rows) == case.rows


@pytest.mark.parametrize("sql", QUERIES)
def test_every_origin_is_a_column_of_a_table(sql: str) -> None:
    columns = lineage(sql)
    origins = set(columns.rows).union(*columns.columns.values())
    assert all(origin.column in {column.name for column in RELATIONS[str(origin.table)].columns} for origin in origins)


# A column that is not named changes nothing


def content(draw: random.Random) -> dict[str, list[list[object]]]:
    def some(most: int) -> int | None:
        return draw.choice([None, *range(most)])

    def state() -> str:
        return draw.choice(["paid", "open", "Paid"])

    return {
        "orders": [[i, some(4), some(5), state(), draw.choice([None, [], [1], [2, 1], [3, 3, 0]])] for i in range(12)],
        "items": [[some(8), some(3), some(5)] for _ in range(14)],
        "customers": [[some(5), draw.choice(["ann", "bob", None]), state()] for _ in range(6)],
        "settings": [[draw.randrange(4)]],
    }


ORIGINS = [
    SourceColumnRead(TableName(*name.split(".")), column.name)
    for name, relation in RELATIONS.items()
    for column in relation.columns
]


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[SourceColumnRead | None, duckdb.DuckDBPyConnection]]:
    """The same rows, and for each column rows that differ in its values alone; orders keep their key."""
    with ExitStack() as stack:
        yield {changed: world(stack, changed) for changed in (None, *ORIGINS)}


def world(stack: ExitStack, changed: SourceColumnRead | None) -> duckdb.DuckDBPyConnection:
    con = stack.enter_context(connect())
    before, after = content(random.Random(SEED)), content(random.Random(SEED + 1))
    for name, table in before.items():
        fields = RELATIONS[f"lake.raw.{name}"].columns
        if changed is not None and changed.table.name == name:
            place = [field.name for field in fields].index(changed.column)
            for row, other in zip(table, after[name], strict=True):
                row[place] = row[place] + 3 if changed.column == "id" and name == "orders" else other[place]
        load(con, TableName(CATALOG, SCHEMA, name), fields, table)
    con.execute("create view paid as select id, customer, amount from orders where state = 'paid'")
    con.execute("create view named(item, cost) as select id, price from items")
    con.execute("create view over_views as select p.id, n.cost from paid p, named n where p.id = n.item")
    return con


@pytest.mark.parametrize(
    "sql", [pytest.param(sql, marks=[pytest.mark.slow] * (place % 5 > 0)) for place, sql in enumerate(QUERIES)]
)
def test_values_change_only_where_lineage_says_so(
    sql: str, worlds: dict[SourceColumnRead | None, duckdb.DuckDBPyConnection]
) -> None:
    columns = lineage(sql)
    analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
    names = [name for name, _ in analysed.outputs]
    before = rows(worlds[None], sql)
    for origin in ORIGINS:
        if origin not in columns.rows:
            kept = [place for place, name in enumerate(names) if name and origin not in columns.columns.get(name, {})]
            assert picked(rows(worlds[origin], sql), kept) == picked(before, kept), origin


def picked(bag: Counter[tuple[object, ...]], places: list[int]) -> Counter[tuple[object, ...]]:
    picked: Counter[tuple[object, ...]] = Counter()
    for row, count in bag.items():
        picked[tuple(row[place] for place in places)] += count
    return picked
