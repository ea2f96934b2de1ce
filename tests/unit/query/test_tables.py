"""Rows of tables without Spark: deleted rows, columns that were renamed or added, versions, unmerged changes, masks."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import ConfigError, CorruptState
from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName
from arctic_runtime.query import engine, relations, table_files
from arctic_runtime.query.refusal import NotAnswered
from tests.unit.query.asking import KEY, ask_reader

ID = NestedField(1, "id", LongType(), required=False)
NOTE = NestedField(2, "note", StringType(), required=False)


def fill(w, name: str, fields: tuple[NestedField, ...], *commits: list[dict[str, Any]], **properties: str) -> Table:
    table = w.create(name, fields, **properties)
    for rows in commits:
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    return table


def test_a_column_of_each_type_has_its_values(w, ask) -> None:
    nested = StructType(NestedField(21, "a", IntegerType()), NestedField(22, "b c", StringType()))
    fields = (
        NestedField(1, "b", BooleanType()),
        NestedField(2, "i", IntegerType()),
        NestedField(3, "l", LongType()),
        NestedField(4, "f", FloatType()),
        NestedField(5, "x", DoubleType()),
        NestedField(6, "d", DecimalType(20, 3)),
        NestedField(7, "s", StringType()),
        NestedField(8, "raw", BinaryType()),
        NestedField(9, "day", DateType()),
        NestedField(10, "at", TimestamptzType()),
        NestedField(11, "local", TimestampType()),
        NestedField(12, "part", nested),
        NestedField(13, "parts", ListType(31, nested_again(41), element_required=False)),
        NestedField(14, "m", MapType(51, StringType(), 52, IntegerType(), value_required=False)),
        NestedField(15, "u", UUIDType()),
    )
    row = {
        "b": True,
        "i": -5,
        "l": 2**62,
        "f": 0.5,
        "x": 0.1,
        "d": Decimal("1.250"),
        "s": "ü'\"",
        "raw": b"\x00\xff",
        "day": date(1, 1, 1),
        "at": datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc),
        "local": datetime(1969, 12, 31, 23, 59, 59, 999999),
        "part": {"a": None, "b c": "x"},
        "parts": [{"a": 1, "b c": None}, None],
        "m": [("k", None), ("z", 2)],
        "u": b"\x12" * 16,
    }
    nulls = {**dict.fromkeys(row), "parts": []}  # pyiceberg writes no null in the place of an array of structs.
    fill(w, "m", fields, [row, nulls])
    assert ask("select * from m") == [{**row, "u": "12121212-1212-1212-1212-121212121212"}, nulls]
    assert ask("select part.a, part.`b c` z from m where x > 0") == [{"a": None, "z": "x"}]


def nested_again(first: int) -> StructType:
    return StructType(NestedField(first, "a", IntegerType()), NestedField(first + 1, "b c", StringType()))


def test_columns_that_were_renamed_widened_added_and_dropped_have_the_values_of_their_ids(w, ask) -> None:
    gone = NestedField(4, "gone", StringType(), required=False)
    count = NestedField(3, "count", IntegerType(), required=False)
    table = fill(w, "m", (ID, NOTE, count, gone), [{"id": 1, "note": "a", "count": 7, "gone": "x"}])
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.rename_column("note", "remark")
        change.update_column("count", LongType())
        change.delete_column("gone")
        change.add_column("gone", StringType())
        change.add_column("level", IntegerType())
    table.append(pa.Table.from_pylist([{"id": 2, "count": 2**40}], schema=table.schema().as_arrow()))
    assert ask("select id, remark, count, gone, level from m order by id") == [
        {"id": 1, "remark": "a", "count": 7, "gone": None, "level": None},
        {"id": 2, "remark": None, "count": 2**40, "gone": None, "level": None},
    ]
    first = table.history()[0].snapshot_id
    assert ask(f"select * from m version as of {first}") == [{"id": 1, "note": "a", "count": 7, "gone": "x"}]
    assert ask("select count(*) n from m where remark = 'a'") == [{"n": 1}]


def test_fields_of_structs_that_were_renamed_have_the_values_of_their_ids(w, ask) -> None:
    part = NestedField(3, "part", StructType(NestedField(4, "a", IntegerType()), NestedField(5, "b", StringType())))
    table = fill(w, "m", (ID, part), [{"id": 1, "part": {"a": 1, "b": "x"}}])
    with table.update_schema() as change:
        change.rename_column("part.b", "z")
        change.add_column(("part", "more"), LongType())
    assert ask("select part, part.z from m") == [{"part": {"a": 1, "z": "x", "more": None}, "z": "x"}]


def test_deleted_rows_are_left_out_in_each_file(w, ask, monkeypatch) -> None:
    fill(w, "m", (ID, NOTE), *([{"id": i} for i in range(start, start + 10)] for start in (0, 10, 20)))
    list_files = table_files.SnapshotRows.list_files

    def with_deleted(self, row_filter):
        first, *others = list_files(self, row_filter)
        return [first, *(table_files.ReadFile(part.file, (0, 3, 9)) for part in others)]

    monkeypatch.setattr(table_files.SnapshotRows, "list_files", with_deleted)
    assert ask("select count(*) n from m") == [{"n": 24}]
    assert ask("select count(*) n from m where id % 10 in (0, 3, 9)") == [{"n": 3}]


def test_partitions_and_bounds_leave_files_out(w, ask, monkeypatch) -> None:
    fields = (ID, NOTE, NestedField(3, "day", DateType(), required=False))
    table = w.create("m", fields)
    with table.update_spec() as spec:
        spec.add_field("note", IdentityTransform())
    for i in range(8):
        row = {"id": i, "note": "ab"[i % 2], "day": date(2024, 1, 1 + i)}
        table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))
    opened: list[int] = []
    select_rows = engine.QueryEngine.select_rows

    def counted(self, table, fields, files, has_sequence=False):
        opened.append(len(files))
        return select_rows(self, table, fields, files, has_sequence)

    monkeypatch.setattr(engine.QueryEngine, "select_rows", counted)
    assert ask("select id from m where note = 'a' order by id") == [{"id": i} for i in (0, 2, 4, 6)]
    assert ask("select note from m where id = 5") == [{"note": "b"}]
    assert ask("select id from m where day > '2024-01-06' and day <= date '2024-01-07'") == [{"id": 6}]
    assert ask("select id from (select * from m) where id in (1, 2) and note = 'b'") == [{"id": 1}]
    assert ask("select id from m where day = '2024-01-02' or id + 0 = 7 order by id") == [{"id": 1}, {"id": 7}]
    assert ask("select n.id from m join m n on m.id = n.id where m.id = 3") == [{"id": 3}]
    assert opened == [4, 1, 1, 1, 8, 1, 8]


def test_an_empty_table_has_no_rows_and_its_types(w, ask) -> None:
    w.create("m", (ID, NOTE))
    assert ask("select * from m") == []
    assert ask("select count(*) n, max(note) x from m") == [{"n": 0, "x": None}]


def test_versions_are_read_by_snapshot_tag_and_time(w, ask) -> None:
    table = fill(w, "m", (ID,), [{"id": 1}], [{"id": 2}])
    first, second = table.history()
    table.manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    for version in (str(first.snapshot_id), "'kept'", f"'{first.snapshot_id}'"):
        assert ask(f"select id from m for version as of {version}") == [{"id": 1}]
    between = datetime.fromtimestamp(second.timestamp_ms / 1000 + 1, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    assert ask(f"select count(*) n from m timestamp as of '{between}'") == [{"n": 2}]
    assert ask(f"select m.id from m version as of {first.snapshot_id}, m n where m.id = n.id") == [{"id": 1}]
    with pytest.raises(ConfigError, match="no version as old"):
        ask("select * from m timestamp as of '2001-01-01'")
    with pytest.raises(ConfigError, match="has no version 5"):
        ask("select * from m version as of 5")
    with pytest.raises(ConfigError, match="did you mean 'kept'"):
        ask("select * from m version as of 'kapt'")


def test_rows_between_two_versions_are_those_that_appends_added(w, ask) -> None:
    table = fill(w, "m", (ID,), [{"id": 1}], [{"id": 2}], [{"id": 3}])
    one, two, three = (entry.snapshot_id for entry in table.history())
    window = "select id from m with (`start-snapshot-id` = '{}', `end-snapshot-id` = {}) order by id"
    assert ask(window.format(one, three)) == [{"id": 2}, {"id": 3}]
    assert ask(window.format(two, two)) == []
    assert ask(f"select x.id from m with ('start-snapshot-id' = '{two}') x") == [{"id": 3}]
    with pytest.raises(ConfigError, match="the window can't be read"):
        ask(window.format(three, one))


def test_the_view_of_a_model_that_is_merged_on_read_has_its_unmerged_changes(shop, monkeypatch) -> None:
    warehouse, made = shop
    info = warehouse.reader.load_view("dwd", "dwd")
    pins = {
        "arctic.kind": "view",
        "arctic.primary-key": info.properties.get("arctic.primary-key", "id"),
        "arctic.base-snapshot": str(made["base"].snapshot),
        "arctic.merged-snapshot": str(made["dwd"][1].snapshot),
        "arctic.changes-snapshot": str(made["dwd"][3].snapshot),
    }
    info.properties.update(pins)
    monkeypatch.setattr(warehouse.reader, "load_view", lambda *_: info)
    assert ask_reader(warehouse.reader, "select * from dwd.dwd order by id") == [
        {"id": 1, "note": "a2"},
        {"id": 3, "note": "c"},
        {"id": 4, "note": "d2"},
    ]
    assert ask_reader(warehouse.reader, "select note from dwd.dwd where id = 4") == [{"note": "d2"}]
    assert ask_reader(warehouse.reader, "select count(*) n from dwd.dwd where id = 2") == [{"n": 0}]


def test_a_view_is_its_query_over_tables(w, ask) -> None:
    fill(w, "m", (ID, NOTE), [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}])
    w.create_view("v", "select id, concat(note, '!') from m where id > 1")
    assert ask("select * from v") == [{"id": 2, "note": "b!"}]
    w.create_view("odd", "select id, java_thing(note) from dwd.m")
    with pytest.raises(NotAnswered, match="java_thing"):
        ask("select * from odd")
    with pytest.raises(ConfigError, match="is a view, which has no versions"):
        ask("select * from v version as of 3")


def test_masked_columns_are_masked_wherever_a_query_uses_them(w, ask) -> None:
    secret = NestedField(2, "api_key", StringType(), required=False)
    part = NestedField(
        3, "_before", StructType(NestedField(4, "api_key", StringType()), NestedField(5, "id", LongType()))
    )
    rows = [{"id": i, "api_key": f"k{i % 2}", "_before": {"api_key": "k1", "id": i}} for i in range(4)]
    fill(w, "m", (ID, secret, part), rows)
    masked = [Mask(KEY, {}).hide_value("api_key", f"k{i}") for i in (0, 1)]
    assert [row["api_key"] for row in ask("select id, api_key from m order by id")] == [*masked, *masked]
    assert ask("select _before, _before.api_key from m where id = 0") == [
        {"_before": {"api_key": masked[1], "id": 0}, "api_key": masked[1]}
    ]
    assert ask("select count(*) n from m where api_key = 'k1'") == [{"n": 0}]
    assert ask("select substr(api_key, 1, 7) s, count(*) n from m group by api_key") == [{"s": "masked:", "n": 2}] * 2
    assert len(ask("select distinct api_key from m")) == 2
    masks = {TableName("lake", "dwd", "m"): {"id": True, "api_key": False}}
    row = ask("select id, api_key from m where api_key = 'k1' limit 1", masks)[0]
    assert row["id"].startswith("masked:")
    assert row["api_key"] == "k1"


def test_a_mask_holds_however_a_name_is_written_and_a_view_with_a_mask_of_its_own_is_refused(
    w, ask, monkeypatch
) -> None:
    fill(w, "m", (ID, NOTE), [{"id": 1, "note": "a"}])
    w.create_view("v", "select id, note from m")
    w.create_view("own", "select id, note from m", arctic_kind="current")
    monkeypatch.setattr(relations, "find_table", partial(find_in_any_case, find=relations.find_table))
    masks = {TableName("lake", "dwd", "m"): {"note": True}}
    masked = Mask(KEY, {"note": True}).hide_value("note", "a")
    for name in ("m", "dwd.M", "lake.DWD.m", "v"):
        assert ask(f"select note from {name}", masks) == [{"note": masked}], name
    of_views = {TableName("lake", "dwd", name): {"note": True} for name in ("v", "own")}
    with pytest.raises(ConfigError, match="v has masked columns, which only tables can have in a query: note"):
        ask("select id from v", of_views)
    assert ask("select note from own", {**masks, **of_views}) == [{"note": masked}]


def find_in_any_case(reader: CatalogReader, name: TableName, find: Any) -> Table | None:
    """Finds a table as Hive and Glue do, whose names have no case."""
    return find(reader, TableName(name.catalog, name.schema.lower(), name.name.lower()))


def test_an_address_with_odd_characters_is_read_by_the_catalogs_own_access(w, ask) -> None:
    odd = w.directory / "odd [x] *?"
    table = w.reader.catalog.create_table(("dwd", "m"), Schema(ID), location=str(odd))
    table.append(pa.Table.from_pylist([{"id": 1}], schema=table.schema().as_arrow()))
    assert ask("select id from m") == [{"id": 1}]


def test_a_missing_file_is_named(w, ask) -> None:
    table = fill(w, "m", (ID,), [{"id": 1}])
    (task,) = table.scan().plan_files()
    Path(task.file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(CorruptState, match="missing") as caught:
        ask("select * from m")
    assert task.file.file_path.rpartition("/")[2] in str(caught.value)
