"""Metadata of tables as JSON says of a table what pyiceberg says of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from arctic_runtime.catalog.branch.catalog_pointers import Pointer, PointerChange
from arctic_runtime.catalog.json_metadata import JsonSchema, JsonTable
from arctic_runtime.catalog.observation import columns
from arctic_runtime.catalog.observation.tables import observe_columns, observe_model, observe_snapshots, observe_source
from arctic_runtime.catalog.reader import CatalogReader, UnsupportedType, find_metadata, find_table, to_spark_type
from arctic_runtime.errors import CorruptState
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Model, ModelConfig

NAMES = [TableName("lake", "dwd", name) for name in ("plain", "ods", "ods__changes", "dwd__base", "dwd__changes")]
NESTED = StructType(
    NestedField(10, "tags", ListType(11, StructType(NestedField(12, "k", StringType())), element_required=False)),
    NestedField(13, "counts", MapType(14, StringType(), 15, DecimalType(12, 2), value_required=False)),
)


def describe_table(table: Any) -> dict[str, Any]:
    """Returns all parts of a table that observation reads."""
    metadata = table.metadata
    return {
        "name": table.name(),
        "file": table.metadata_location,
        "uuid": str(metadata.table_uuid),
        "version": (table.format_version, metadata.format_version),
        "properties": dict(table.properties),
        "sorted": metadata.default_sort_order_id,
        "current": metadata.current_snapshot_id,
        "snapshots": [describe_snapshot(snapshot) for snapshot in metadata.snapshots],
        "head": describe_snapshot(table.current_snapshot()),
        "refs": {name: (ref.snapshot_id, str(ref.snapshot_ref_type)) for name, ref in metadata.refs.items()},
        "schemas": {number: describe_schema(schema) for number, schema in table.schemas().items()},
        "schema": describe_schema(table.schema()),
        "transforms": [str(field.transform) for field in table.spec().fields],
    }


def describe_snapshot(snapshot: Any) -> Any:
    if snapshot is None:
        return None
    parts = ("snapshot_id", "parent_snapshot_id", "sequence_number", "timestamp_ms", "schema_id")
    summary = snapshot.summary
    entries = summary and (summary.operation.value, dict(summary.additional_properties))
    return [*(getattr(snapshot, part) for part in parts), entries]


def describe_schema(schema: Any) -> Any:
    fields = [(field.field_id, field.name, field.required, field.doc) for field in schema.fields]
    return schema.schema_id, fields, sorted(schema.field_ids), columns.list_columns(schema)


def evolve(warehouse: Any) -> TableName:
    """Creates a table whose columns were added, renamed and dropped, and with nested ones and a comment."""
    table = warehouse.create("evolved")
    warehouse.append("evolved", [(1, "a")])
    with table.update_schema() as change:
        change.add_column("nested", NESTED, "a comment")
        change.rename_column("note", "text")
        change.update_column("id", LongType(), required=False)
    with warehouse.load("evolved").update_schema() as change:
        change.delete_column("text").add_column("text", IntegerType())
    return TableName("lake", "dwd", "evolved")


def test_json_and_pyiceberg_describe_the_same_table(shop: Any) -> None:
    for name in NAMES:
        read = find_metadata(shop[0].reader, name)
        loaded = find_table(shop[0].reader, name)
        assert isinstance(read, JsonTable)
        assert isinstance(loaded, Table)
        assert describe_table(read) == describe_table(loaded)
    assert find_metadata(shop[0].reader, TableName("lake", "dwd", "nothing")) is None


def test_columns_that_changed_are_found_in_json_as_by_pyiceberg(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    name = evolve(warehouse)
    read, loaded = find_metadata(warehouse.reader, name), find_table(warehouse.reader, name)
    assert read is not None
    assert loaded is not None
    assert describe_table(read) == describe_table(loaded)
    for find in (columns.map_former_names, columns.list_snapshots_with_dropped_columns, columns.map_missing_defaults):
        assert find(read) == find(loaded)
    found = list(columns.list_reassigned_columns(read))
    assert found == list(columns.list_reassigned_columns(loaded))
    assert any(text.startswith("text=") for text in found)


def test_a_column_with_a_default_is_missing_from_older_snapshots_in_json_as_by_pyiceberg() -> None:
    old = Schema(NestedField(1, "id", LongType()), schema_id=0)
    inner = StructType(NestedField(3, "x", IntegerType(), initial_default=5), NestedField(4, "y", IntegerType()))
    new = Schema(NestedField(1, "id", LongType()), NestedField(2, "Deep", inner), schema_id=1)
    snapshots = [SimpleNamespace(snapshot_id=7, schema_id=0), SimpleNamespace(snapshot_id=8, schema_id=1)]

    def find_missing(schemas: dict[int, Any]) -> Any:
        table = SimpleNamespace(
            schema=lambda: schemas[1], schemas=lambda: schemas, metadata=SimpleNamespace(snapshots=snapshots)
        )
        return columns.map_missing_defaults(cast("Table", table))

    described = {schema.schema_id: JsonSchema(json.loads(schema.model_dump_json())) for schema in (old, new)}
    assert find_missing(described) == find_missing({0: old, 1: new}) == {7: frozenset(["deep"])}


def test_states_are_those_that_pyiceberg_gives(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = shop[0].reader
    models = [
        Model(TableName("lake", "dwd", "ods"), "", ModelConfig(("id",))),
        Model(TableName("lake", "dwd", "dwd"), "", ModelConfig(("id",), merge="on_read")),
    ]

    def observe_all() -> list[Any]:
        states = [observe_model(reader, model) for model in models]
        kept = [observe(reader, name) for name in NAMES for observe in (observe_snapshots, observe_columns)]
        return [*states, *kept, *(observe_source(reader, name) for name in NAMES)]

    read = observe_all()
    monkeypatch.setattr(CatalogReader, "load_metadata", lambda self, *name: find_table(self, TableName("lake", *name)))
    assert observe_all() == read


def test_a_table_of_format_version_1_is_read_by_pyiceberg(writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    warehouse.create("old", **{"format-version": "1"})
    warehouse.append("old", [(1, "a")])
    found = find_metadata(warehouse.reader, TableName("lake", "dwd", "old"))
    assert isinstance(found, Table)
    assert found.format_version == 1


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format-version": 2}', '{"format-version": "x"}'])
def test_a_metadata_file_that_is_no_metadata_is_damaged(damage: str, writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    file = Path(warehouse.create("t").metadata_location.removeprefix("file://"))
    file.write_text(damage)
    file.with_name(f".{file.name}.crc").unlink()
    with pytest.raises(CorruptState, match=r"dwd\.t: a file of the table is damaged"):
        find_metadata(warehouse.reader, TableName("lake", "dwd", "t"))


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"current-version-id": 1, "versions": [{"version-id": 1}], "schemas": []}']
)
def test_a_metadata_file_that_is_no_view_is_damaged(damage: str, writing: Any, tmp_path: Path) -> None:
    warehouse = writing.warehouse(tmp_path)
    file = tmp_path / "view.metadata.json"
    file.write_text(damage)
    pointer = Pointer(TableName("lake", "dwd", "v"), "VIEW", str(file))
    assert not warehouse.reader.database.apply_changes([PointerChange(pointer.table, None, pointer)])
    with pytest.raises(CorruptState, match=r"dwd\.v: a file of the table is damaged"):
        warehouse.reader.load_view("dwd", "v")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (LongType(), "bigint"),
        (DecimalType(10, 2), "decimal(10,2)"),
        (FixedType(16), "binary"),
        (BinaryType(), "binary"),
        (UUIDType(), "string"),
        (TimestamptzType(), "timestamp"),
        (NESTED, "struct<tags:array<struct<k:string>>,counts:map<string,decimal(12,2)>>"),
        (GeometryType("arctic:interval_day"), "interval_day"),
        (ListType(3, GeometryType("arctic:variant"), element_required=False), "array<variant>"),
    ],
)
def test_spark_has_one_name_for_a_type_of_pyiceberg_and_its_json(kind: IcebergType, name: str) -> None:
    assert to_spark_type(kind) == to_spark_type(json.loads(kind.model_dump_json())) == name


@pytest.mark.parametrize("kind", [TimeType(), TimestampNanoType(), GeometryType()])
def test_a_type_that_spark_has_not_is_named_by_neither(kind: IcebergType) -> None:
    for written in (kind, json.loads(kind.model_dump_json())):
        with pytest.raises(UnsupportedType):
            to_spark_type(written)


def test_a_type_that_pyiceberg_does_not_know_keeps_its_name() -> None:
    assert to_spark_type("variant") == "variant"
    assert to_spark_type({"type": "list", "element-id": 1, "element": "interval", "element-required": False}) == (
        "array<interval>"
    )
