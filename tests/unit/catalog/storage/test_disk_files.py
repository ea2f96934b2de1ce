"""Data files as they lie on disk: rows are found in them whatever snapshots say, under names of any time."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from arctic_runtime.catalog.storage.disk_files import DiskFiles
from arctic_runtime.model.names import TableName

T = TableName("lake", "dwd", "t")


def keys(*values: int) -> pa.Table:
    return pa.table({"__arctic_k0": pa.array(values, pa.int64())})


def counted(files: DiskFiles, *values: int) -> list[int]:
    return sorted(files.count_rows_under(file.path, keys(*values)) for file in files.on_disk())


@pytest.fixture
def warehouse(tmp_path: Path, writing):
    """A warehouse of the test's own."""
    return writing.warehouse(tmp_path)


@pytest.fixture
def files(warehouse) -> DiskFiles:
    warehouse.create("t")
    warehouse.append("t", [(1, "a"), (2, "b"), (3, "c")])
    warehouse.append("t", [(3, "d"), (9, "e")])
    return DiskFiles(warehouse.reader, T, ("ID",))


def test_rows_are_counted_by_their_key_in_every_file(files: DiskFiles) -> None:
    assert counted(files, 3) == [1, 1]
    assert counted(files, 1, 2, 9) == [1, 2]
    assert counted(files, 77) == [0, 0]
    assert counted(files) == [0, 0]


def test_rows_that_were_deleted_and_files_of_no_snapshot_are_found_until_they_are_removed(
    files: DiskFiles, warehouse
) -> None:
    table = warehouse.load("t")
    table.delete("id = 3")
    assert counted(DiskFiles(warehouse.reader, T, ("id",)), 3) == [0, 0, 1, 1]
    folder = to_path(table.location()) / "data"
    stray = folder / "stray.parquet"
    shutil.copy2(next(iter(folder.glob("*.parquet"))), stray)
    now = DiskFiles(warehouse.reader, T, ("id",))
    (loose,) = [file for file in now.on_disk() if not file.is_referenced]
    assert loose.path.endswith("stray.parquet")
    now.remove_file(loose.path)
    now.remove_file(loose.path)
    assert not stray.exists()


@pytest.mark.parametrize(
    "place", ["{folder}_data", "{folder}/more", "{folder}/more/", "{folder}/", "file://{folder}/more", "file:{folder}"]
)
def test_files_of_no_snapshot_are_listed_once_wherever_data_is_written(warehouse, place: str) -> None:
    """Also beside the table's folder, in one whose name begins with the same text."""
    table = warehouse.create("t")
    with table.transaction() as change:
        change.set_properties({"write.data.path": place.format(folder=to_path(table.location()))})
    warehouse.append("t", [(1, "a")])
    files = DiskFiles(warehouse.reader, T, ("id",))
    (written,) = files.list_snapshot_files()
    shutil.copy2(to_path(written), to_path(written).with_name("stray.parquet"))
    assert [Path(file.path).name for file in files.on_disk() if not file.is_referenced] == ["stray.parquet"]


def test_files_of_a_table_whose_name_begins_alike_are_left_out(warehouse) -> None:
    for name in ("t", "t_data"):
        warehouse.create(name)
        warehouse.append(name, [(1, "a")])
    assert [file.is_referenced for file in DiskFiles(warehouse.reader, T, ("id",)).on_disk()] == [True]


def to_path(address: str) -> Path:
    return Path(address.removeprefix("file://").removeprefix("file:"))


def test_a_key_is_found_under_the_name_that_it_had_and_the_type(files: DiskFiles, warehouse) -> None:
    table = warehouse.load("t")
    with table.update_schema() as update:
        update.rename_column("id", "number")
    assert isinstance(table.schema().find_field("number").field_type, LongType)
    assert counted(DiskFiles(warehouse.reader, T, ("number",)), 3) == [1, 1]


def test_keys_of_several_columns_count_as_a_whole_and_those_without_any_hold_for_all_rows(warehouse) -> None:
    warehouse.create("t")
    warehouse.append("t", [(1, "a"), (1, "b"), (2, "a")])
    files = DiskFiles(warehouse.reader, T, ("id", "note"))
    (file,) = files.on_disk()
    wanted = pa.table({"k0": pa.array([1, 2], pa.int64()), "k1": pa.array(["b", "b"])})
    assert files.count_rows_under(file.path, wanted) == 1
    assert DiskFiles(warehouse.reader, T, ()).count_rows_under(file.path, pa.table({"k": [True]})) == 3
