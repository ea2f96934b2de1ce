"""One row by its key, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import BooleanType, LongType, NestedField, StringType, StructType

from arctic_runtime.catalog.lookup import estimate_full_scan_bytes, look_up_row, read_sample_rows
from arctic_runtime.errors import ConfigError, DataError
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig
from tests.fuzz.hostile import generate_hostile_texts, is_encodable

VERSIONS = (
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "_valid_from", LongType(), required=False),
    NestedField(3, "_valid_to", LongType(), required=False),
    NestedField(4, "_is_current", BooleanType(), required=False),
)
BEFORE = StructType(
    *(NestedField(version.field_id + 10, version.name, version.field_type, required=False) for version in VERSIONS[2:])
)
VERSION_CHANGES = (
    *VERSIONS,
    NestedField(5, "_action", StringType(), required=False),
    NestedField(6, "_before", BEFORE, required=False),
    NestedField(7, "_seq", LongType(), required=False),
)


def a_model(name: str, merge: Any = "on_write", key: tuple[str, ...] = ("id",)) -> Model:
    return Model(TableName("lake", "dwd", name), "select 1", ModelConfig(key, hash_key="id", merge=merge))


ODS, DWD = a_model("ods"), a_model("dwd", "on_read")


@pytest.mark.parametrize(
    ("key", "row"),
    [
        ("1", {"id": 1, "note": "a2"}),
        ("3", {"id": 3, "note": "c"}),
        ("4", {"id": 4, "note": "d2"}),
        ("2", None),
        ("99", None),
    ],
    ids=["merged", "never changed", "changed twice since", "deleted since", "never there"],
)
def test_a_row_is_found_as_it_is_now_merged_or_not(shop, key: str, row: dict[str, Any] | None) -> None:
    warehouse, _ = shop
    assert look_up_row(warehouse.reader, DWD, [key]).row == row


def test_a_lookup_opens_only_files_that_may_hold_the_key(shop) -> None:
    warehouse, _ = shop
    row = look_up_row(warehouse.reader, ODS, ["2"])
    assert (row.row, row.files_opened) == ({"id": 2, "note": "n2"}, 1)
    assert look_up_row(warehouse.reader, ODS, ["1000"]).files_opened == 0
    assert look_up_row(warehouse.reader, DWD, ["3"]).files_opened == 2
    assert look_up_row(warehouse.reader, DWD, ["1"]).files_opened == 1


def test_a_lookup_takes_every_column_of_the_key(shop) -> None:
    warehouse, _ = shop
    both = a_model("ods", key=("id", "note"))
    assert look_up_row(warehouse.reader, both, ["1", "n1"]).row == {"id": 1, "note": "n1"}
    assert look_up_row(warehouse.reader, both, ["1", "n2"]).row is None


@pytest.mark.parametrize("values", [[], ["1", "2"]])
def test_a_lookup_needs_one_value_for_each_column_of_the_key(shop, values: list[str]) -> None:
    warehouse, _ = shop
    with pytest.raises(ConfigError, match="expected: one value for each of id"):
        look_up_row(warehouse.reader, ODS, values)


@pytest.mark.parametrize("value", ["1.9", "1_0", "٣", "1e0", " 1", "", "1 or 1=1", "\ud800"])
def test_a_number_that_would_be_rounded_or_guessed_is_refused(shop, value: str) -> None:
    """The row of another key would be an answer that nobody doubts."""
    warehouse, _ = shop
    with pytest.raises(ConfigError, match="not a valid value of the key column `id`"):
        look_up_row(warehouse.reader, ODS, [value])


def test_a_key_of_any_text_finds_its_own_row(tmp_path: Path, writing) -> None:
    w = writing.warehouse(tmp_path)
    w.create("odd__changes", writing.changes, arctic_kind="changes", arctic_primary_key="note")
    version = w.append("odd__changes", [(1, "x", "insert")], **writing.ran({}, "create"))
    w.create("odd", arctic_kind="base", arctic_primary_key="note")
    texts = list(filter(is_encodable, generate_hostile_texts(1_500)))
    w.append("odd", list(enumerate(texts)), **writing.merged_to(version))
    model = a_model("odd", key=("note",))
    for number in range(0, len(texts), 15):
        assert look_up_row(w.reader, model, [texts[number]]).row == {"id": number, "note": texts[number]}
    assert look_up_row(w.reader, model, ["' or '1'='1' --"]).row is None


def test_a_lookup_in_a_table_that_was_not_built_says_so(shop) -> None:
    warehouse, _ = shop
    with pytest.raises(ConfigError, match="has not been built yet"):
        look_up_row(warehouse.reader, a_model("nothing"), ["1"])


def test_a_lookup_counts_the_bytes_that_it_reads_and_none_where_nothing_may_hold_the_key(shop) -> None:
    warehouse, _ = shop
    assert look_up_row(warehouse.reader, ODS, ["2"]).bytes_read > 0
    assert look_up_row(warehouse.reader, ODS, ["1000"]).bytes_read == 0


def test_of_rows_not_merged_yet_the_newest_commit_ends_the_search(shop) -> None:
    warehouse, _ = shop
    assert look_up_row(warehouse.reader, DWD, ["4"]).files_opened == 1


def test_of_a_file_only_the_row_groups_that_may_hold_the_key_are_read(tmp_path: Path, writing) -> None:
    w = writing.warehouse(tmp_path)
    w.create("big__changes", writing.changes, arctic_kind="changes", arctic_primary_key="id")
    version = w.append("big__changes", [(1, "x", "insert")], **writing.ran({}, "create"))
    w.create("big", arctic_kind="base", arctic_primary_key="id")
    with w.load("big").transaction() as change:
        change.set_properties({"write.parquet.row-group-limit": "1000"})
    rows = [(i, f"{i * 7919 % 1_000_003:x} of {i}") for i in range(300_000)]
    w.append("big", rows, **writing.merged_to(version))
    row = look_up_row(w.reader, a_model("big"), ["77777"])
    assert row.row == dict(zip(("id", "note"), rows[77777], strict=True))
    assert row.files_opened == 1
    assert row.bytes_read * 3 < estimate_full_scan_bytes(w.reader, a_model("big"))


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory, writing):
    """A table with history whose last two commits are not merged: one closes versions, one is about an old version."""
    w = writing.warehouse(tmp_path_factory.mktemp("versions"))
    was = {"_valid_to": None, "_is_current": True}
    w.create("v__changes", VERSION_CHANGES, arctic_kind="changes", arctic_primary_key="id,_valid_from")
    first = [(key, 1, None, True, "insert", None) for key in (1, 2, 3, 4)]
    old = [(3, 0, 1, False, "insert", None)]
    version = w.append("v__changes", [*first, *old], **writing.ran({}, "create"))
    closed = [(key, 1, 5, False, "update", was) for key in (1, 2)]
    w.append("v__changes", [*closed, (1, 5, None, True, "insert", None)], **writing.ran({}))
    w.append("v__changes", [(1, 0, 1, False, "insert", None), (4, 1, None, True, "delete", was)], **writing.ran({}))
    w.create("v", VERSIONS, arctic_kind="base", arctic_primary_key="id,_valid_from")
    w.append("v", [row[:4] for row in (*first, *old)], **writing.merged_to(version))
    return w.reader, Model(
        TableName("lake", "dwd", "v"),
        "select 1",
        ModelConfig(("id", "_valid_from"), hash_key="id", history="scd2"),
    )


@pytest.mark.parametrize(
    ("key", "row"),
    [
        (["1"], (1, 5, None, True)),
        (["2"], None),
        (["3"], (3, 1, None, True)),
        (["4"], None),
        (["1", "1"], (1, 1, 5, False)),
        (["1", "0"], (1, 0, 1, False)),
        (["3", "0"], (3, 0, 1, False)),
        (["3", "7"], None),
    ],
)
def test_of_a_table_with_history_the_current_version_is_found_or_that_of_a_time(versions, key, row) -> None:
    reader, model = versions
    result = look_up_row(reader, model, key).row
    assert (None if result is None else tuple(result.values())) == row


@pytest.mark.parametrize("values", [[], ["1", "1", "1"]])
def test_a_version_needs_the_key_and_perhaps_a_time(versions, values: list[str]) -> None:
    with pytest.raises(ConfigError, match="expected: one value for each of id, _valid_from"):
        look_up_row(*versions, values)


def test_rows_of_a_table_that_is_not_loaded_yet_are_an_error_that_says_to_wait(shop) -> None:
    warehouse, _ = shop
    with pytest.raises(DataError, match="wait until it is loaded") as refused:
        read_sample_rows(warehouse.reader, TableName("lake", "dwd", "later"), 5)
    assert refused.value.details["where"] == "lake.dwd.later"
