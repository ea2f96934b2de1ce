"""Upkeep of tables that share files: snapshots go from the metadata alone, and only own files are ever deleted."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from arctic_runtime.catalog.metadata_files import read_metadata
from arctic_runtime.catalog.shared_files import (
    expire_in_metadata,
    list_own_orphans,
    remove_own_files,
    remove_snapshots,
)
from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from tests.unit.cloned_tables import ODS, make_clones
from tests.unit.plan.cloning.test_table_copy import a_table

NAME = TableName("lake", "dev", "ods")
LATER = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)


@given(st.data())
def test_metadata_has_no_snapshot_that_was_removed(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 8))
    gone = data.draw(st.sets(st.integers(2, count - 1)) if count > 2 else st.just(set[int]()))
    table = a_table(count)
    table["refs"]["keep"]["snapshot-id"] = 1
    left = remove_snapshots(table, gone, "/wh/prod/m/metadata/2.json")
    read = TableMetadataUtil.parse_raw(json.dumps(left))
    assert {snapshot.snapshot_id for snapshot in read.snapshots} == set(range(1, count + 1)) - gone
    assert read.current_snapshot_id == count == read.snapshot_log[-1].snapshot_id
    assert not gone & {entry.snapshot_id for entry in read.snapshot_log}
    assert read.metadata_log[-1].metadata_file == "/wh/prod/m/metadata/2.json"
    assert {key: left[key] for key in left if key not in ("snapshots", "snapshot-log", "metadata-log")} == {
        key: table[key] for key in table if key not in ("snapshots", "snapshot-log", "metadata-log")
    }


@pytest.fixture
def warehouse(writing: Any, tmp_path: Path) -> Any:
    """A clone whose rows were written anew, and written again: two snapshots are its own."""
    made, _ = make_clones(writing, tmp_path)
    table = made.reader.load_table("dev", "ods")
    for text in ("x", "y"):
        table.overwrite(table.scan().to_arrow().slice(0, 1).set_column(1, "note", [[text]]))
        table = made.reader.load_table("dev", "ods")
    return made


def snapshots_of(warehouse: Any, schema: str = "dev") -> list[int]:
    return [snapshot.snapshot_id for snapshot in warehouse.reader.load_table(schema, "ods").metadata.snapshots]


def files_of(warehouse: Any, schema: str) -> set[Path]:
    folder = Path(urlsplit(warehouse.reader.load_table(schema, "ods").location()).path)
    return {file for file in folder.rglob("*") if file.is_file()}


def read(warehouse: Any, schema: str) -> list[Any]:
    rows: list[Any] = warehouse.reader.load_table(schema, "ods").scan().to_arrow().to_pylist()
    return rows


def test_snapshots_go_and_no_file_does(warehouse: Any) -> None:
    files = files_of(warehouse, "dwd") | files_of(warehouse, "dev")
    gone = snapshots_of(warehouse)[:-1]
    before, theirs = read(warehouse, "dev"), read(warehouse, "dwd")
    for _ in range(2):
        expire_in_metadata(warehouse.reader, NAME, gone)
        assert len(snapshots_of(warehouse)) == 1
    assert files <= files_of(warehouse, "dwd") | files_of(warehouse, "dev")
    assert (read(warehouse, "dev"), read(warehouse, "dwd")) == (before, theirs)
    table = warehouse.reader.load_table("dev", "ods")
    assert table.metadata_location.rpartition("/")[2].startswith("00003-")
    table.append(table.scan().to_arrow())
    assert len(read(warehouse, "dev")) == 2


def test_a_snapshot_with_a_tag_stays(warehouse: Any) -> None:
    first = snapshots_of(warehouse)[0]
    warehouse.reader.load_table("dev", "ods").manage_snapshots().create_tag(first, "keep").commit()
    with pytest.raises(CommitConflict, match="has got the snapshot"):
        expire_in_metadata(warehouse.reader, NAME, [first])
    assert first in snapshots_of(warehouse)


def test_of_two_writers_one_is_refused(warehouse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = warehouse.reader
    swap = reader.swap_metadata_file
    assert not swap("dev", "ods", "file:///another", "file:///next")

    def commit_before(*arguments: str) -> bool:
        reader.load_table("dev", "ods").append(reader.load_table("dev", "ods").scan().to_arrow())
        return bool(swap(*arguments))

    monkeypatch.setattr(reader, "swap_metadata_file", commit_before)
    with pytest.raises(CommitConflict, match="Another writer committed first"):
        expire_in_metadata(reader, NAME, snapshots_of(warehouse)[:1])
    assert len(read(warehouse, "dev")) == 2


def test_own_files_of_no_snapshot_are_removed_and_no_other(warehouse: Any) -> None:
    theirs = files_of(warehouse, "dwd")
    expire_in_metadata(warehouse.reader, NAME, snapshots_of(warehouse)[:-1])
    before = read(warehouse, "dev")
    orphans = list_own_orphans(warehouse.reader, NAME, LATER)
    assert any(path.endswith(".parquet") for path in orphans)
    assert any("snap-" in path for path in orphans)
    assert list_own_orphans(warehouse.reader, NAME, LATER - datetime.timedelta(days=2)) == []
    foreign = next(iter(theirs))
    remove_own_files(warehouse.reader, NAME, [*orphans, f"file://{foreign}"])
    assert files_of(warehouse, "dwd") == theirs
    assert list_own_orphans(warehouse.reader, NAME, LATER) == []
    remove_own_files(warehouse.reader, NAME, orphans)
    assert read(warehouse, "dev") == before
    assert len(read(warehouse, "dwd")) == 2
    assert read_metadata(warehouse.reader, ODS) is not None
