"""Every query that is analysed, kept up with batches of random changes by the rules alone."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb
import pytest

from arctic_runtime.ivm.algebra.tree import list_columns
from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.strategies.maintain import Facts
from arctic_runtime.model.names import TableName
from tests.unit.ivm.analysed_queries import QUERIES, RELATIONS, VIEWS, random_rows
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect, in_duckdb, load
from tests.unit.ivm.kept import Kept, compute, differing, follow, keep_old, make_images

BATCHES = 3
NOT_HERE = ("lateral view outer", "size(")
"""What is written for DuckDB in another way."""

Rows = dict[str, list[tuple[Any, ...]]]
SEEDS = [pytest.param(0, 9), *(pytest.param(seed, 1, marks=pytest.mark.slow) for seed in range(1, 4))]


@pytest.mark.parametrize(("seed", "every"), SEEDS)
def test_every_result_is_that_of_its_query_after_each_batch(seed: int, every: int) -> None:
    draw = Random(seed)
    ways = Counter[str]()
    for place, sql in enumerate(QUERIES[::every]):
        analysed = analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)
        made = tuple(name for _, name in analysed.outputs)
        if list_columns(analysed.tree) != made or any(part in sql for part in NOT_HERE):
            continue
        with connect() as con:
            content: Rows = random_rows(draw)
            _put(con, content)
            kept = Kept(place, in_duckdb(sql), analysed, Facts(types=analysed.types), made[: draw.choice((1, 2))])
            compute(con, kept)
            for _ in range(BATCHES):
                keep_old(con, content)
                content = {name: _changed(name, rows, draw) for name, rows in content.items()}
                _put(con, content)
                ways[follow(con, kept, make_images(con, content)).split()[0]] += 1
                assert differing(con, kept) == 0, sql
    assert ways["units"] > 10
    assert ways["deltas"] > 10


def _put(con: duckdb.DuckDBPyConnection, content: Rows) -> None:
    for name, rows in content.items():
        load(con, TableName(CATALOG, SCHEMA, name), RELATIONS[f"lake.raw.{name}"].columns, rows)
    con.execute("create or replace view paid as select id, customer, amount from orders where state = 'paid'")
    con.execute("create or replace view named(item, cost) as select id, price from items")
    con.execute("create or replace view over_views as select p.id, n.cost from paid p, named n where p.id = n.item")


def _changed(name: str, rows: list[tuple[Any, ...]], draw: Random) -> list[tuple[Any, ...]]:
    """The rows as they are, or others, or some of them with a few others; the single row and keys stay so."""
    others: list[tuple[Any, ...]] = random_rows(draw)[name]
    way = draw.choice(("same", "same", "some", "some", "others"))
    if way == "same" or (way == "some" and name == "settings"):
        return rows
    if way == "others":
        return others
    kept = [row for row in rows if draw.random() < 0.6]
    taken = {row[0] for row in kept} if name == "orders" else set()
    return kept + [row for row in others if row[0] not in taken][:4]
