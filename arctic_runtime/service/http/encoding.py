"""JSON encoding of a service's state: fields in snake_case, times in UTC, table names as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timezone
from functools import cache
from typing import Any

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
