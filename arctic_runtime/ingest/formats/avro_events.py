"""Formats whose events are Avro records: those of JSON events, with columns from the schemas of the records.

Sources: the specification of Apache Avro 1.12, "Logical Types", and `AvroData` of Confluent's Schema Registry, which
keeps what Avro lacks of a Connect schema in attributes `connect.…`. Values are those of a record that was decoded to
JSON without its logical types: decimals are base64 of their bytes, and times are counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.avro_schema import SCHEMA_ID, AvroSchema, AvroType, strip_null
from arctic_runtime.ingest.formats.connect_schema import MOST_DIGITS, ConnectSchema, MappedType, build_source_schema
from arctic_runtime.ingest.formats.debezium import ENCODINGS
from arctic_runtime.ingest.formats.declared import AS_TEXT, FITTING, build_declared_column
from arctic_runtime.ingest.formats.event_format import (
    Declared,
    Encoding,
    EventFormat,
    Format,
    SourceColumn,
    SourceSchema,
    read_event_object,
)

_CONNECT = "org.apache.kafka.connect.data"
_DECIMAL = f"{_CONNECT}.Decimal"

_KINDS: Mapping[str, str] = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "bytes",
    "fixed": "bytes",
    "string": "string",
    "enum": "string",
    "array": "array",
    "map": "map",
    "record": "struct",
    "union": "struct",
}

_CONNECT_LOGICAL: Mapping[str, str] = {
    "decimal": _DECIMAL,
    "date": f"{_CONNECT}.Date",
    "time-millis": f"{_CONNECT}.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": f"{_CONNECT}.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "timestamp-nanos": "io.debezium.time.NanoTimestamp",
}
"""Names of Connect's logical types for schemas without `connect.name`, which a converter can leave out."""


def to_connect_schema(kind: AvroType) -> ConnectSchema:
    """Converts a resolved Avro type to the schema that JsonConverter would write for the same values.

    A union of several types becomes a struct, since its values are objects in JSON.
    """
    own = strip_null(kind)
    schema: dict[str, Any] = {"type": own.get("connect.type") or _KINDS.get(own["type"], own["type"])}
    if name := _find_name(own):
        schema["name"] = name
    if parameters := _find_parameters(own):
        schema["parameters"] = parameters
    match own["type"]:
        case "record":
            schema["fields"] = [{**to_connect_schema(field["type"]), "field": field["name"]} for field in own["fields"]]
        case "array":
            schema["items"] = to_connect_schema(own["items"])
    return schema


def _find_name(kind: AvroType) -> str | None:
    """Returns the name of a type's Connect schema: that of its logical type, or of its record; None without one."""
    name = kind.get("connect.name") or _CONNECT_LOGICAL.get(kind.get("logicalType", ""))
    if name is None and kind["type"] == "record":
        name = kind["name"]
    return None if name is None else str(name)


def _find_parameters(kind: AvroType) -> dict[str, str]:
    parameters: dict[str, str] = {}
    if kind.get("logicalType") == "decimal":
        parameters = {
            "scale": str(kind.get("scale", 0)),
            "connect.decimal.precision": str(kind["precision"]),
        }
    return {**parameters, **{str(key): str(value) for key, value in (kind.get("connect.parameters") or {}).items()}}


_MOST_BYTES = 16
"""Bytes of the unscaled number of a decimal with MOST_DIGITS digits."""

_AS_JSON: MappedType = ("string", "json")


def build_avro_column(name: str, kind: AvroType) -> SourceColumn:
    """Builds the column of a record's field; records, maps and unions of several types are kept as JSON."""
    own = strip_null(kind)
    if own["type"] == "array":
        type_, element = _map_type(own["items"])
        return SourceColumn(name, f"array<{type_}>", "array", element=element)
    return SourceColumn(name, *_map_type(own))


def _map_type(kind: AvroType) -> MappedType:
    own = strip_null(kind)
    logical = _LOGICAL.get((own.get("logicalType", ""), own["type"]))
    mapped = logical(own) if callable(logical) else logical
    return mapped or _PLAIN.get(own["type"], _AS_JSON)


def _map_decimal(kind: AvroType) -> MappedType | None:
    """Returns the type of a decimal; None, so that its bytes are kept, if it has too many digits or bytes for one."""
    digits, scale = int(kind.get("precision", 0)), int(kind.get("scale", 0))
    if not 0 < digits <= MOST_DIGITS or not 0 <= scale <= digits or kind.get("size", 0) > _MOST_BYTES:
        return None
    return f"decimal({digits},{scale})", "base64_decimal"


_Rule = MappedType | Callable[[AvroType], MappedType | None]

_PLAIN: Mapping[str, MappedType] = {
    "boolean": ("boolean", "plain"),
    "int": ("int", "plain"),
    "long": ("bigint", "plain"),
    "float": ("float", "plain"),
    "double": ("double", "plain"),
    "bytes": ("binary", "base64"),
    "fixed": ("binary", "base64"),
    "string": ("string", "plain"),
    "enum": ("string", "plain"),
    "null": ("string", "plain"),
}

_LOGICAL: Mapping[tuple[str, str], _Rule] = {
    ("decimal", "bytes"): _map_decimal,
    ("decimal", "fixed"): _map_decimal,
    ("date", "int"): ("date", "epoch_days"),
    ("time-millis", "int"): ("string", "millis_of_day"),
    ("time-micros", "long"): ("string", "micros_of_day"),
    ("timestamp-millis", "long"): ("timestamp", "epoch_millis"),
    ("timestamp-micros", "long"): ("timestamp", "epoch_micros"),
    ("timestamp-nanos", "long"): ("timestamp", "epoch_nanos"),
    ("local-timestamp-millis", "long"): ("timestamp_ntz", "epoch_millis"),
    ("local-timestamp-micros", "long"): ("timestamp_ntz", "epoch_micros"),
    ("local-timestamp-nanos", "long"): ("timestamp_ntz", "epoch_nanos"),
}
"""Spark type and encoding by logical type and the type below it; other pairs are ignored, as Avro demands."""


FindSchema = Callable[[int], AvroSchema]
"""Returns the schema that an id of the registry stands for."""

_FindKey = Callable[[], "AvroType | None"]
"""Returns the type of the key of an event, None if the key is no Avro."""

_Build = Callable[[EventFormat, AvroType, _FindKey, Declared], SourceSchema]
"""Builds a table's schema from the types of a record and of its key."""


def build_avro_format(form: Format, find_schema: FindSchema) -> Format:
    """Returns the format of the same events as Avro records; raises ConfigError if they are never written so."""
    build = _SCHEMAS.get(form.events.name)
    if build is None:
        raise ConfigError(
            f"Events of the format {form.events.name} are JSON, and `schema_registry` is for Avro.",
            expected=f"`format` {' or '.join(_SCHEMAS)}",
            fix="leave out `schema_registry`, or correct `format`",
        )
    if form.read_event_schema is not None:
        raise ConfigError(
            "`with_schema` is for events in JSON, and Avro events have their schemas in the schema registry.",
            fix="leave out `with_schema`",
        )
    events = replace(form.events, schema=((SCHEMA_ID,),), proof=(SCHEMA_ID,))
    return Format(events, form.declare, partial(_read_event_schema, find_schema, events, build))


def _read_event_schema(
    find_schema: FindSchema, events: EventFormat, build: _Build, event: str, key: str | None, declared: Declared
) -> SourceSchema | None:
    """Returns the schema that the SCHEMA_ID of an event and that of its key stand for; None if the event has none."""
    value_id = read_event_object(event).get(SCHEMA_ID)
    if value_id is None:
        return None

    def find_key() -> AvroType | None:
        key_id = read_event_object(key).get(SCHEMA_ID)
        return None if key_id is None else find_schema(key_id).root

    value = find_schema(value_id)
    check_record(value)
    return build(events, value.root, find_key, declared)


def check_record(schema: AvroSchema) -> None:
    """Raises SourceError if the messages of a schema are no records."""
    if schema.root["type"] != "record":
        raise SourceError(
            f"Messages of Kafka have the Avro schema {schema.id}, which is no record, and a row needs fields.",
            expected="a record",
            actual=str(schema.root["type"]),
            fix="read topics of records, or change the schema",
        )


def _build_debezium_schema(
    events: EventFormat, value: AvroType, find_key: _FindKey, declared: Declared
) -> SourceSchema:
    key = find_key()
    images = [strip_null(field["type"]) for field in value["fields"] if field["name"] in ("after", "before")]
    fields = {field["name"]: field["type"] for image in images for field in image.get("fields", ())}
    chosen = {name: _build_declared(name, text, fields.get(name), ENCODINGS) for name, text in declared.items()}
    key_schema = to_connect_schema(key) if key is not None and key["type"] == "record" else None
    return build_source_schema(value["name"], to_connect_schema(value), key_schema, "base64_decimal", chosen)


def _build_rows_schema(events: EventFormat, value: AvroType, find_key: _FindKey, declared: Declared) -> SourceSchema:
    """Builds a schema of all fields; the one with the operation is no column unless it is declared.

    The key of a message is not read, since the user configures the primary key.
    """
    columns = []
    for field in value["fields"]:
        name, kind = field["name"], field["type"]
        column = build_avro_column(name, kind)
        if name in declared:
            encodings = {**AS_TEXT, **dict.fromkeys(FITTING.get(column.encoding, ()), column.encoding)}
            chosen = _build_declared(name, declared[name], kind, encodings)
            columns.append(column if chosen.type == column.type and chosen.encoding == column.encoding else chosen)
        elif (name,) != events.operation:
            columns.append(column)
    return SourceSchema(tuple(columns))


def _build_declared(name: str, text: str, kind: AvroType | None, encodings: Mapping[str, Encoding]) -> SourceColumn:
    """Builds a declared column; raises ConfigError if its decimals have another scale than the field `kind`."""
    column = build_declared_column(name, text, encodings)
    own = {} if kind is None else strip_null(kind)
    if column.encoding != "base64_decimal" or own.get("logicalType") != "decimal":
        return column
    scale = int(own.get("scale", 0))
    if not column.type.endswith(f",{scale})"):
        raise ConfigError(
            f"The declared type of column {name} can't be used: its values are decimals with another scale.",
            expected=f"a decimal with {scale} digits after the point",
            actual=text,
            fix="correct it, or leave out `data_type`, which the Avro schema tells",
        )
    return column


_SCHEMAS: Mapping[str, _Build] = {"debezium": _build_debezium_schema, "rows": _build_rows_schema}
"""Functions that build the schema of a table from Avro schemas, by the formats whose events can be Avro records."""
