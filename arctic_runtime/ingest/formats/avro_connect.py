"""Converts Avro schemas of Kafka Connect's AvroConverter back to the Connect schemas that they were made of.

Source: `AvroData` of Confluent's Schema Registry, which keeps what Avro lacks in attributes `connect.…`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arctic_runtime.ingest.formats.avro_schema import AvroType, strip_null
from arctic_runtime.ingest.formats.connect_schema import ConnectSchema

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

_LOGICAL: Mapping[str, str] = {
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
    name = kind.get("connect.name") or _LOGICAL.get(kind.get("logicalType", ""))
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
