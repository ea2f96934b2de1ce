"""Avro schemas become the columns of tables, and schemas with which Spark decodes the same bytes."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.avro_events import build_avro_column, build_avro_format, to_connect_schema
from arctic_runtime.ingest.formats.avro_schema import PRIMITIVES, SCHEMA_ID, AvroSchema, parse_avro_schema
from arctic_runtime.ingest.formats.connect_schema import build_source_schema
from arctic_runtime.ingest.formats.event_format import SourceColumn, SourceSchema
from arctic_runtime.ingest.formats.registry import make_format

WHERE = "http://registry:8081/schemas/ids/7"


def record(*kinds: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    """A record with a field of each type, which are named a, b, c and so on."""
    fields = [{"name": chr(ord("a") + place), "type": kind} for place, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields, **more}


def parse(schema: Any) -> AvroSchema:
    return parse_avro_schema(7, json.dumps(schema), WHERE)


# Parsing


def test_names_are_replaced_by_their_definitions() -> None:
    value = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
    root = parse(record(["null", value], ["null", "Value"], "shop.Value", namespace="shop")).root
    kinds = [field["type"] for field in root["fields"]]
    assert kinds[0]["branches"][1] == kinds[1]["branches"][1] == kinds[2]
    assert kinds[2]["name"] == "shop.Value"
    assert root["name"] == "shop.R"


def test_a_namespace_inside_of_another_is_that_of_the_names_inside() -> None:
    inner = record("string", {"type": "enum", "name": "E", "symbols": ["A"]}, name="Inner", namespace="io")
    root = parse(record(inner, "io.E", namespace="shop")).root
    assert root["fields"][1]["type"]["name"] == "io.E"
    with pytest.raises(SourceError, match=r"names the type shop\.E, and does not define it"):
        parse(record(inner, "E", namespace="shop"))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (record(["null", "R"]), "R contains itself"),
        (record({"type": "array", "items": "shop.R"}, namespace="shop"), "shop.R contains itself"),
        (record("Item"), "names the type Item, and does not define it"),
        (record({"type": "decimal"}), "names the type decimal"),
        ({"type": "record", "name": "R", "fields": [{"name": n, "type": "int"} for n in ("Id", "id")]}, "Id, id of R"),
        (record([record("int", name="x.A"), record("int", name="y.a")]), "several types of the name a"),
        ({"type": "record", "name": "R"}, "no schema of Avro"),
        ({"type": "array"}, "no schema of Avro"),
        (record(5), "no schema of Avro"),
        (17, "no schema of Avro"),
    ],
)
def test_a_schema_that_spark_could_not_decode_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(SourceError, match=reason) as refused:
        parse(schema)
    assert refused.value.where == WHERE
    assert refused.value.fix


def test_a_schema_of_no_record_is_one_of_keys() -> None:
    assert parse("long") == AvroSchema(7, {"type": "long"})


def test_the_reader_adds_the_id_and_takes_logical_types_away() -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2, "connect.name": "x"}
    schema = parse(record(price, {"type": {"type": "long", "logicalType": "timestamp-millis"}}, doc="rows"))
    fields = [{"name": "a", "type": "bytes"}, {"name": "b", "type": "long"}]
    assert json.loads(schema.writer) == {"type": "record", "name": "R", "fields": fields}
    marker = {"name": SCHEMA_ID, "type": "int", "default": 7}
    assert json.loads(schema.reader) == {"type": "record", "name": "R", "fields": [*fields, marker]}


@st.composite
def types(draw: st.DrawFn, depth: int = 3) -> Any:
    """A type; its records, enums and fixed have no names yet."""
    kinds = ["primitive", "logical", "enum", "fixed", *(["record", "array", "map", "optional"] if depth else [])]
    inner = types(depth - 1)
    match draw(st.sampled_from(kinds)):
        case "primitive":
            return draw(st.sampled_from(sorted(PRIMITIVES - {"null"})))
        case "logical":
            return {"type": "long", "logicalType": "timestamp-micros", "connect.name": "io.debezium.time.X"}
        case "enum":
            return {"type": "enum", "symbols": ["A", "B"]}
        case "fixed":
            return {"type": "fixed", "size": 3}
        case "record":
            fields = [{"name": f"f{place}", "type": draw(inner)} for place in range(draw(st.integers(0, 3)))]
            return {"type": "record", "fields": fields}
        case "array":
            return {"type": "array", "items": draw(inner)}
        case "map":
            return {"type": "map", "values": draw(inner)}
        case _:
            kind = draw(inner)
            return kind if isinstance(kind, list) else ["null", kind]


def name_types(kind: Any, numbers: Iterator[int]) -> Any:
    """Gives each type that needs one a name of its own: every other one is the same in another namespace."""
    if isinstance(kind, list):
        return [name_types(branch, numbers) for branch in kind]
    if isinstance(kind, str):
        return kind
    named = dict(kind)
    if kind["type"] in ("record", "enum", "fixed"):
        number = next(numbers)
        named |= {"name": "Value", "namespace": f"n{number}"} if number % 2 else {"name": f"Value{number}"}
    for inner in {"items", "values"} & set(kind):
        named[inner] = name_types(kind[inner], numbers)
    if kind["type"] == "record":
        named["fields"] = [{**field, "type": name_types(field["type"], numbers)} for field in kind["fields"]]
    return named


def example(kind: Any, number: int) -> Any:
    """A value of a type as it is written: each of its leaves depends on `number`."""
    if isinstance(kind, list):
        return None if number % 2 else example(kind[1], number)
    if isinstance(kind, str):
        kind = {"type": kind}
    leaves = {
        "boolean": bool(number % 2),
        "int": number,
        "long": -number,
        "float": number / 2,
        "double": number / 4,
        "bytes": bytes([number % 256]),
        "string": f"é{number}",
        "fixed": bytes([number % 256] * 3),
    }
    match kind["type"]:
        case "enum":
            return kind["symbols"][number % 2]
        case "array":
            return [example(kind["items"], number + place) for place in range(number % 3)]
        case "map":
            return {f"k{place}": example(kind["values"], number + place) for place in range(number % 3)}
        case "record":
            return {field["name"]: example(field["type"], number + 1) for field in kind["fields"]}
        case primitive:
            return leaves[primitive]


@given(st.lists(types(), max_size=4), st.integers(0, 100))
def test_the_writer_decodes_the_same_bytes(kinds: list[Any], number: int) -> None:
    """Also where a type is named a second time."""
    numbers = itertools.count()
    kinds = [name_types(kind, numbers) for kind in kinds]
    named = [kind for kind in kinds if isinstance(kind, dict) and "name" in kind]
    again = [f"{kind.get('namespace', 'own')}.{kind['name']}" for kind in named]
    written = record(*kinds, *again, namespace="own")
    names = [field["name"] for field in written["fields"]]
    value = {name: example(kind, number) for name, kind in zip(names, [*kinds, *named], strict=True)}
    body = io.BytesIO()
    plain = json.loads(json.dumps(written).replace('"logicalType"', '"ignored"'))
    fastavro.schemaless_writer(body, fastavro.parse_schema(plain), value)
    schema = parse(written)
    writer, reader = (fastavro.parse_schema(json.loads(text)) for text in (schema.writer, schema.reader))
    body.seek(0)
    assert fastavro.schemaless_reader(body, writer, reader) == {**value, SCHEMA_ID: 7}


# Columns of plain records


@pytest.mark.parametrize(
    ("kind", "type_", "encoding"),
    [
        ("boolean", "boolean", "plain"),
        ("int", "int", "plain"),
        ("long", "bigint", "plain"),
        ("float", "float", "plain"),
        ("double", "double", "plain"),
        ("bytes", "binary", "base64"),
        ("string", "string", "plain"),
        (["null", "long"], "bigint", "plain"),
        (["long", "null"], "bigint", "plain"),
        (["string"], "string", "plain"),
        (["null", "int", "string"], "string", "json"),
        (["int", "long"], "bigint", "plain"),
        (["null", "double", "float"], "double", "plain"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", "plain"),
        ({"type": "fixed", "name": "F", "size": 2}, "binary", "base64"),
        ({"type": "map", "values": "int"}, "string", "json"),
        (record("int", name="S"), "string", "json"),
        ({"type": "string", "logicalType": "uuid"}, "string", "plain"),
        ({"type": "int", "logicalType": "date"}, "date", "epoch_days"),
        ({"type": "string", "logicalType": "date"}, "string", "plain"),
        ({"type": "int", "logicalType": "time-millis"}, "string", "millis_of_day"),
        ({"type": "long", "logicalType": "time-micros"}, "string", "micros_of_day"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp", "epoch_millis"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp", "epoch_micros"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "timestamp", "epoch_nanos"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz", "epoch_millis"),
        ({"type": "long", "logicalType": "local-timestamp-nanos"}, "timestamp_ntz", "epoch_nanos"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38}, "decimal(38,38)", "base64_decimal"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "decimal(9,0)", "base64_decimal"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39, "scale": 2}, "binary", "base64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 4}, "binary", "base64"),
        ({"type": "bytes", "logicalType": "big-decimal"}, "binary", "base64"),
        (
            {"type": "fixed", "name": "F", "size": 16, "logicalType": "decimal", "precision": 9},
            "decimal(9,0)",
            "base64_decimal",
        ),
        ({"type": "fixed", "name": "F", "size": 17, "logicalType": "decimal", "precision": 9}, "binary", "base64"),
    ],
)
def test_types_of_avro_become_types_of_columns(kind: Any, type_: str, encoding: Any) -> None:
    [field] = parse(record(kind)).root["fields"]
    assert build_avro_column("a", field["type"]) == SourceColumn("a", type_, encoding)


@pytest.mark.parametrize(
    ("items", "type_", "element"),
    [
        (["null", "int"], "array<int>", "plain"),
        ({"type": "int", "logicalType": "date"}, "array<date>", "epoch_days"),
        (record("int", name="S"), "array<string>", "json"),
        ({"type": "array", "items": "int"}, "array<string>", "json"),
    ],
)
def test_lists_have_elements_of_these_types(items: Any, type_: str, element: Any) -> None:
    [field] = parse(record(["null", {"type": "array", "items": items}])).root["fields"]
    assert build_avro_column("a", field["type"]) == SourceColumn("a", type_, "array", element=element)


# Connect


def connect(kind: Any) -> Any:
    [field] = parse(record(kind)).root["fields"]
    return to_connect_schema(field["type"])


DECIMAL = {"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": 9}
DECIMAL_NAME = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("int", {"type": "int32"}),
        ({"type": "int", "connect.type": "int16"}, {"type": "int16"}),
        (
            ["null", {"type": "int", "connect.name": "io.debezium.time.Date"}],
            {"type": "int32", "name": "io.debezium.time.Date"},
        ),
        (
            {
                **DECIMAL,
                "connect.name": DECIMAL_NAME,
                "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"},
            },
            {"type": "bytes", "name": DECIMAL_NAME, "parameters": {"scale": "2", "connect.decimal.precision": "9"}},
        ),
        (
            DECIMAL,
            {"type": "bytes", "name": DECIMAL_NAME, "parameters": {"scale": "2", "connect.decimal.precision": "9"}},
        ),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        ),
        (
            {"type": "string", "connect.parameters": {"__debezium.source.column.type": "NUMERIC", "allowed": 1}},
            {"type": "string", "parameters": {"__debezium.source.column.type": "NUMERIC", "allowed": "1"}},
        ),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "string"}),
        ({"type": "array", "items": ["null", "string"]}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "map", "values": "string"}, {"type": "map"}),
        (["null", "int", "string"], {"type": "struct"}),
        (
            record("long", name="io.Point", **{"connect.name": "io.debezium.data.geometry.Point"}),
            {"type": "struct", "name": "io.debezium.data.geometry.Point", "fields": [{"type": "int64", "field": "a"}]},
        ),
    ],
)
def test_schemas_of_connect_come_back(kind: Any, schema: Any) -> None:
    assert connect(kind) == schema


def envelope(*columns: Any) -> dict[str, Any]:
    row = {**record(*columns, name="Value"), "connect.name": "shop.orders.Value"}
    fields = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    return {"type": "record", "name": "Envelope", "namespace": "shop.orders", "fields": fields}


def tell(name: str, value: Any, key: Any = None, options: Any = None, **declared: str) -> SourceSchema | None:
    schemas = {1: parse(value), **({} if key is None else {2: parse(key)})}
    form = build_avro_format(make_format(name, options or {}), schemas.__getitem__)
    assert form.read_event_schema is not None
    return form.read_event_schema(json.dumps({SCHEMA_ID: 1}), json.dumps({SCHEMA_ID: 2}), declared)


def test_debeziums_columns_and_key_are_those_of_the_same_events_in_json() -> None:
    key = record("long", name="Key")
    value = envelope("long", ["null", DECIMAL])
    columns = (SourceColumn("a", "bigint"), SourceColumn("b", "decimal(9,2)", "base64_decimal"))
    assert tell("debezium", value, key) == SourceSchema(columns, ("a",))
    assert tell("debezium", value, "long") == SourceSchema(columns, ())
    json_schema = to_connect_schema(parse(value).root)
    assert build_source_schema(
        "orders", json_schema, to_connect_schema(parse(key).root), "base64_decimal"
    ) == SourceSchema(columns, ("a",))


def test_rows_have_all_fields_and_their_key_is_not_read() -> None:
    value = record("string", {"type": "long", "logicalType": "timestamp-millis"}, "string")
    columns = (SourceColumn("a", "string"), SourceColumn("b", "timestamp", "epoch_millis"), SourceColumn("c", "string"))
    assert tell("rows", value) == SourceSchema(columns)
    assert tell("rows", value, options={"operation": "c"}) == SourceSchema(columns[:2])
    assert tell("rows", value, options={"operation": "c"}, c="string") == SourceSchema(columns)


def test_a_declared_type_has_the_encoding_of_the_field_if_it_fits() -> None:
    value = record(
        {"type": "long", "logicalType": "timestamp-millis"}, DECIMAL, "string", {"type": "array", "items": "int"}
    )
    told = tell("rows", value, a="timestamp_ntz", b="decimal(20,2)", c="timestamp", d="array<int>")
    assert told is not None
    assert told.columns == (
        SourceColumn("a", "timestamp_ntz", "epoch_millis"),
        SourceColumn("b", "decimal(20,2)", "base64_decimal"),
        SourceColumn("c", "timestamp", "zoned_timestamp"),
        SourceColumn("d", "array<int>", "array"),
    )
    told = tell("rows", value, a="bigint", b="string")
    assert told is not None
    assert told.columns[:2] == (SourceColumn("a", "bigint"), SourceColumn("b", "string"))


@pytest.mark.parametrize(("name", "value"), [("rows", record("int", DECIMAL)), ("debezium", envelope("int", DECIMAL))])
def test_a_decimal_that_is_declared_with_another_scale_is_refused(name: str, value: Any) -> None:
    """The bytes of a decimal have no scale: another one would make other numbers."""
    with pytest.raises(ConfigError, match=r"column b(?s:.*)2 digits after the point(?s:.*)decimal\(9,3\)"):
        tell(name, value, record("int", name="Key"), b="decimal(9,3)")


def test_messages_without_a_schema_tell_none() -> None:
    form = build_avro_format(make_format("rows", {}), {}.__getitem__)
    assert form.read_event_schema is not None
    assert form.read_event_schema("{}", None, {}) is None
    assert form.events.proof == (SCHEMA_ID,)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("canal", {}, "canal are JSON"),
        ("maxwell", {}, "maxwell are JSON"),
        ("debezium", {"with_schema": True}, "leave out `with_schema`"),
    ],
)
def test_formats_that_are_never_avro_are_refused(name: str, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_avro_format(make_format(name, options), {}.__getitem__)


@pytest.mark.parametrize("kind", ["long", {"type": "array", "items": "int"}, ["null", "int"]])
@pytest.mark.parametrize("name", ["rows", "debezium"])
def test_messages_that_are_no_records_are_refused(name: str, kind: Any) -> None:
    with pytest.raises(SourceError, match="no record"):
        tell(name, kind)


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "enum", "name": "E", "symbols": [1]},
        {"type": "fixed", "name": "F", "size": "3"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "record", "name": "S", "fields": [{"name": 7, "type": "int"}]},
    ],
)
def test_a_type_that_is_not_defined_as_avro_demands_is_refused(kind: Any) -> None:
    with pytest.raises(SourceError, match="not defined as Avro demands"):
        parse(record(kind))


@pytest.mark.parametrize(
    "attributes",
    [
        {"logicalType": ["decimal"]},
        {"logicalType": "decimal"},
        {"logicalType": "decimal", "precision": "9"},
        {"logicalType": "decimal", "precision": 9, "scale": None},
        {"connect.parameters": 7, "connect.name": 7, "connect.type": 7},
    ],
)
def test_attributes_that_say_nothing_are_ignored(attributes: dict[str, Any]) -> None:
    [field] = parse(record({"type": "bytes", **attributes})).root["fields"]
    assert build_avro_column("a", field["type"]) == SourceColumn("a", "binary", "base64")
    assert connect({"type": "bytes", **attributes}) == {"type": "bytes"}
