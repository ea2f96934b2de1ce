"""Formats whose events are Avro records: those of JSON events, with columns from the schemas of the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from arctic_runtime.errors import ConfigError, SourceError
from arctic_runtime.ingest.formats.avro_columns import build_avro_column
from arctic_runtime.ingest.formats.avro_connect import to_connect_schema
from arctic_runtime.ingest.formats.avro_schema import SCHEMA_ID, AvroSchema, AvroType, strip_null
from arctic_runtime.ingest.formats.connect_schema import build_source_schema
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
