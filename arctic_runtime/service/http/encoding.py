"""JSON of a service's state, with its OpenAPI schemas: fields in snake_case, times in UTC, table names as text."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timezone
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from arctic_runtime.model.names import TableName

_NAME_PARTS = frozenset(("catalog", "schema", "name"))


def encode_json(value: Any) -> bytes:
    """Encodes a value as JSON, in ASCII."""
    return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=False).encode("ascii")


def to_plain(value: Any) -> Any:
    """Converts a value to the types of JSON.

    Dataclasses become objects, and other types unknown to JSON text; NaN and infinity become null.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, TableName):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _list_field_names(type(value))}
    if isinstance(value, datetime):
        return format_utc(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        # `asdict` turns a TableName in the data of an answer into a mapping.
        if value.keys() == _NAME_PARTS:
            return ".".join(str(value[part]) for part in ("catalog", "schema", "name"))
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return [to_plain(part) for part in value]
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def format_utc(at: datetime) -> str:
    """Formats a time as ISO 8601 in UTC; a time without a zone counts as UTC."""
    known = at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at.astimezone(timezone.utc)
    return known.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def _list_field_names(record_class: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record_class))


Schema = dict[str, Any]

_PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    TableName: {"type": "string", "description": "catalog.schema.name"},
    Any: {},
    type(None): {"type": "null"},
}


def build_reference(name: str) -> Schema:
    """Builds a reference to the schema `name` in the OpenAPI description."""
    return {"$ref": f"#/components/schemas/{name}"}


def build_schemas(classes: Sequence[type]) -> dict[str, Schema]:
    """Builds the schemas of `classes` and of the dataclasses in their fields, by class name."""
    schemas: dict[str, Schema] = {}
    for record_class in classes:
        _add_schema(record_class, schemas)
    return schemas


def build_list_schema(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def build_record_schema(**properties: Schema) -> Schema:
    """Builds the schema of an object with these `properties`, all required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _add_schema(record_class: type, schemas: dict[str, Schema]) -> Schema:
    if record_class.__name__ not in schemas:
        hints = get_type_hints(record_class)
        schemas[record_class.__name__] = {}
        properties = {field.name: _build_schema(hints[field.name], schemas) for field in fields(record_class)}
        summary = (record_class.__doc__ or "").split("\n\n")[0]
        schemas[record_class.__name__] = {**build_record_schema(**properties), "description": summary}
    return build_reference(record_class.__name__)


def _build_schema(hint: Any, schemas: dict[str, Schema]) -> Schema:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if isinstance(hint, type) and is_dataclass(hint):
        return _add_schema(hint, schemas)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_build_schema(argument, schemas) for argument in arguments]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _build_schema(arguments[1], schemas)}
    if origin is not None and issubclass(origin, Sequence):
        return build_list_schema(_build_schema(arguments[0], schemas))
    raise TypeError(f"no JSON Schema is known for {hint}")
