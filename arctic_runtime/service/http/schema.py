"""JSON Schema of dataclasses, as `encoding` writes them."""

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


def component(name: str) -> Schema:
    """A reference to a schema that the description of the interface has by this name."""
    return {"$ref": f"#/components/schemas/{name}"}


def schemas_of(classes: Sequence[type]) -> dict[str, Schema]:
    """The schemas of dataclasses and of all that they have, by the names of classes."""
    found: dict[str, Schema] = {}
    for of in classes:
        _add(of, found)
    return found


def list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def record(**properties: Schema) -> Schema:
    """An object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _add(of: type, found: dict[str, Schema]) -> Schema:
    if of.__name__ not in found:
        hints = get_type_hints(of)
        found[of.__name__] = {}
        properties = {field.name: _schema(hints[field.name], found) for field in fields(of)}
        summary = (of.__doc__ or "").split("\n\n")[0]
        found[of.__name__] = {**record(**properties), "description": summary}
    return component(of.__name__)


def _schema(hint: Any, found: dict[str, Schema]) -> Schema:
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if isinstance(hint, type) and is_dataclass(hint):
        return _add(hint, found)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(of, found) for of in arguments]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(arguments[1], found)}
    if origin is not None and issubclass(origin, Sequence):
        return list_of(_schema(arguments[0], found))
    raise TypeError(f"no JSON Schema is known for {hint}")
