"""Change rows by the values of their columns, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from arctic_runtime.catalog.change_rows.log_search import LogSearch
from arctic_runtime.errors import CorruptState
from arctic_runtime.model.names import TableName

LOG = TableName("lake", "dwd", "log__changes")
COMMITS: Sequence[Sequence[tuple[Any, ...]]] = (
    [(1, "a", "insert"), (2, "b", "insert")],
    [(1, "b", "update", 0, {"note": "a"}), (7, None, "insert")],
    [(50, "x", "insert"), (60, "y", "insert")],
    [(2, "b", "delete", 0, {"note": "b"})],
)


@pytest.fixture
def warehouse(tmp_path: Path, writing: Any) -> Any:
    """A change table of which each commit is a file."""
    warehouse = writing.warehouse(tmp_path)
    warehouse.create(LOG.name, writing.changes)
    for rows in COMMITS:
        warehouse.append(LOG.name, rows)
    return warehouse


def find(warehouse: Any, kept_rows: int, most: int = 100, **wanted: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
    """Key, note and action of the rows with wanted values; None if they are more than `most`."""
    search = LogSearch(warehouse.reader, LOG, warehouse.version(LOG.name), ("id",), kept_rows)
    rows = search.find_rows(wanted, most)
    return None if rows is None else [(row["id"], row["note"], row["_action"]) for row in rows.to_pylist()]


@pytest.mark.parametrize("kept_rows", [0, 1000])
def test_rows_are_found_by_what_they_are_and_by_what_they_were(warehouse: Any, kept_rows: int) -> None:
    assert find(warehouse, kept_rows, id=(2,)) == [(2, "b", "insert"), (2, "b", "delete")]
    assert find(warehouse, kept_rows, note=("a",)) == [(1, "a", "insert"), (1, "b", "update")]
    assert find(warehouse, kept_rows, note=(None, "x")) == [(7, None, "insert"), (50, "x", "insert")]
    assert find(warehouse, kept_rows, id=(1, 2), note=("a",)) == [(1, "a", "insert"), (1, "b", "update")]
    assert find(warehouse, kept_rows, id=()) == []
    assert find(warehouse, kept_rows, most=1, id=(1,)) is None


def test_a_file_whose_bounds_exclude_the_values_is_not_opened(warehouse: Any) -> None:
    (third,) = (task.file.file_path for task in warehouse.load(LOG.name).scan(row_filter="id = 50").plan_files())
    PyArrowFileIO().delete(urlsplit(third).path)
    assert find(warehouse, 0, id=(1, 2, 7)) is not None
    assert find(warehouse, 0, note=("a",)) is not None
    with pytest.raises(CorruptState):
        find(warehouse, 0, id=(55,))


def test_values_that_arrow_compares_in_another_way_are_left_to_spark(warehouse: Any) -> None:
    search = LogSearch(warehouse.reader, LOG, warehouse.version(LOG.name), ("id",), 0)
    assert search.can_compare(("ID", "note"))
    assert not search.can_compare(("id", "_before"))
    assert not search.can_compare(("unknown",))
