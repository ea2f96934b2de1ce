"""Metadata of a copy: it is valid, has the wanted snapshots alone, and no folder and no metadata file of the table."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.cloning.table_copy import (
    TableCopy,
    choose_location,
    compute_clone_uuid,
    derive_metadata,
    walk_lineage,
)

COPY, UUID = TableName("lake", "dev", "m"), "00000000-0000-0000-0000-000000000002"


def a_snapshot(number: int) -> dict[str, Any]:
    parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
    return {
        "snapshot-id": number,
        **parent,
        "sequence-number": number,
        "timestamp-ms": 1000 * number,
        "summary": {"operation": "append", "own": str(number)},
        "manifest-list": f"/wh/prod/m/metadata/snap-{number}.avro",
        "schema-id": 0,
        "first-row-id": 10 * number,
        "added-rows": 10,
    }


def a_table(count: int) -> dict[str, Any]:
    """Metadata of a table of version 3 with so many snapshots, and a field of a later version."""
    return {
        "format-version": 3,
        "table-uuid": "00000000-0000-0000-0000-000000000001",
        "location": "/wh/prod/m",
        "last-sequence-number": count,
        "last-updated-ms": 1000 * count,
        "last-column-id": 1,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "int"}]}
        ],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {"write.data.path": "/wh/prod/m/elsewhere", "arctic.kind": "base", "gc.enabled": "true"},
        "current-snapshot-id": count,
        "snapshots": [a_snapshot(number) for number in range(1, count + 1)],
        "snapshot-log": [{"snapshot-id": n, "timestamp-ms": 1000 * n} for n in range(1, count + 1)],
        "metadata-log": [{"metadata-file": "/wh/prod/m/metadata/1.json", "timestamp-ms": 1}],
        "refs": {"main": {"snapshot-id": count, "type": "branch"}, "keep": {"snapshot-id": 1, "type": "tag"}},
        "statistics": [
            {
                "snapshot-id": count,
                "statistics-path": "/wh/prod/m/metadata/s.puffin",
                "file-size-in-bytes": 10,
                "file-footer-size-in-bytes": 5,
                "blob-metadata": [],
            }
        ],
        "next-row-id": 10 * count + 10,
        "of-a-later-version": {"kept": True},
    }


@given(st.data())
def test_a_copy_has_the_wanted_snapshots_alone(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    kept = data.draw(st.sets(st.integers(1, count), min_size=1))
    main = data.draw(st.sampled_from(sorted(kept)))
    tags = data.draw(st.dictionaries(st.sampled_from(["one", "two"]), st.sampled_from(sorted(kept))))
    table = a_table(count)
    before = copy.deepcopy(table)
    wanted = TableCopy(COPY, UUID, "/wh/dev/m-1", main, tuple(sorted(kept)), {"own": "1"}, {main: {"more": "x"}}, tags)
    derived = derive_metadata(table, wanted)
    assert table == before
    read = TableMetadataUtil.parse_raw(json.dumps(derived))
    assert {snapshot.snapshot_id for snapshot in read.snapshots} == kept
    assert read.current_snapshot_id == main == read.snapshot_log[-1].snapshot_id
    assert {name: ref.snapshot_id for name, ref in read.refs.items()} == {"main": main, **tags}
    assert (str(read.table_uuid), read.location) == (UUID, "/wh/dev/m-1")
    assert read.properties == {"arctic.kind": "base", "gc.enabled": "false", "own": "1"}
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in derived["snapshots"]}
    for number in kept:
        more = {"more": "x"} if number == main else {}
        expected = a_snapshot(number)
        assert by_id[number] == {**expected, "summary": {**expected["summary"], **more}}
    same = ("last-sequence-number", "next-row-id", "of-a-later-version", "schemas", "last-updated-ms")
    assert all(derived[key] == table[key] for key in same)
    assert read.metadata_log == []
    own = {key: part for key, part in derived.items() if key != "snapshots"}
    assert "/wh/prod" not in json.dumps(own)


def test_lineage_ends_where_a_snapshot_has_expired() -> None:
    table = a_table(4)
    del table["snapshots"][1]
    assert [snapshot["snapshot-id"] for snapshot in walk_lineage(table)] == [4, 3]
    assert [snapshot["snapshot-id"] for snapshot in walk_lineage(table, 1)] == [1]
    assert list(walk_lineage({"snapshots": []})) == []


def test_uuids_of_clones_that_are_made_together_are_known_before() -> None:
    known = compute_clone_uuid("u", COPY, "s")
    others = [("v", COPY, "s"), ("u", COPY.with_name("n"), "s"), ("u", COPY, "t")]
    assert known == compute_clone_uuid("u", COPY, "s")
    assert known not in {compute_clone_uuid(*other) for other in others}


def test_a_copy_has_a_folder_of_its_own() -> None:
    name, own = TableName("lake", "prod", "m__base"), "12345678-9"
    copy_name = TableName("lake", "dev", "m__base")
    cases = {
        ("s3://b/wh/prod/m__base", None): "s3://b/wh/dev/m__base-12345678",
        ("s3://b/wh/prod/m__base/", "s3://b/dev/"): "s3://b/dev/m__base-12345678",
        ("s3://b/x/y", None): "s3://b/x/dev.m__base-12345678",
        ("/m", None): "/dev.m__base-12345678",
    }
    assert {case: choose_location(case[0], name, copy_name, own, case[1]) for case in cases} == cases
