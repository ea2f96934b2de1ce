"""Observing how files lie, without Spark and without opening a data file."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform
from pyiceberg.types import BinaryType, DateType, LongType, NestedField, StringType, TimestampType

from arctic_runtime.catalog.observation.manifests import (
    DEFAULT_TARGET_BYTES,
    build_partition_value,
    list_upper_bounds,
    observe_files,
    observe_specs,
    observe_totals,
    observe_upper_bound,
)
from arctic_runtime.model.files.compaction import FileTotals
from arctic_runtime.model.names import TableName


def named(name: str) -> TableName:
    return TableName("lake", "dwd", name)


def test_files_are_listed_by_node_with_their_rows_and_bytes(shop, writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path)
    made.create("t")
    assert observe_files(made.reader, named("t")) is None
    assert observe_totals(made.reader, named("t")) == FileTotals(0, 0)
    for i in (1, 2):
        made.append("t", [(i, "a"), (i + 10, None)])
    with made.load("t").update_spec() as spec:
        spec.add_field("note", IdentityTransform())
    made.append("t", [(3, "b"), (4, None), (5, "b")])
    found = observe_files(made.reader, named("t"))
    assert found is not None
    assert (found.table, found.snapshot) == (named("t"), made.version("t").snapshot)
    assert found.target_bytes == DEFAULT_TARGET_BYTES
    nodes = [(node.spec, str(node), [file.rows for file in node.files]) for node in found.file_groups]
    assert nodes == [(0, "all rows", [2, 2]), (1, "note = b", [2]), (1, "note = null", [1])]
    assert all(file.bytes > 0 and not file.deleted for node in found.file_groups for file in node.files)
    totals = observe_totals(made.reader, named("t"))
    size = sum(file.bytes for node in found.file_groups for file in node.files)
    assert totals == FileTotals(4, 0, appends=3, bytes=size, added_bytes=size)
    assert (found.spec, [str(of) for of in found.transforms]) == (1, ["note"])


def test_the_highest_number_of_a_column_is_read_from_manifests(writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path)
    made.create("t")
    assert observe_upper_bound(made.reader, named("t"), "id") is None
    for of in (3_000_000_000, 1):
        made.append("t", [(of, "a"), (-of, None)])
    assert observe_upper_bound(made.reader, named("t"), "id") == 3_000_000_000
    assert observe_upper_bound(made.reader, named("t"), "none") is None
    table = made.reader.load_table(named("t").schema, named("t").name)
    assert sorted(bound or 0 for bound in list_upper_bounds(table, "id")) == [1, 3_000_000_000]
    assert list_upper_bounds(table, "none") == [None, None]


def test_the_specs_of_a_table_are_identified_by_their_transforms(writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path)
    made.create("t")
    for field in (BucketTransform(4), BucketTransform(8)):
        with made.load("t").update_spec() as spec:
            spec.add_field("id", field)
    specs = observe_specs(made.reader, named("t"))
    fields = {number: [str(of) for of in transforms] for number, transforms in specs.transforms.items()}
    assert (specs.default, fields) == (2, {0: [], 1: ["bucket(4, id)"], 2: ["bucket(4, id)", "bucket(8, id)"]})


def test_the_size_at_which_files_are_cut_is_the_tables_own(writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path)
    made.create("t")
    made.append("t", [(1, "a")])
    with made.load("t").transaction() as change:
        change.set_properties({"write.target-file-size-bytes": "1048576"})
    found = observe_files(made.reader, named("t"))
    assert found is not None
    assert found.target_bytes == 1_048_576


@pytest.mark.parametrize(
    ("kind", "transform", "value", "expected"),
    [
        (LongType(), IdentityTransform(), 5, ("c = 5", "bigint")),
        (StringType(), IdentityTransform(), "it's", ("c = it's", "string")),
        (DateType(), IdentityTransform(), 19_723, ("c = 2024-01-01", "date")),
        (TimestampType(), DayTransform(), 19_723, ("days(c) = 2024-01-01", "date")),
        (TimestampType(), DayTransform(), None, ("days(c) = null", "date")),
        (DateType(), MonthTransform(), 648, ("months(c) = 648", "int")),
        (BinaryType(), IdentityTransform(), b"\x00", ("c = AA==", "")),
    ],
    ids=str,
)
def test_values_of_partitions_are_reported_as_spark_writes_them(
    kind: Any, transform: Any, value: Any, expected: tuple[str, str], writing, tmp_path
) -> None:
    made = writing.warehouse(tmp_path).create("t", (NestedField(1, "c", kind, required=False),))
    found = build_partition_value(made, PartitionField(1, 1000, transform, "p"), value)
    assert (str(found), found.type) == expected


def test_a_partition_by_a_column_that_is_gone_has_no_condition(writing, tmp_path) -> None:
    made = writing.warehouse(tmp_path).create("t")
    found = build_partition_value(made, PartitionField(99, 1000, IdentityTransform(), "gone"), 7)
    assert (str(found), found.type) == ("gone = 7", "")
