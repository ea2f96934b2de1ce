"""Parses column types that users declare as in Spark: `bigint`, `decimal(10,2)`, `timestamp as epoch_millis`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Declared, Encoding, SourceColumn, SourceSchema

_DECLARATION = re.compile(r"\s*(?P<type>.+?)(?:\s+as\s+(?P<encoding>\w+))?\s*", re.IGNORECASE | re.S)
_SPACE = re.compile(r"\s+")
_PLAIN = ("boolean", "int", "bigint", "float", "double", "decimal", "string")
_AS_IS: Encoding = "plain"
_WIDER = {"tinyint": "int", "smallint": "int", "integer": "int", "long": "bigint", "real": "float"}

FAMILIES: Mapping[str, re.Pattern[str]] = {
    **{name: re.compile(name) for name in (*_PLAIN, "date", "timestamp", "timestamp_ntz", "binary")},
    "decimal": re.compile(r"decimal\(([1-9]|[12]\d|3[0-8]),(\d{1,2})\)"),
    "array": re.compile(rf"array<({'|'.join(name for name in _PLAIN if name != 'decimal')}|decimal\(\d+,\d+\))>"),
}
"""Families of types that users can declare: the family's name, and a pattern of its types as written without spaces."""

FITTING: Mapping[Encoding, tuple[str, ...]] = {
    "plain": _PLAIN,
    "json": ("string",),
    "epoch_days": ("date",),
    "epoch_millis": ("timestamp", "timestamp_ntz"),
    "epoch_micros": ("timestamp", "timestamp_ntz"),
    "epoch_nanos": ("timestamp", "timestamp_ntz"),
    "zoned_timestamp": ("timestamp",),
    "zoneless_timestamp": ("timestamp",),
    "local_timestamp": ("timestamp_ntz",),
    "date_text": ("date",),
    "millis_of_day": ("string",),
    "micros_of_day": ("string",),
    "nanos_of_day": ("string",),
    "base64": ("binary",),
    "latin1": ("binary",),
    "base64_decimal": ("decimal",),
    "variable_decimal": ("string",),
    "array": ("array",),
    "zero_one": ("boolean",),
    "set_array": ("string",),
}
"""The families of types for which users can declare an encoding.

Encodings that need the labels of an enum or set are left out, since they can't be declared.
"""

AS_TEXT: Mapping[str, Encoding] = MappingProxyType(
    {
        **dict.fromkeys(_PLAIN, _AS_IS),
        "date": "date_text",
        "timestamp": "zoned_timestamp",
        "timestamp_ntz": "local_timestamp",
        "binary": "base64",
        "array": "array",
    }
)
"""The default encoding of each family: JSON as people and most programs write it."""


def build_declared_schema(
    columns: Declared, key: Sequence[str], encodings: Mapping[str, Encoding] = AS_TEXT
) -> SourceSchema:
    """Builds the schema of declared columns, each a Spark type with an optional encoding after `as`.

    Without `as`, a column has the encoding that `encodings` names for the type's family. Raises ConfigError if a type
    or an encoding is unknown, if they don't fit each other, or if the key names a column that isn't declared.
    """
    return build_source_schema((build_declared_column(name, text, encodings) for name, text in columns.items()), key)


def build_declared_column(name: str, text: str, encodings: Mapping[str, Encoding] = AS_TEXT) -> SourceColumn:
    declaration = _DECLARATION.fullmatch(text)
    written = _SPACE.sub("", declaration["type"]).lower() if declaration else ""
    type_ = _WIDER.get(written, written)
    family = next((name for name, pattern in FAMILIES.items() if pattern.fullmatch(type_)), None)
    if declaration is None or family is None:
        raise _build_refusal(name, text, f"one of the types {', '.join(FAMILIES)}")
    encoding = (declaration["encoding"] or encodings.get(family, "")).lower()
    fitting = [name for name, families in FITTING.items() if family in families]
    if encoding not in fitting:
        raise _build_refusal(name, text, f"{type_} as {' or '.join(fitting)}")
    return SourceColumn(name, type_, cast(Encoding, encoding))


def build_source_schema(columns: Iterable[SourceColumn], key: Sequence[str]) -> SourceSchema:
    """Builds a schema from columns and the names of its primary key's columns.

    Raises ConfigError if two column names differ only in case, or if a key column is not among the columns.
    """
    schema = SourceSchema(tuple(columns), tuple(key))
    names = [column.name for column in schema.columns]
    lower = [name.lower() for name in names]
    twice = sorted(name for name in names if lower.count(name.lower()) > 1)
    if twice:
        raise ConfigError(f"Columns whose names differ only in case can't be in one table: {', '.join(twice)}")
    missing = [name for name in schema.key if name not in names]
    if missing:
        raise ConfigError(
            f"The primary key names columns that the table doesn't have: {', '.join(missing)}",
            expected=f"some of {', '.join(names) or '(no columns)'}",
        )
    return schema


def _build_refusal(name: str, text: str, expected: str) -> ConfigError:
    return ConfigError(
        f"The declared type of column {name} can't be used.",
        expected=expected,
        actual=repr(text),
        fix="correct it, or declare `string`, which keeps the text of the events",
    )
