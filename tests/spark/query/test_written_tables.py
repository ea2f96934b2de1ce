"""Tables that runs have written, in DuckDB as in Spark: deleted rows, unmerged changes, versions, nested values."""

from __future__ import annotations

from typing import Any

from arctic_runtime.model.table import Model
from arctic_runtime.query.engine import QueryEngine
from tests.spark.query.answering import answer
from tests.spark.warehouse import Warehouse

COLUMNS = "id int, region string, part struct<a: int, b: array<struct<x: int>>>, tags map<string, int>"


def put(lake: Warehouse, model: Model, rows: dict[int, tuple[Any, ...]]) -> None:
    lake.load("s", list(rows.values()), COLUMNS)
    lake.run(model)


def a_row(key: int, region: str) -> tuple[Any, ...]:
    part = None if key % 3 == 0 else {"a": key, "b": None if key % 2 else [{"x": key}, None]}
    return key, region, part, None if key % 5 == 0 else {"k": key, "none": None}


def is_same(lake: Warehouse, query: str) -> bool:
    expected = lake.spark.sql(query).toArrow().to_pylist()
    return bool(answer(lake, query).to_pylist() == expected)


def list_snapshots(lake: Warehouse, name: str) -> list[int]:
    return [entry.snapshot_id for entry in lake.reader.load_table(lake.namespace, name).history()]


def test_runs_with_each_merge_are_read_as_spark_reads_them(lake: Warehouse, monkeypatch) -> None:
    opened: list[int] = []
    select_rows = QueryEngine.select_rows

    def counted(self: QueryEngine, table: Any, fields: Any, files: Any, has_sequence: bool = False) -> Any:
        opened.append(len(files))
        return select_rows(self, table, fields, files, has_sequence)

    monkeypatch.setattr(QueryEngine, "select_rows", counted)
    query = "select id, region, part, tags from {s}"
    on_write = lake.model("w", query, primary_key="id", partition_by=["region"], nodes=4)
    on_read = lake.model("r", query, primary_key="id", merge="on_read", compaction="off")
    rows = {key: a_row(key, "eu" if key % 2 else "us") for key in range(40)}
    for changed in ({}, {3: "eu", 4: "us"}, {3: "us", 50: "eu"}, {5: "us", 6: None}):
        for key, region in changed.items():
            rows.pop(key) if region is None else rows.update({key: a_row(key, region)})
        put(lake, on_write, rows)
        lake.run(on_read)
    for name in ("w", "r", "w__changes", "r__changes", "r__base"):
        table = f"{lake.namespace}.{name}"
        order = "id, _ts, _seq, _action" if name.endswith("changes") else "id"
        assert is_same(lake, f"select * from lake.{table} order by {order}"), name
        assert is_same(lake, f"select count(*) n, sum(id) s, max(part.a) m from lake.{table} where id > 2"), name
        assert is_same(
            lake, f"select region, count(*) n from lake.{table} where id in (3, 6, 50) group by 1 order by 1"
        )
        for snapshot in list_snapshots(lake, name) if name != "r" else ():
            assert is_same(lake, f"select id, region from lake.{table} version as of {snapshot} order by 1, 2")
    first, *_, last = list_snapshots(lake, "w__changes")
    window = f"with (`start-snapshot-id` = '{first}', `end-snapshot-id` = '{last}')"
    assert is_same(lake, f"select id, region, _action from lake.{lake.namespace}.w__changes {window} order by 1, 2, 3")
    opened.clear()
    assert answer(lake, f"select region from lake.{lake.namespace}.w where id = 39 and region = 'eu'").num_rows == 1
    assert opened[0] <= 3
