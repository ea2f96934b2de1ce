"""Lets pyiceberg read the metadata of tables that have column types unknown to pyiceberg, such as `variant`.

Pyiceberg refuses such a table as a whole, even if a query does not read the column. So such a type is replaced in the
metadata by a geometry type whose reference system contains the name of the replaced type. Pyiceberg never reads the
values of such a column.
"""

from __future__ import annotations

import re
from typing import Any

_REPLACED = re.compile(r"geometry\('arctic:(.*)'\)")
_NESTED = ("type", "element", "key", "value")


def make_readable(metadata: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON metadata of a table or a view with each unknown type replaced by one that pyiceberg can read."""
    schemas = [_make_schema_readable(schema) for schema in metadata.get("schemas", ())]
    own = {"schema": _make_schema_readable(metadata["schema"])} if "schema" in metadata else {}
    return {**metadata, "schemas": schemas, **own}


def _make_schema_readable(schema: dict[str, Any]) -> dict[str, Any]:
    nested = {part: _make_type_readable(schema[part]) for part in _NESTED if part in schema}
    fields = {"fields": [_make_schema_readable(field) for field in schema["fields"]]} if "fields" in schema else {}
    return {**schema, **nested, **fields}


def _make_type_readable(kind: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(kind, dict):
        return _make_schema_readable(kind)
    return kind if is_known_type(kind) else f"geometry('arctic:{kind}')"


def is_known_type(kind: str) -> bool:
    """Whether pyiceberg has a type that metadata names so."""
    from pydantic import ValidationError
    from pyiceberg.types import IcebergType

    try:
        IcebergType.model_validate(kind)
    except ValidationError:
        return kind in ("struct", "list", "map")
    return True


def get_foreign_name(kind: str) -> str | None:
    """Returns the name of the type that `make_readable` replaced by the type with this text; None for other types."""
    match = _REPLACED.fullmatch(kind)
    return match[1] if match else None
