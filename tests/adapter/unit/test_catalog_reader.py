"""Reading catalogs that are new, locked or down, and the names of types."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from arctic_runtime.catalog.foreign_types import make_readable
from arctic_runtime.catalog.reader import CatalogReader, UnsupportedType, to_spark_type
from arctic_runtime.errors import CatalogError
from arctic_runtime.profile import Profile
from arctic_runtime.thresholds import Thresholds
from tests.thresholds import changed


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "new" / "warehouse"


@pytest.fixture
def reader(warehouse: Path) -> CatalogReader:
    return CatalogReader(Profile.for_embedded(warehouse))


def test_a_new_warehouse_is_empty_and_gets_namespaces(reader: CatalogReader) -> None:
    assert reader.list_namespaces() == []
    assert reader.list_relations("ods") == {}
    reader.create_namespace("ods")
    reader.create_namespace("ods")
    reader.create_namespace("it's `odd`")
    assert reader.list_namespaces() == ["it's `odd`", "ods"]
    assert reader.has_namespace("ods")
    assert not reader.has_namespace("od_")
    reader.drop_namespace("ods")
    reader.drop_namespace("ods")
    assert reader.list_namespaces() == ["it's `odd`"]
    assert reader.describe_relation("ods", "nothing") is None


def test_kinds_that_nobody_knows_are_listed_too(reader: CatalogReader) -> None:
    reader.create_namespace("ods")
    assert reader.profile.sqlite_file is not None
    with closing(sqlite3.connect(reader.profile.sqlite_file)) as connection, connection:
        for name, kind in (("t", "TABLE"), ("old", None), ("v", "VIEW"), ("x", "INDEX")):
            connection.execute("insert into iceberg_tables values ('lake', 'ods', ?, 'm', null, ?)", (name, kind))
    assert reader.list_relations("ods") == {"t": "table", "old": "table", "v": "view", "x": "other"}
    assert (reader.list_tables("ods"), reader.list_views("ods")) == (["old", "t"], ["v"])


def test_a_locked_catalog_is_waited_for_and_then_named(warehouse: Path) -> None:
    waiting = changed(Thresholds(), commits={"lock_wait_seconds": 0.5})
    reader = CatalogReader(Profile.for_embedded(warehouse, thresholds=waiting))
    reader.create_namespace("ods")
    assert reader.profile.sqlite_file is not None
    with closing(sqlite3.connect(reader.profile.sqlite_file)) as other:
        other.execute("begin immediate")
        with pytest.raises(CatalogError, match="another process has kept it locked") as refused:
            reader.create_namespace("dwd")
    assert f"fuser -v {reader.profile.sqlite_file}" in str(refused.value)
    reader.create_namespace("dwd")


def test_a_warehouse_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reader = CatalogReader(Profile.for_embedded(tmp_path / "file" / "warehouse"))
    with pytest.raises(CatalogError, match="warehouse"):
        reader.list_namespaces()


def test_a_catalog_that_is_down_is_named() -> None:
    properties = {"type": "rest", "uri": "http://127.0.0.1:9", "token": "hush"}
    reader = CatalogReader(Profile(catalog_properties=properties))
    with pytest.raises(CatalogError, match=r"127\.0\.0\.1:9") as refused:
        reader.list_namespaces()
    assert "hush" not in str(refused.value)


def test_a_catalog_that_only_spark_can_read_says_so(tmp_path: Path) -> None:
    reader = CatalogReader(Profile(catalog_properties={"type": "hadoop", "warehouse": str(tmp_path)}))
    assert (reader.is_supported, reader.lists_views) == (False, False)
    with pytest.raises(CatalogError, match="only through Spark"):
        reader.list_namespaces()


@pytest.mark.parametrize(
    ("iceberg_type", "expected"),
    [
        (DecimalType(10, 2), "decimal(10,2)"),
        (FixedType(16), "binary"),
        (TimestampType(), "timestamp_ntz"),
        (TimestamptzType(), "timestamp"),
        (
            StructType(
                NestedField(1, "a", ListType(2, LongType())),
                NestedField(3, "m", MapType(4, StringType(), 5, LongType())),
            ),
            "struct<a:array<bigint>,m:map<string,bigint>>",
        ),
    ],
)
def test_types_have_sparks_names(iceberg_type: IcebergType, expected: str) -> None:
    assert to_spark_type(iceberg_type) == expected


def test_a_type_that_spark_does_not_read_is_reported() -> None:
    with pytest.raises(UnsupportedType):
        to_spark_type(TimeType())


def test_a_type_that_pyiceberg_does_not_know_keeps_its_name() -> None:
    fields = [
        {"id": 1, "name": "id", "type": "int", "required": True},
        {"id": 2, "name": "v", "type": "variant", "required": False},
        {
            "id": 3,
            "name": "l",
            "type": {"type": "list", "element-id": 4, "element": "variant", "element-required": False},
            "required": False,
        },
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    (readable,) = make_readable({"schemas": [schema], "other": "variant"})["schemas"]
    columns = Schema.model_validate(readable).fields
    assert [to_spark_type(field.field_type) for field in columns] == ["int", "variant", "array<variant>"]
    assert make_readable({"schemas": [schema], "other": "variant"})["other"] == "variant"
