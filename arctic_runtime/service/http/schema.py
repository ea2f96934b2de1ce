"""Builds the JSON Schemas of dataclasses, which match the JSON that `encoding` writes."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from arctic_runtime.model.names import TableName

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
