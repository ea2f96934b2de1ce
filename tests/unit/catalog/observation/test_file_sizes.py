"""Sizes of files and columns, from manifests alone."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.catalog.observation.file_sizes import observe_file_sizes
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_filter import ColumnLimit

TABLE = TableName("lake", "dwd", "t")


@pytest.fixture(scope="module")
def made(writing: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    warehouse = writing.warehouse(tmp_path_factory.mktemp("sizes"))
    warehouse.create("empty")
    warehouse.create("t")
    for first in (0, 100):
        warehouse.append("t", [(first + number, f"{first + number} is a note") for number in range(100)])
    return warehouse


def observe(made: Any, *limits: ColumnLimit) -> FileSizes:
    sizes = observe_file_sizes(made.reader, TABLE, limits)
    assert sizes is not None
    return sizes


def test_rows_files_bytes_and_columns_are_counted(made: Any) -> None:
    sizes = observe(made)
    assert (sizes.rows, sizes.files) == (200, 2)
    assert set(sizes.column_bytes) == {"id", "note"}
    assert 0 < sum(sizes.column_bytes.values()) < sizes.bytes
    assert observe_file_sizes(made.reader, TableName("lake", "dwd", "none")) is None
    assert observe_file_sizes(made.reader, TableName("lake", "dwd", "empty")) == FileSizes()


def test_a_scan_reads_the_files_without_the_other_columns(made: Any) -> None:
    sizes = observe(made)
    assert sizes.sum_bytes(["ID", "note"]) == sizes.bytes
    assert sizes.sum_bytes(["ID"]) == sizes.bytes - sizes.column_bytes["note"]
    assert sizes.sum_bytes([]) == sizes.bytes - sum(sizes.column_bytes.values())


@pytest.mark.parametrize(
    ("limit", "files"),
    [
        (ColumnLimit("ID", "=", 150), 1),
        (ColumnLimit("id", "=", 99.5), 2),
        (ColumnLimit("id", "<", 50), 1),
        (ColumnLimit("id", ">=", 0), 2),
        (ColumnLimit("id", ">", 1_000), 0),
        (ColumnLimit("id", ">", 2**70), 2),
        (ColumnLimit("note", "<=", "0"), 0),
        (ColumnLimit("id", "=", "x"), 2),
        (ColumnLimit("none", "=", 1), 2),
    ],
)
def test_files_are_skipped_by_their_bounds_and_only_if_they_are_certain(
    made: Any, limit: ColumnLimit, files: int
) -> None:
    assert observe(made, limit).files == files


def test_a_struct_counts_with_its_fields() -> None:
    sizes = FileSizes(10, 1, 100, {"a": 30, "b.x": 20, "b.y": 40})
    assert sizes.sum_bytes(["b"]) == 70
    assert sizes.sum_bytes(["b.x", "a"]) == 60
    assert (sizes.estimate_row_bytes(), FileSizes().estimate_row_bytes()) == (10, None)
