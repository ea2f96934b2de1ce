"""Rows of real databases swap their keys within transactions, and no key in between is ever seen."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from arctic_runtime.ingest.source import IngestSource
from tests.ingest.test_exactly_once import Database, database, ingest, is_equal, source
from tests.spark.warehouse import Warehouse

__all__ = ["database", "source"]

MARIADB = pytest.param("mariadb", marks=pytest.mark.slow)


@pytest.mark.in_turn
@pytest.mark.parametrize("database", ["postgresql", MARIADB], indirect=True)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))])
def test_keys_that_rows_swap_by_way_of_others_are_never_seen(
    lake: Warehouse, database: Database, source: IngestSource, seed: int
) -> None:
    """Long texts of the rows are not sent again."""
    print("seed", seed)
    ingest(lake, source)
    chance = random.Random(seed)
    for _ in range(5):
        database.sql(transaction(chance))
    ingest(lake, source)
    is_equal(lake, database)
    changes = lake.spark.table(lake.sql_name("orders__changes"))
    assert changes.where("id < 0").count() == 0
    assert lake.broken(source.tables[0].to_model(("id",))) == []


def transaction(chance: random.Random) -> str:
    """Swaps, longer cycles, deletes and new texts, among few rows."""
    statements = ["begin"]
    for _ in range(chance.randrange(1, 12)):
        keys = chance.sample(range(1, 21), chance.randrange(2, 5))
        key = chance.choice(keys)
        statements += [f"update {{at}}.orders set id = -1 where id = {keys[0]}"]
        statements += [f"update {{at}}.orders set id = {new} where id = {old}" for new, old in pairwise(keys)]
        statements += [f"update {{at}}.orders set id = {keys[-1]} where id = -1"]
        statements += chance.choice(
            (
                [],
                [],
                [f"update {{at}}.orders set note = repeat('z{key}', 900), amount = {key} where id = {key}"],
                [f"delete from {{at}}.orders where id = {key}"],
                [
                    f"delete from {{at}}.orders where id = {key}",
                    f"insert into {{at}}.orders values ({key}, 'new', 1, now(), repeat('n{key}', 900))",
                ],
            )
        )
    return ";".join([*statements, "commit"])
