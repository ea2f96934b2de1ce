"""Compiled queries of other adapters, in the names of relations that dbt-arctic writes."""

from __future__ import annotations

import pytest

from arctic_runtime.manifest.compiled_code import rewrite_relations
from arctic_runtime.model.names import TableName

ORDERS, VIEW = TableName("lake", "ods", "orders"), TableName("lake", "ods", "orders_view")
DUCKDB = {'"db"."ods"."orders"': ORDERS, '"db"."ods"."orders_view"': VIEW}
SPARK = {"ods.orders": ORDERS, "ods.orders_view": VIEW}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("select * from {orders} o", "select * from `lake`.`ods`.`orders` o"),
        ("select * from {view}, {orders}", "select * from `lake`.`ods`.`orders_view`, `lake`.`ods`.`orders`"),
        ("select {orders}.id from {orders}", "select `lake`.`ods`.`orders`.id from `lake`.`ods`.`orders`"),
        ("from {orders} -- don't, {view}\n", "from `lake`.`ods`.`orders` -- don't, `lake`.`ods`.`orders_view`\n"),
        ("/* it's {view} */ from {orders}", "/* it's `lake`.`ods`.`orders_view` */ from `lake`.`ods`.`orders`"),
        ("'{orders}', 'it\\'s {orders}' from {orders}", "'{orders}', 'it\\'s {orders}' from `lake`.`ods`.`orders`"),
        ("select r'\\' , '{orders}'", "select r'\\' , '{orders}'"),
        ("from /* arctic: changes */ {orders}", "from `changes(lake.ods.orders)`"),
        ("-- /* arctic: changes */ {orders}", "-- /* arctic: changes */ `lake`.`ods`.`orders`"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tables", [DUCKDB, SPARK], ids=["duckdb", "spark"])
def test_names_of_relations_are_replaced_in_code_and_comments_but_not_in_texts(
    code: str, expected: str, tables: dict[str, TableName]
) -> None:
    orders, view = tables
    assert rewrite_relations(code.replace("{orders}", orders).replace("{view}", view), tables) == expected.replace(
        "{orders}", orders
    )


@pytest.mark.parametrize(
    "code", ["select my_ods.orders", "select ods.orders2", "select `ods.orders`", "select a.ods.orders"]
)
def test_a_part_of_a_longer_name_is_not_replaced(code: str) -> None:
    assert rewrite_relations(code, SPARK) == code


def test_a_text_in_double_quotes_is_kept() -> None:
    assert rewrite_relations('select "it\'s ods.orders" from ods.orders', SPARK) == (
        'select "it\'s ods.orders" from `lake`.`ods`.`orders`'
    )
