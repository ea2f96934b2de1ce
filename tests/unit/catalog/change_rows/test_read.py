"""Change rows as Arrow batches, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType

from arctic_runtime.catalog.change_rows.log_files import LINEAGE_FIELD, LogFile, LogReader
from arctic_runtime.catalog.change_rows.projection import build_arrow_fields
from arctic_runtime.catalog.change_rows.read import ChangeRows
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.operations.looking import limit_rows, open_changes
from arctic_runtime.thresholds import SHIPPED, ExportThresholds

DWD = Model(TableName("lake", "dwd", "dwd"), "select 1", ModelConfig(("id",), hash_key="id", merge="on_read"))


def read(rows: ChangeRows) -> list[tuple[Any, ...]]:
    """Id, note, action and commit of each row; batches have the announced schema."""
    table = pa.Table.from_batches(rows.batches, rows.schema)
    return [(row["id"], row["note"], row["_action"], row["_commit_version"]) for row in table.to_pylist()]


def test_rows_come_commit_by_commit_after_the_start_and_up_to_the_end(shop) -> None:
    warehouse, made = shop
    first, *_, last = made["dwd"]
    rows = open_changes(warehouse.reader, DWD, first.snapshot, None)
    assert rows.end == last
    assert read(rows) == [
        (1, "a2", "update", first.sequence + 1),
        (2, "b", "delete", first.sequence + 2),
        (4, "d", "insert", first.sequence + 2),
        (4, "d2", "update", first.sequence + 3),
    ]
    until = open_changes(warehouse.reader, DWD, first.snapshot, made["dwd"][1].snapshot)
    assert [row[0] for row in read(until)] == [1]


def test_without_a_start_every_row_is_read_that_is_kept(shop) -> None:
    warehouse, made = shop
    rows = open_changes(warehouse.reader, DWD, None, made["dwd"][1].snapshot)
    assert [row[1] for row in read(rows)] == ["a", "b", "c", "a2"]


def test_nothing_new_is_a_schema_without_rows(shop) -> None:
    warehouse, made = shop
    rows = open_changes(warehouse.reader, DWD, made["dwd"][-1].snapshot, None)
    assert rows.schema.names == ["id", "note", "_action", "_seq", "_before", "_commit_version"]
    assert read(rows) == []


def test_a_limit_ends_the_rows(shop) -> None:
    warehouse, _ = shop
    assert len(read(limit_rows(open_changes(warehouse.reader, DWD, None, None), 2))) == 2


@pytest.mark.parametrize(("start", "end", "text"), [("7", None, "has no version 7"), (-1, 0, "is newer than")])
def test_a_version_that_is_not_there_or_in_the_wrong_order_is_refused(shop, start: Any, end: Any, text: str) -> None:
    warehouse, made = shop
    versions = [made["dwd"][place].snapshot if isinstance(place, int) else place for place in (start, end)]
    with pytest.raises(ConfigError, match=text):
        open_changes(warehouse.reader, DWD, *versions)


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_the_order_is_the_same_however_few_rows_are_sorted_together(shop, most: int) -> None:
    profile = shop[0].profile
    exports = ExportThresholds(batch_rows=1, sorted_rows=most)
    reader = CatalogReader(replace(profile, thresholds=replace(SHIPPED, exports=exports)))
    rows = read(open_changes(reader, DWD, None, None))
    assert [row[3] for row in rows] == sorted(row[3] for row in rows)
    assert sorted(rows) == sorted(read(open_changes(shop[0].reader, DWD, None, None)))


def test_rows_of_a_compacted_file_have_the_commits_that_added_them(tmp_path: Path, shop) -> None:
    table = shop[0].load("dwd__changes")
    lineage = pa.field("_last_updated_sequence_number", pa.int64(), metadata={"PARQUET:field_id": str(LINEAGE_FIELD)})
    key = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    written = pa.table({"id": [1, 2, 3, 4], lineage.name: [5, 5, 6, None]}, schema=pa.schema([key, lineage]))
    pq.write_table(written, tmp_path / "compacted.parquet", row_group_size=2)
    file = LogFile(str(tmp_path / "compacted.parquet"), 9)
    wanted = table.schema().as_struct()
    reader = LogReader(table, wanted, build_arrow_fields(wanted), 8192)
    assert reader.count_rows(file) == {5: 2, 6: 1, 9: 1}
    assert ids(reader.read_rows(file, 6, 9)) == [(3, 6), (4, 9)]
    assert ids(reader.read_rows(file, 5, 5)) == [(1, 5), (2, 5)]


def ids(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["_before"] is None for row in rows)
    return [(row["id"], row["_commit_version"]) for row in rows]


def test_a_column_that_only_spark_reads_is_named_with_what_to_do() -> None:
    from pyiceberg.types import GeometryType, NestedField, StructType

    odd = StructType(NestedField(1, "id", LongType()), NestedField(2, "v", GeometryType("arctic:variant")))
    with pytest.raises(ConfigError, match=r"The column v can't be read without Spark[\s\S]*type variant"):
        build_arrow_fields(odd)
