"""Descriptions of joins, against the plans that Spark makes."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.spark.maintenance.compaction import split_table
from arctic_runtime.spark.refresh import run
from tests.spark.warehouse import Warehouse

ROWS = [(i, i % 97, i) for i in range(300)]
SQL = "select id, k, v from {s}"


def is_shuffled(lake: Warehouse, sql: str, capsys: pytest.CaptureFixture[str]) -> bool:
    session = lake.environment.new_session()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    capsys.readouterr()
    session.sql(sql).explain()
    return "Exchange" in capsys.readouterr().out


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("one", "other", "on"),
    [
        ({"nodes": 8}, {"nodes": 8}, "id = b.id"),
        ({"nodes": 8}, {"nodes": 16}, "id = b.id"),
        ({"nodes": 8}, {"nodes": 8}, "id = b.k"),
        ({"nodes": 8}, {"nodes": 8, "hash_key": "k", "primary_key": ["id", "k"]}, "id = b.k"),
        ({"nodes": 8}, {"nodes": 8, "partition_by": ["k"]}, "id = b.id"),
        ({"nodes": 8}, {"nodes": 8, "partition_by": ["k"]}, "id = b.id and b.k > 3"),
        ({"nodes": 8}, {"nodes": 8, "merge": "on_read"}, "id = b.id"),
    ],
)
def test_the_description_of_a_join_is_what_spark_plans(
    lake: Warehouse, one: dict[str, Any], other: dict[str, Any], on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake.load("s", ROWS, "id int, k int, v bigint")
    for name, config in (("a", one), ("b", other)):
        lake.run(lake.model(name, SQL, **{"primary_key": "id", **config}))
    joined = lake.model("joined", f"select a.id, b.v from {{a}} as a join {{b}} as b on a.{on}", primary_key="id")
    (line,) = lake.refresh_of(joined).planner.explain_refresh().joins
    assert ("with a shuffle" in line) is is_shuffled(lake, joined.sql, capsys)


@pytest.mark.slow
def test_a_node_that_split_alone_costs_a_shuffle_until_its_level_is_whole(
    lake: Warehouse, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = lake.under(buckets={"level_split_share": 2})
    lake.load("s", [(i, 0, i * 7919 % 10_007) for i in range(6000)], "id int, k int, v bigint")
    for name in ("a", "b"):
        lake.run(lake.model(name, SQL, primary_key="id", nodes=2))
    joined = lake.model("joined", "select a.id, b.v from {a} as a join {b} as b on a.id = b.id", primary_key="id")

    def described() -> str:
        (line,) = lake.refresh_of(joined).planner.explain_refresh().joins
        assert ("with a shuffle" in line) is is_shuffled(lake, joined.sql, capsys)
        return line

    sizes = [row["file_size_in_bytes"] for row in lake.spark.table(f"{lake.sql_name('a')}.files").collect()]

    def split_over(name: str, limit: int) -> None:
        split_table(lake.session_of(lake.model(name, SQL, primary_key="id", nodes=2, node_bytes=limit)))

    assert described().endswith("without a shuffle")
    split_over("a", max(sizes) - 1)
    assert "2 and 4 buckets" in described()
    split_over("a", min(sizes) - 1)
    assert "has 4 buckets and" in described()
    split_over("b", min(sizes) - 1)
    assert described().endswith("without a shuffle")


def test_changes_that_are_not_merged_yet_cost_a_shuffle(lake: Warehouse, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(i, 0, i) for i in range(300)]
    lake.load("s", rows, "id int, k int, v bigint")
    models = [lake.model(name, SQL, primary_key="id", nodes=8, merge="on_read") for name in ("a", "b")]
    for model in models:
        lake.run(model)
    joined = lake.model("joined", "select a.id, b.v from {a} as a join {b} as b on a.id = b.id", primary_key="id")
    assert lake.refresh_of(joined).planner.explain_refresh().joins[0].endswith("without a shuffle")
    assert not is_shuffled(lake, joined.sql, capsys)
    lake.load("s", [(0, 0, 7), *rows[1:]], "id int, k int, v bigint")
    lake.run(models[1])
    (line,) = lake.refresh_of(joined).planner.explain_refresh().joins
    assert f"{models[1].table} has changes that are not merged yet" in line
    assert is_shuffled(lake, joined.sql, capsys)


def test_a_broadcast_side_that_turns_out_too_large_is_shuffled_instead(
    lake: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a few changed rows have most rows of another table as partners, and Spark runs out of memory."""
    lake = lake.under(joins={"shuffled_rows": 0})
    judged: list[bool] = []

    def judge(error: Exception) -> bool:
        judged.append(was_too_large(error))
        return judged[-1]

    was_too_large = run.was_too_large_to_broadcast
    monkeypatch.setattr(run, "was_too_large_to_broadcast", judge)
    a, b = (lake.model(name, SQL.replace("{s}", f"{{of_{name}}}"), primary_key="id") for name in ("a", "b"))
    joined = lake.model("joined", "select a.id, b.v from {a} as a join {b} as b on a.k = b.id", primary_key="id")
    for name in ("of_a", "of_b"):
        lake.load(name, ROWS, "id int, k int, v bigint")
    session = lake.environment.new_session()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    for model in (a, b, joined):
        lake.run(model, lambda: session)
    lake.load("of_a", [*ROWS[2:], (0, 5, 0)], "id int, k int, v bigint")
    lake.run(a, lambda: session)
    session.conf.set("spark.sql.maxBroadcastTableSize", "1b")
    assert lake.run(joined, lambda: session).mode == "incremental"
    assert judged == [True]
    assert sorted(lake.rows(joined)) == [(0, 5), *((i, i % 97) for i in range(2, 300))]
