"""The view of change rows has the columns and the rows of Delta's change data feed."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.table import Model
from arctic_runtime.spark.maintenance.cloning import reset_model
from arctic_runtime.spark.maintenance.compaction import compact_table
from tests.spark.warehouse import Warehouse

COLUMNS = "id int, `a b` string, v int"
QUERY = "select id, `a b`, v from {s}"
WIDE = "select id, `a b`, v, v * 2 as twice from {s}"


def put(lake: Warehouse, sql: str, rows: list[tuple[Any, ...]], **config: Any) -> Model:
    lake.load("s", rows, COLUMNS)
    model = lake.model("m", sql, **{"primary_key": "id", "changes_view": True, **config})
    lake.run(model)
    return model


def read_feed(lake: Warehouse, after: int = 0, columns: str = "id, `a b`, v") -> list[tuple[Any, ...]]:
    """Rows of commits after a version, in the order of commits, then by key and image."""
    rows = lake.spark.sql(
        f"select {columns}, _change_type, _commit_version from {lake.sql_name('m_cdf')} "
        f"where _commit_version > {after} order by _commit_version, id, _change_type desc"
    )
    return [tuple(row) for row in rows.collect()]


@pytest.mark.in_turn
@pytest.mark.parametrize("merge", ["on_write", "on_read"])
def test_a_feed_has_a_row_for_each_image_in_the_order_of_commits(lake: Warehouse, merge: str) -> None:
    put(lake, QUERY, [(1, "x", 1), (2, "y", None)], merge=merge)
    (first,) = {row[-1] for row in read_feed(lake)}
    assert read_feed(lake) == [(1, "x", 1, "insert", first), (2, "y", None, "insert", first)]
    model = put(lake, QUERY, [(1, None, 2), (3, "z", 3)], merge=merge)
    changed = [
        (1, "x", 1, "update_preimage"),
        (1, None, 2, "update_postimage"),
        (2, "y", None, "delete"),
        (3, "z", 3, "insert"),
    ]
    assert [row[:-1] for row in read_feed(lake, first)] == changed
    second = read_feed(lake, first)[0][-1]
    put(lake, WIDE, [(1, None, 2), (3, "z", 4)], merge=merge)
    wide = read_feed(lake, second, "id, v, twice")
    assert (1, 2, None, "update_preimage") in [row[:-1] for row in wide]
    assert (3, 4, 8, "update_postimage") in [row[:-1] for row in wide]
    before = read_feed(lake)
    compact_table(lake.session_of(model), "full")
    assert read_feed(lake) == before
    times = lake.spark.sql(f"select count(*) from {lake.sql_name('m_cdf')} where _commit_timestamp is null")
    assert times.collect()[0][0] == 0


def test_a_feed_takes_another_name_and_goes_with_the_table(lake: Warehouse) -> None:
    put(lake, QUERY, [(1, "x", 1)])
    assert lake.reader.list_views(lake.namespace) == ["m_cdf"]
    model = put(lake, QUERY, [(1, "x", 1)], changes_view="feed")
    assert lake.reader.list_views(lake.namespace) == ["feed"]
    assert next(str(dropped.name.name) for dropped in reset_model(lake.session_of(model))) == "feed"
    assert lake.reader.list_views(lake.namespace) == []
    put(lake, QUERY, [(1, "x", 1)])
    put(lake, QUERY, [(1, "x", 2)], changes_view=False)
    assert lake.reader.list_views(lake.namespace) == []


def test_a_table_of_keys_alone_has_a_feed_without_updates(lake: Warehouse) -> None:
    for keys in ([1, 2], [2, 3]):
        lake.load("s", [(key, None, None) for key in keys], COLUMNS)
        lake.run(lake.model("m", "select id from {s}", primary_key="id", changes_view=True))
    assert [row[:2] for row in read_feed(lake, columns="id")] == [
        (1, "insert"),
        (2, "insert"),
        (1, "delete"),
        (3, "insert"),
    ]


def test_a_table_that_has_a_column_of_the_feed_is_told_so(lake: Warehouse) -> None:
    with pytest.raises(ConfigError, match=r"adds columns that the table has itself[\s\S]*found: _change_type"):
        put(lake, "select id, v as _change_type from {s}", [(1, "x", 1)])
