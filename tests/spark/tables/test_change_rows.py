"""Change rows without Spark are those that Spark reads, whatever maintenance has done to the change table."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.table import Model
from arctic_runtime.operations.looking import open_changes
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_versions
from arctic_runtime.spark.maintenance.window_changes import frame_changes_between
from tests.spark.warehouse import Warehouse

COLUMNS = (
    "id bigint, `a b.c` string, at timestamp, amount decimal(12,2), n int, tags array<struct<k: string, v: int>>, "
    "counts map<string, struct<v: int>>, place struct<x: int, y: array<string>>, raw binary"
)
NAMES = "id, `a b.c`, at, amount, tags, counts, place, raw"
CONFIG: dict[str, Any] = {"primary_key": "id", "retention": {"changes": "1d", "versions": "1d"}}


def build_row(key: int, version: int) -> tuple[Any, ...]:
    at = datetime.datetime(2024, 3, 1, 1, 2, 3, 456789)
    tags = None if key % 2 else [{"k": "a", "v": version}, None, {"k": None, "v": key}]
    counts = {"k": {"v": version}, "n": None} if key else {}
    place = None if key == 3 else {"x": key, "y": ["p", None]}
    return (key, f"v{version}", at, Decimal(key) + version, key, tags, None if key == 2 else counts, place, b"\x00\xff")


def plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return [plain(part) for part in value]
        case datetime.datetime():
            return value.astimezone(datetime.timezone.utc)
        case bytearray():
            return bytes(value)
    return value


def check_same(lake: Warehouse, model: Model, start: int | None) -> Sequence[int]:
    """Compares all change rows after `start` with Spark's, and returns the commits of the rows."""
    reader = CatalogReader(lake.reader.profile)
    read = open_changes(reader, model, start, None)
    rows = pa.Table.from_batches(read.batches, read.schema).to_pylist(maps_as_pydicts="strict")
    commits = [row.pop("_commit_version") for row in rows]
    expected = [
        row.asDict(recursive=True) for row in frame_changes_between(lake.session_of(model), start, None).collect()
    ]
    assert sorted(map(plain, rows), key=repr) == sorted(map(plain, expected), key=repr)
    assert commits == sorted(commits)
    return commits


@pytest.mark.in_turn
def test_change_rows_are_those_of_spark_after_new_columns_compaction_and_expiry(lake: Warehouse) -> None:
    rows = {key: build_row(key, 0) for key in range(6)}

    def run(selected: str, config: dict[str, Any] = CONFIG) -> Model:
        lake.frame(rows.values(), COLUMNS).writeTo(lake.sql_name("s")).using("iceberg").createOrReplace()
        model = lake.model("m", f"select {NAMES}, {selected} from {{s}}", **config)
        lake.run(model)
        return model

    run("n")
    first = lake.head(run("n"))
    rows |= {1: build_row(1, 1), 9: build_row(9, 1)}
    del rows[4]
    second = lake.head(run("n"))
    rows |= {1: build_row(1, 2), 3: build_row(3, 2)}
    model = run("cast(n as bigint) as n, n * 2L as twice")
    commits = check_same(lake, model, first)
    assert len(set(commits)) == 2
    check_same(lake, model, None)
    compact_table(lake.session_of(model), "full")
    assert check_same(lake, model, first) == commits
    rows[2] = build_row(2, 3)
    run("cast(n as bigint) as n, n * 2L as twice")
    check_same(lake, model, second)
    assert len(check_same(lake, model, None)) == 6 + len(check_same(lake, model, first))
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2)
    plan = expire_versions(lake.session_of(model, now=later), [])
    assert plan.changelog_compaction is not None
    assert len(check_same(lake, model, None)) == 7
