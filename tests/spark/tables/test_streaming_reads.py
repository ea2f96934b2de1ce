"""Spark's Structured Streaming reads each change once from a change table, with the options that the docs name."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from arctic_runtime.model.table import Model
from arctic_runtime.spark.maintenance.compaction import compact_table
from arctic_runtime.spark.maintenance.expiry import expire_if_due, expire_versions
from arctic_runtime.spark.tables.table_session import TableSession
from tests.spark.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = "id int, v int"
OPTIONS = {
    "streaming-skip-delete-snapshots": "true",
    "streaming-skip-overwrite-snapshots": "true",
    "streaming-max-files-per-micro-batch": "1",
}
CONFIG: dict[str, Any] = {"primary_key": "id", "retention": {"changes": "1d", "versions": "1d"}}


def put(lake: Warehouse, rows: dict[int, int]) -> Model:
    lake.load("s", list(rows.items()), COLUMNS)
    model = lake.model("m", "select id, v from {s}", **CONFIG)
    lake.run(model)
    return model


def follow(lake: Warehouse, checkpoint: Path, **options: str) -> list[tuple[Any, ...]]:
    """The change rows that a stream with this checkpoint has not read yet, batch by batch: key, value and action."""
    rows: list[tuple[Any, ...]] = []

    def keep(batch: DataFrame, _: int) -> None:
        rows.extend(sorted(tuple(row) for row in batch.collect()))

    stream = lake.spark.readStream.options(**(options or OPTIONS)).table(lake.sql_name("m__changes"))
    written = stream.select("id", "v", "_action").writeStream.foreachBatch(keep)
    written.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return rows


def later(lake: Warehouse, model: Model) -> TableSession:
    return lake.session_of(model, now=datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=2))


@pytest.mark.in_turn
def test_each_change_is_read_once_through_compaction_and_changelog_compaction(lake: Warehouse, tmp_path: Path) -> None:
    put(lake, {1: 1, 2: 2})
    put(lake, {1: 10, 2: 2})
    assert follow(lake, tmp_path) == [(1, 1, "insert"), (2, 2, "insert"), (1, 10, "update")]
    model = put(lake, {1: 20})
    compact_table(lake.session_of(model), "full")
    assert follow(lake, tmp_path) == [(1, 20, "update"), (2, 2, "delete")]
    assert follow(lake, tmp_path) == []
    expire_if_due(later(lake, model), [])
    put(lake, {1: 30})
    snapshots = lake.spark.sql(f"select operation from {lake.sql_name('m__changes')}.snapshots").collect()
    assert {row.operation for row in snapshots} == {"append", "replace", "delete"}
    assert follow(lake, tmp_path) == [(1, 30, "update")]


def test_a_stream_without_the_options_fails_at_changelog_compaction(lake: Warehouse, tmp_path: Path) -> None:
    put(lake, {1: 1})
    model = put(lake, {1: 10})
    follow(lake, tmp_path)
    expire_if_due(later(lake, model), [])
    put(lake, {1: 20})
    with pytest.raises(StreamingQueryException, match="to ignore deletes, set streaming-skip-delete-snapshots=true"):
        follow(lake, tmp_path, **{"streaming-max-files-per-micro-batch": "1"})
    assert follow(lake, tmp_path) == [(1, 20, "update")]


@pytest.mark.in_turn
def test_a_stream_fails_where_its_version_has_expired_and_a_new_one_lacks_earlier_rows(
    lake: Warehouse, tmp_path: Path
) -> None:
    put(lake, {1: 1, 2: 2})
    model = put(lake, {1: 10, 2: 2})
    follow(lake, tmp_path / "old")
    expire_versions(later(lake, model), [])
    put(lake, {1: 20, 2: 2})
    with pytest.raises(StreamingQueryException, match="the snapshot was expired or removed"):
        follow(lake, tmp_path / "old")
    assert (2, 2, "insert") not in follow(lake, tmp_path / "new")
    assert (2, 2, "insert") in {(row["id"], row["v"], row["_action"]) for row in lake.log(model)}


@pytest.mark.in_turn
@pytest.mark.parametrize("is_quiet", [True, False])
def test_a_stream_goes_on_from_where_a_batch_read_has_ended(lake: Warehouse, tmp_path: Path, is_quiet: bool) -> None:
    put(lake, {1: 1, 2: 2})
    model = put(lake, {1: 10, 2: 2})
    expire_versions(later(lake, model), [])
    put(lake, {1: 20, 2: 2})
    log = lake.sql_name("m__changes")
    newest = lake.spark.sql(
        f"select snapshot_id, unix_millis(committed_at) as at from {log}.snapshots order by committed_at desc limit 1"
    ).collect()[0]
    rows = lake.spark.sql(f"select id, v, _action from {log} version as of {newest.snapshot_id}").collect()
    assert sorted(map(tuple, rows)) == [(1, 10, "update"), (1, 20, "update"), (2, 2, "insert")]
    options = {**OPTIONS, "stream-from-timestamp": str(newest.at + 1)}
    if is_quiet:
        assert follow(lake, tmp_path, **options) == []
    put(lake, {1: 30, 2: 2})
    assert follow(lake, tmp_path, **options) == [(1, 30, "update")]
    put(lake, {1: 30, 2: 3})
    assert follow(lake, tmp_path, **options) == [(2, 3, "update")]
