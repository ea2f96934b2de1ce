"""Every query that is analysed, with a condition or a column more or less: what it computes inside stays as it is."""

from __future__ import annotations

from collections import Counter
from random import Random

import duckdb
import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.edits.refused import NotEdited
from tests.unit.ivm.analysed_queries import QUERIES, RELATIONS, VIEWS, random_rows
from tests.unit.ivm.edits.edited import RepeatedKey, Tables, edit_table

TABLES = Tables(RELATIONS, VIEWS)
NOT_HERE = ("lateral view outer", "size(", "explode(tags) from")
"""What is written for DuckDB in another way."""

PARTS = [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 12))]


def make_views(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("create or replace view paid as select id, customer, amount from orders where state = 'paid'")
    con.execute("create or replace view named(item, cost) as select id, price from items")
    con.execute("create or replace view over_views as select p.id, n.cost from paid p, named n where p.id = n.item")


@pytest.mark.parametrize("part", PARTS)
def test_an_edit_around_any_query_is_exact(part: int) -> None:
    results = Counter[str]()
    for place, sql in enumerate(QUERIES):
        if place % len(PARTS) != part or any(text in sql for text in NOT_HERE):
            continue
        try:
            names = tuple(name for name, _ in TABLES.analyse(sql).outputs)
        except NotMaintained:
            continue
        if not all(names) or len(set(names)) < len(names):
            continue
        whole, some = f"select * from ({sql}) t", f"select * from ({sql}) t where `{names[0]}` is not null"
        more = f"select t.*, `{names[-1]}` is null as gone from ({sql}) t where `{names[0]}` is not null"
        for old, new in ((sql, whole), (sql, more), (some, whole), (whole, some)):
            try:
                edit_table(old, new, random_rows(Random(place)), names, TABLES, make_views)
                results["edited"] += 1
            except NotEdited:
                results["refused"] += 1
            except RepeatedKey:
                break
    assert results["edited"] > 4
    assert results["edited"] > 5 * results["refused"]
