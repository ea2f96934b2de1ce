"""The normal form of a query has its rows, is the same for other spellings of it, and differs for other queries."""
# ruff: noqa: E501

from __future__ import annotations

from random import Random

import pytest

from arctic_runtime.ivm.canonical.tree import canonicalize_tree
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.render import build_query
from arctic_runtime.sql.spark_sql import write_sql
from tests.unit.ivm.analysed_queries import QUERIES, RELATIONS, VIEWS
from tests.unit.ivm.canonical.spellings import canonicalize, has_one_form, load_tables, respell
from tests.unit.ivm.duck import CATALOG, SCHEMA, rows


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_a_normal_form_has_the_rows_of_the_tree(step: int) -> None:
    with load_tables(step) as con:
        for sql in QUERIES[::step]:
            analysis = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
            canonical = canonicalize_tree(analysis.tree, analysis.types)
            found, expected = (rows(con, write_sql(build_query(tree))) for tree in (canonical, analysis.tree))
            assert found == expected, sql


def test_a_normal_form_is_its_own_normal_form() -> None:
    for sql in QUERIES:
        canonical = canonicalize(sql)
        assert canonicalize_tree(canonical) == canonical, sql


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 5))])
def test_formatting_and_names_leave_no_trace(seed: int) -> None:
    draw = Random(seed)
    for sql in QUERIES:
        other = sql if "/*+" in sql else respell(sql, draw)
        assert has_one_form(other, sql), other


SAME = (
    ("select id from orders where amount > 1 and state = 'paid'", "select id from orders where 'paid' = state and 1 < amount"),
    ("select id from orders where amount > 1", "select id from orders where ((amount)) > (1) and amount > 1"),
    ("select id, customer, amount, state, tags from orders", "select * from orders"),
    ("select id, amount from orders", "with t as (select * from orders) select id, amount from t"),
    ("select id from orders where amount > 1", "select u.id from (select amount, id, state from orders) u where u.amount > 1"),
    ("select o.id from orders o join items i on o.id = i.id", "select i.id from items, orders i where items.id = i.id"),
    ("select o.id from orders o join items i on o.id = i.id", "select orders.id from items join orders using (id)"),
    ("select a.id from orders a join orders b on a.id = b.customer", "select b.id from orders a join orders b on b.id = a.customer"),
    (
        "select o.id, c.name from orders o join items i on o.id = i.id join customers c on c.customer = o.customer",
        "select o.id, c.name from customers c join (items i join orders o on i.id = o.id) on o.customer = c.customer",
    ),
    ("select cast(amount as int) as a, cast(state as string) as s from orders", "select amount as a, state as s from orders"),
    ("select customer, state, count(*) as n from orders group by customer, state", "select customer, state, n from (select count(*) as n, state, customer from orders group by 2, 3)"),
    ("select coalesce(amount) as a from orders", "select amount as a from orders"),
    ("select (id, amount) as s from orders", "select struct((o.id), amount) as s from orders o"),
    ("select /*+ broadcast(i) */ o.id from orders o join items i on o.id = i.id", "select o.id from orders o join items i on o.id = i.id"),
)  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_queries_of_one_meaning_have_one_normal_form(one: str, other: str) -> None:
    assert has_one_form(one, other)


DIFFERENT = (
    ("select id from orders where state = 'paid'", "select id from orders where state = 'Paid'"),
    ("select -(2147483648) as a from orders", "select -2147483648 as a from orders"),
    ("select -cast(2147483648 as bigint) as a from orders", "select -2147483648 as a from orders"),
    ("select cast(amount as bigint) as a from orders", "select amount as a from orders"),
    ("select try_cast(state as int) as a from orders", "select cast(state as int) as a from orders"),
    ("select amount - (amount - id) as a from orders", "select amount - amount - id as a from orders"),
    ("select id, amount from orders", "select amount, id from orders"),
    ("select customer from orders", "select customer, customer from orders"),
    ("select id from orders where customer = amount", "select id from orders where customer <=> amount"),
    ("select o.id from orders o left join items i on o.id = i.id", "select o.id from items i left join orders o on o.id = i.id"),
    ("select o.id from orders o left join items i on o.id = i.id and i.price > 1", "select o.id from orders o left join items i on o.id = i.id where i.price > 1"),
    ("select distinct customer, amount from orders", "select customer, amount from orders"),
    ("select customer from (select distinct customer, amount from orders)", "select customer from (select distinct customer from orders)"),
    ("select sum(amount) as s from orders", "select sum(distinct amount) as s from orders"),
    ("select id from items intersect select line from items", "select id from items intersect all select line from items"),
    ("select id from items union all select line from items", "select id from items union select line from items"),
    ("select a.id from orders a join orders b on a.id = b.customer", "select b.id from orders a join orders b on a.id = b.customer"),
    ("select a.id from orders a join orders b on a.id < b.id", "select a.id from orders a join orders b on b.id < a.id"),
    ("select id from orders where amount > 1 or customer > 1 and id > 1", "select id from orders where (amount > 1 or customer > 1) and id > 1"),
    ("select id, row_number() over (partition by customer order by id) as r from orders", "select id, row_number() over (partition by customer order by id desc) as r from orders"),
    ("select lag(amount, 1) over (partition by customer order by id) as r from orders", "select lag(amount, 1) over (order by id) as r from orders"),
    ("select struct(id) as s from orders", "select struct(id as x) as s from orders"),
    ("select (id, amount) as s from orders", "select (id as amount, amount as id) as s from orders"),
    ("select id from orders", "select id from items"),
    ("select id from orders lateral view explode(tags) t as tag", "select id from orders lateral view outer explode(tags) t as tag"),
)  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_queries_of_other_meanings_have_other_normal_forms(one: str, other: str) -> None:
    assert not has_one_form(one, other)
