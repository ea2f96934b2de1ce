"""Debezium's events tell their columns where Kafka Connect writes a schema beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema

DATE = {"field": "d", "type": "int32", "name": "io.debezium.time.Date"}
KEY = json.dumps({"schema": {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}, "payload": {"id": 1}})


def event(*fields: dict[str, Any]) -> str:
    row = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, *fields]}
    schema = {"type": "struct", "fields": [{**row, "field": "before"}, {**row, "field": "after"}]}
    return json.dumps({"schema": schema, "payload": {"op": "c", "after": {"id": 1}, "source": {"table": "t"}}})


def decimal(name: str, digits: str) -> dict[str, Any]:
    parameters = {"scale": "2", "connect.decimal.precision": digits}
    return {"field": name, "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def read_schema(text: str, key: str | None = KEY, **declared: str) -> SourceSchema | None:
    read_event_schema = build_debezium_format(with_schema=True).read_event_schema
    assert read_event_schema is not None
    return read_event_schema(text, key, declared)


def test_columns_and_key_are_those_of_the_schemas() -> None:
    columns = (SourceColumn("id", "bigint"), SourceColumn("d", "date", "epoch_days"))
    assert read_schema(event(DATE)) == SourceSchema(columns, ("id",))
    assert read_schema(event(DATE), None) == SourceSchema(columns, ())
    assert read_schema(event(DATE), json.dumps({"id": 1})) == SourceSchema(columns, ())


def test_decimals_are_the_bytes_that_the_converter_writes() -> None:
    schema = read_schema(event(decimal("p", "9")))
    assert schema is not None
    assert schema.columns[1] == SourceColumn("p", "decimal(9,2)", "base64_decimal")


def test_a_column_that_is_refused_can_be_declared() -> None:
    wide = decimal("s", "50")
    with pytest.raises(ConfigError, match="column s"):
        read_schema(event(wide))
    schema = read_schema(event(wide, DATE), s="string as json")
    assert schema is not None
    assert [column.name for column in schema.columns] == ["id", "s", "d"]
    assert schema.columns[1] == SourceColumn("s", "string", "json")


def test_events_without_a_schema_tell_none() -> None:
    assert read_schema(json.dumps({"schema": None, "payload": {}})) is None
    assert build_debezium_format().read_event_schema is None


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "null", "7", '{"schema": [1]}', "'single'", "{" * 5000])
def test_an_event_that_is_no_object_has_no_schema(text: str) -> None:
    """It becomes a dead letter, and no error of the program."""
    assert read_schema(text) is None


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "null", "7"])
def test_a_key_that_is_no_object_has_no_columns(text: str) -> None:
    assert read_schema(event(DATE), text) == read_schema(event(DATE), None)


@pytest.mark.parametrize(
    "field",
    [
        {"type": "int64"},
        {"field": 7, "type": "int64"},
        {"field": "a"},
        {"field": "a", "type": ["int64"]},
        {"field": "a", "type": "int64", "name": {}},
        {"field": "a", "type": "array"},
        {"field": "a", "type": "array", "items": {}},
        {"field": "a", "type": "bytes", "parameters": [1]},
        {"field": "a", "type": "bytes", "name": "io.debezium.data.Bits", "parameters": {"length": "many"}},
        {**decimal("a", "9"), "parameters": {"scale": "x"}},
        {"field": "\ud800", "type": "int64"},
        {"field": "", "type": "int64"},
    ],
)
def test_a_schema_that_is_none_of_connect_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"can't be read|can't be the name of a column"):
        read_schema(event(field))


def test_absent_parameters_may_be_null() -> None:
    schema = read_schema(event({"field": "a", "type": "string", "name": None, "parameters": None}))
    assert schema is not None
    assert schema.columns[1] == SourceColumn("a", "string")
    parameters = {"__debezium.source.column.type": None}
    items = {"type": "int32", "parameters": None}
    schema = read_schema(event({"field": "a", "type": "array", "items": items, "parameters": parameters}))
    assert schema is not None
    assert schema.columns[1] == SourceColumn("a", "array<int>", "array")
