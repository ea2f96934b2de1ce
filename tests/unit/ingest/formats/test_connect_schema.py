"""Connect schemas become columns whose values are kept exactly, or are refused by the column's name."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.connect_schema import (
    MOST_DIGITS,
    SOURCE_LENGTH,
    SOURCE_SCALE,
    SOURCE_TYPE,
    build_source_schema,
)
from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn

DEBEZIUM, CONNECT = "io.debezium", "org.apache.kafka.connect.data"


def envelope(*fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of an event of a table with fields `c0`, `c1`, …, as JsonConverter writes it."""
    row = {
        "type": "struct",
        "optional": True,
        "name": "shop.public.t.Value",
        "fields": [{"optional": True, "field": f"c{i}", **field} for i, field in enumerate(fields)],
    }
    source = {"type": "struct", "fields": [], "name": "io.debezium.connector.postgresql.Source", "field": "source"}
    operation = {"type": "string", "optional": False, "field": "op"}
    parts = [{**row, "field": "before"}, {**row, "field": "after"}, source, operation]
    return {"type": "struct", "name": "shop.public.t.Envelope", "version": 2, "fields": parts}


def column(schema: dict[str, Any], **options: Any) -> SourceColumn:
    return build_source_schema("public.t", envelope(schema), None, **options).columns[0]


def logical(kind: str, name: str, **parameters: str) -> dict[str, Any]:
    return {"type": kind, "name": name, **({"parameters": parameters} if parameters else {})}


def decimal(scale: int, precision: int | None = None, source: str | None = None) -> dict[str, Any]:
    parameters = {"scale": str(scale)}
    if precision is not None:
        parameters["connect.decimal.precision"] = str(precision)
    if source is not None:
        parameters[SOURCE_TYPE] = source
    return logical("bytes", f"{CONNECT}.Decimal", **parameters)


def text_decimal(source: str, length: int, scale: int | None = None) -> dict[str, Any]:
    """A text with what the database says of its column."""
    parameters = {SOURCE_TYPE: source, SOURCE_LENGTH: str(length), SOURCE_SCALE: None if scale is None else str(scale)}
    return {"type": "string", "parameters": {key: value for key, value in parameters.items() if value is not None}}


@pytest.mark.parametrize(
    ("schema", "kind", "encoding"),
    [
        ({"type": "int8"}, "int", "plain"),
        ({"type": "int16"}, "int", "plain"),
        ({"type": "int32"}, "int", "plain"),
        ({"type": "int64"}, "bigint", "plain"),
        ({"type": "float"}, "float", "plain"),
        ({"type": "double"}, "double", "plain"),
        ({"type": "boolean"}, "boolean", "plain"),
        ({"type": "string"}, "string", "plain"),
        ({"type": "bytes"}, "binary", "base64"),
        (logical("bytes", "", **{SOURCE_TYPE: "VARBINARY(16)"}), "binary", "base64"),
        (logical("int32", f"{DEBEZIUM}.time.Date"), "date", "epoch_days"),
        (logical("int32", f"{DEBEZIUM}.time.Time"), "string", "millis_of_day"),
        (logical("int64", f"{DEBEZIUM}.time.MicroTime"), "string", "micros_of_day"),
        (logical("int64", f"{DEBEZIUM}.time.NanoTime"), "string", "nanos_of_day"),
        (logical("int64", f"{DEBEZIUM}.time.Timestamp"), "timestamp_ntz", "epoch_millis"),
        (logical("int64", f"{DEBEZIUM}.time.MicroTimestamp"), "timestamp_ntz", "epoch_micros"),
        (logical("int64", f"{DEBEZIUM}.time.NanoTimestamp"), "timestamp_ntz", "epoch_nanos"),
        (logical("string", f"{DEBEZIUM}.time.ZonedTimestamp"), "timestamp", "zoned_timestamp"),
        (logical("string", f"{DEBEZIUM}.time.ZonedTime"), "string", "plain"),
        (logical("string", f"{DEBEZIUM}.time.IsoDate"), "date", "date_text"),
        (logical("string", f"{DEBEZIUM}.time.IsoTimestamp"), "timestamp_ntz", "local_timestamp"),
        (logical("int32", f"{DEBEZIUM}.time.Year"), "int", "plain"),
        (logical("string", f"{DEBEZIUM}.time.Interval"), "string", "interval"),
        (logical("int64", f"{DEBEZIUM}.time.MicroDuration"), "bigint", "plain"),
        (logical("int32", f"{CONNECT}.Date"), "date", "epoch_days"),
        (logical("int32", f"{CONNECT}.Time"), "string", "millis_of_day"),
        (logical("int64", f"{CONNECT}.Timestamp"), "timestamp_ntz", "epoch_millis"),
        (logical("string", f"{DEBEZIUM}.data.Json"), "string", "plain"),
        (logical("string", f"{DEBEZIUM}.data.Uuid"), "string", "plain"),
        (logical("string", f"{DEBEZIUM}.data.Enum", allowed="a,b"), "string", "plain"),
        (logical("string", f"{DEBEZIUM}.data.EnumSet", allowed="a,b"), "string", "plain"),
        ({"type": "struct", "name": f"{DEBEZIUM}.data.VariableScaleDecimal"}, "string", "variable_decimal"),
        ({"type": "struct", "name": f"{DEBEZIUM}.data.geometry.Point"}, "string", "json"),
        ({"type": "map"}, "string", "json"),
        (decimal(2, 12), "decimal(12,2)", "plain"),
        (decimal(0, 38), "decimal(38,0)", "plain"),
        (decimal(10, 60), "string", "plain"),
        (decimal(2), "string", "plain"),
        (decimal(2, source="MONEY"), "decimal(19,2)", "plain"),
        (decimal(0, source="BIGINT UNSIGNED"), "decimal(20,0)", "plain"),
        (decimal(5, 2), "decimal(5,5)", "plain"),
        (text_decimal("NUMERIC", 12, 3), "decimal(12,3)", "plain"),
        (text_decimal("DECIMAL UNSIGNED", 38, 0), "decimal(38,0)", "plain"),
        (text_decimal("NUMERIC", 50, 2), "string", "decimal_text"),
        (text_decimal("NUMERIC", 0), "string", "decimal_text"),
        (text_decimal("NUMERIC", 3, 2046), "string", "decimal_text"),
        (text_decimal("MONEY", 2147483647, 0), "decimal(19,2)", "plain"),
        (text_decimal("VARCHAR", 12, 0), "string", "plain"),
    ],
)
def test_a_type_keeps_its_values_exactly(schema: dict[str, Any], kind: str, encoding: Encoding) -> None:
    assert column(schema) == SourceColumn("c0", kind, encoding)


@pytest.mark.parametrize(
    ("items", "kind", "element"),
    [
        ({"type": "int32"}, "array<int>", "plain"),
        ({"type": "string"}, "array<string>", "plain"),
        (logical("int32", f"{DEBEZIUM}.time.Date"), "array<date>", "epoch_days"),
        (decimal(2, 12), "array<decimal(12,2)>", "plain"),
        ({"type": "struct", "name": f"{DEBEZIUM}.data.VariableScaleDecimal"}, "array<string>", "variable_decimal"),
    ],
)
def test_a_list_tells_how_its_elements_are_written(items: dict[str, Any], kind: str, element: Encoding) -> None:
    assert column({"type": "array", "items": items}) == SourceColumn("c0", kind, "array", element=element)


def test_a_list_of_decimals_as_texts_has_the_digits_of_its_column() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "parameters": text_decimal("_NUMERIC", 10, 2)["parameters"]}
    assert column(schema) == SourceColumn("c0", "array<decimal(10,2)>", "array", element="plain")
    free = {**schema, "parameters": text_decimal("_NUMERIC", 131089, 0)["parameters"]}
    assert column(free) == SourceColumn("c0", "array<string>", "array", element="decimal_text")


@pytest.mark.parametrize(("length", "width"), [(2, 1), (8, 1), (9, 2), (64, 8)])
def test_bits_have_the_bytes_of_their_column(length: int, width: int) -> None:
    schema = logical("bytes", f"{DEBEZIUM}.data.Bits", length=str(length))
    assert column(schema) == SourceColumn("c0", "binary", "base64", padded_to=width)


@pytest.mark.parametrize("source", ["VARBIT", "_BIT", "_VARBIT"])
def test_bits_that_lose_their_length_are_refused(source: str) -> None:
    schema = logical("bytes", f"{DEBEZIUM}.data.Bits", **{"length": "12", SOURCE_TYPE: source})
    with pytest.raises(ConfigError, match=r"column c0: values of (var)?bit lose their length"):
        column(schema)


def test_the_key_names_its_columns_in_order() -> None:
    key = {"type": "struct", "fields": [{"type": "int32", "field": "c1"}, {"type": "int64", "field": "c0"}]}
    value = envelope({"type": "int64"}, {"type": "int32"})
    assert build_source_schema("public.t", value, key).key == ("c1", "c0")
    assert build_source_schema("public.t", value, None).key == ()


def test_all_columns_that_cannot_be_kept_are_named_at_once() -> None:
    value = envelope(
        {"type": "int32"},
        logical("bytes", "", **{SOURCE_TYPE: "_MONEY"}),
        {"type": "array", "items": {"type": "array", "items": {"type": "int32"}}},
        {"type": "quaternion"},
    )
    with pytest.raises(ConfigError) as refused:
        build_source_schema("public.t", value, None)
    text = str(refused.value)
    assert "table public.t" in text
    assert "column c1: the database type _money" in text
    assert "column c2" in text
    assert "column c3: quaternion" in text
    assert "c0" not in text
    assert "exclude" in text


@pytest.mark.parametrize("schema", [decimal(2), decimal(2, 39)])
def test_decimals_as_bytes_without_a_decimal_that_holds_them_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"(?s)column c0: bytes .*Decimal .*decimal.format: NUMERIC"):
        column(schema, decimals="base64_decimal")


def test_an_unwrapped_event_is_refused() -> None:
    row = {"type": "struct", "name": "shop.public.t.Value", "fields": [{"type": "int32", "field": "id"}]}
    with pytest.raises(ConfigError, match=r"(?s)public\.t.*ExtractNewRecordState"):
        build_source_schema("public.t", row, None)


NAMES = st.sampled_from([None, "", f"{DEBEZIUM}.time.Date", f"{DEBEZIUM}.data.Json", f"{CONNECT}.Decimal", "x.y.Own"])
LEAVES = st.fixed_dictionaries(
    {"type": st.sampled_from(["int8", "int16", "int32", "int64", "float", "double", "boolean", "string", "bytes"])},
    optional={
        "name": NAMES,
        "optional": st.booleans(),
        "parameters": st.dictionaries(
            st.sampled_from(["scale", "connect.decimal.precision"]), st.integers(0, 70).map(str)
        ),
    },
)
ANY = LEAVES | LEAVES.map(lambda items: {"type": "array", "items": items})


@given(st.lists(ANY, max_size=5), st.sampled_from(["plain", "base64_decimal"]))
def test_any_schema_gives_types_that_spark_has_or_an_error_with_the_column(
    fields: list[dict[str, Any]], decimals: Encoding
) -> None:
    refused = ""
    try:
        columns = build_source_schema("public.t", envelope(*fields), None, decimals).columns
    except ConfigError as error:
        refused = str(error)
    if refused:
        assert any(f"column c{i}:" in refused for i in range(len(fields)))
        return
    assert [column.name for column in columns] == [f"c{i}" for i in range(len(fields))]
    for column in columns:
        assert {column.encoding, column.element} <= set(get_args(Encoding))
        if "decimal" in column.type:
            digits = column.type.removeprefix("array<").removeprefix("decimal(").split(",")[0]
            assert int(digits) <= MOST_DIGITS
