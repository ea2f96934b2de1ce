"""Queries whose tables are pinned: the rest of their text stays as it is."""

from __future__ import annotations

import pytest

from arctic_runtime.audit.pinned_query import Pins, list_all_tables, list_table_reads, pin_query
from arctic_runtime.model.names import TableName

ORDERS, CUSTOMERS, VIEW = (TableName("lake", "s", name) for name in ("orders", "customers", "v"))
PINS = Pins({ORDERS: 7, CUSTOMERS: 8}, {VIEW: "select id from lake.s.orders where x = 'v' -- old"})


@pytest.mark.parametrize(
    ("sql", "pinned"),
    [
        ("select * from lake.s.orders", "select * from lake.s.orders VERSION AS OF 7"),
        ("select * from `lake`.`s`.`Orders` o;", "select * from `lake`.`s`.`Orders` VERSION AS OF 7 o"),
        ("select orders.id from s.orders", "select orders.id from s.orders VERSION AS OF 7"),
        (
            "with c as (select 1 /* lake.s.orders */) select * from c, lake.s.customers as x",
            "with c as (select 1 /* lake.s.orders */) select * from c, lake.s.customers VERSION AS OF 8 as x",
        ),
        (
            "select id from v where id in (select id from lake.s.orders)",
            "select id from v where id in (select id from lake.s.orders VERSION AS OF 7)",
        ),
        ("select * from lake.s.orders version as of 3", "select * from lake.s.orders version as of 3"),
        ("select 'é→𝄞' from lake.s.orders o", "select 'é→𝄞' from lake.s.orders VERSION AS OF 7 o"),
        ("select * from lake.s.other", "select * from lake.s.other"),
        ("not a query", "not a query"),
        (
            "select v.id from lake.s.v",
            "select v.id from (\nselect id from lake.s.orders VERSION AS OF 7 where x = 'v' -- old\n) AS `v`",
        ),
        (
            "select w.id from lake.s.v w",
            "select w.id from (\nselect id from lake.s.orders VERSION AS OF 7 where x = 'v' -- old\n) w",
        ),
    ],
)
def test_tables_are_read_at_their_snapshots(sql: str, pinned: str) -> None:
    assert pin_query(sql, "lake", PINS) == pinned


def test_a_query_is_not_put_in_place_of_its_own_table() -> None:
    own = Pins({ORDERS: 7}, {ORDERS: "select * from lake.s.orders"})
    assert pin_query("select * from lake.s.orders", "lake", own, frozenset({ORDERS})).endswith("VERSION AS OF 7")
    assert pin_query("select * from lake.s.orders o", "lake", own).count("VERSION AS OF 7") == 1


def test_all_tables_below_are_listed_once() -> None:
    sql = "select * from lake.s.v join LAKE.s.Customers c using (id) join lake.s.customers d using (id)"
    assert {str(table).lower() for table in list_all_tables(sql, "lake", PINS.queries)} == {
        "lake.s.orders",
        "lake.s.customers",
    }


@pytest.mark.parametrize("sql", ["drop table lake.s.orders", "select from where", ""])
def test_what_is_no_query_has_no_reads(sql: str) -> None:
    assert list_table_reads(sql, "lake") is None
