"""Builds the columns of a table from the Kafka Connect schema of its change events, as Debezium writes it.

Source: the documentation of Debezium's connectors, "data type mappings", version 3.6; JsonConverter of Kafka Connect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType
from typing import Any

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn, SourceSchema, build_malformed_error

ConnectSchema = Mapping[str, Any]
"""A schema as JsonConverter writes it: `type`, and if they apply `name`, `field`, `parameters`, `fields`, `items`."""

MappedType = tuple[str, Encoding]
"""A Spark type, and the encoding of its values in JSON."""

MOST_DIGITS = 38
"""Largest precision of a decimal in Spark and Iceberg."""

SOURCE_TYPE = "__debezium.source.column.type"
"""Schema parameter with the column's database type, written if `column.propagate.source.type` is configured."""

SOURCE_LENGTH, SOURCE_SCALE = "__debezium.source.column.length", "__debezium.source.column.scale"
"""Schema parameters with the length or precision of the column's database type, and with its scale."""

_PRECISION = "connect.decimal.precision"

_SHAPE: Mapping[str, tuple[Any, Any]] = {
    "type": (str, None),
    "name": ((str, NoneType), None),
    "fields": ((list, NoneType), None),
    "parameters": ((Mapping, NoneType), None),
}
"""The kinds of a schema's parts, and the values that stand for parts that are absent."""

_NUMBER = re.compile(r"-?[0-9]{1,10}")


def build_source_schema(
    table: str,
    value: ConnectSchema,
    key: ConnectSchema | None,
    decimals: Encoding = "plain",
    chosen: Mapping[str, SourceColumn] = MappingProxyType({}),
) -> SourceSchema:
    """Builds a table's columns and primary key from the schemas of its events (`value`) and of their keys (`key`).

    `key` is None for a table without a key. `decimals` is the encoding of decimals in the events: `plain` for numbers,
    `base64_decimal` for Connect's default. `chosen` has the columns that the user declares, by name; they replace those
    of the schema. Raises ConfigError that names all other columns whose values can't be kept exactly, or if one of the
    schemas is none of Connect.
    """
    wrong: list[str] = []
    for schema in (value, *([] if key is None else [key])):
        _check_shape(table, schema)
    fields = _get_row_schema(table, value).get("fields") or ()
    columns = tuple(chosen.get(field["field"]) or _build_column(field, decimals, wrong) for field in fields)
    if wrong:
        raise ConfigError(
            f"table {table} has columns that can't be ingested:\n" + "\n".join(f"  - {refusal}" for refusal in wrong),
            fix=(
                "exclude these columns, with the Debezium property `column.exclude.list`, or give them a type that it "
                "knows, such as text"
            ),
        )
    return SourceSchema(columns, tuple(field["field"] for field in key.get("fields") or ()) if key else ())


def _check_shape(table: str, schema: Any, is_field: bool = False) -> None:
    """Raises ConfigError if a schema, or a schema inside of it, is not built as JsonConverter builds schemas."""
    is_sound = isinstance(schema, Mapping) and all(
        isinstance(schema.get(name, default), kind) for name, (kind, default) in _SHAPE.items()
    )
    if not is_sound or (is_field and not isinstance(schema.get("field"), str)):
        raise build_malformed_error(table, f"{schema!r:.200} in the place of a schema of Kafka Connect")
    if schema["type"] == "array":
        _check_shape(table, schema.get("items"))
    for field in schema.get("fields") or ():
        _check_shape(table, field, is_field=True)
    parameters = schema.get("parameters") or {}
    for name in (*_NUMBERS.get(schema.get("name"), ()), SOURCE_LENGTH, SOURCE_SCALE):
        if parameters.get(name) is not None and not _NUMBER.fullmatch(str(parameters[name])):
            raise build_malformed_error(table, f"{parameters[name]!r:.200} in the place of a number ({name})")


def _get_row_schema(table: str, value: ConnectSchema) -> ConnectSchema:
    """Returns the schema of a row from the schema of an event (`value`); raises ConfigError if the event has no row."""
    for field in value.get("fields") or ():
        if field.get("field") in ("after", "before") and field.get("type") == "struct":
            row: ConnectSchema = field
            return row
    raise ConfigError(
        f"table {table}: the schema {value.get('name') or value.get('type')} has no row `after` or `before`, and a "
        "Debezium envelope has both.",
        fix="take transformations that unwrap events (ExtractNewRecordState) out of the connector",
    )


def _build_column(field: ConnectSchema, decimals: Encoding, wrong: list[str]) -> SourceColumn:
    name = field["field"]
    try:
        if field["type"] == "array" and field.get("name") not in _LOGICAL:
            kind, element = _map_connect_type(_get_element_schema(field), decimals)
            return SourceColumn(name, f"array<{kind}>", "array", element=element)
        return SourceColumn(name, *_map_connect_type(field, decimals), padded_to=_get_width(field))
    except _InexactType as refused:
        wrong.append(f"column {name}: {refused}")
        return SourceColumn(name, "string")


def _get_element_schema(field: ConnectSchema) -> ConnectSchema:
    """Returns the schema of an array's elements.

    Their database type is that of the array without its prefix `_`: `int4` for the array type `_int4`.
    """
    items = field["items"]
    parameters = dict(field.get("parameters") or {})
    if parameters.get(SOURCE_TYPE) is not None:
        parameters[SOURCE_TYPE] = str(parameters[SOURCE_TYPE]).removeprefix("_")
    return {**items, "parameters": {**parameters, **(items.get("parameters") or {})}}


def _get_width(field: ConnectSchema) -> int | None:
    """Returns the width in bytes of a bit column; None for other columns, or if the schema does not contain the width.

    Values are padded to this width, since Debezium leaves out the zero bytes at their end.
    """
    length = (field.get("parameters") or {}).get("length") if field.get("name") == _BITS else None
    return None if length is None else (int(length) + 7) // 8


class _InexactType(Exception):
    """Raised for a type without an exact Spark type; the text names the type and says why its values can't be kept."""


def _map_connect_type(schema: ConnectSchema, decimals: Encoding) -> MappedType:
    logical = schema.get("name")
    if logical == _DECIMAL:
        return _map_decimal(schema, decimals)
    rule = _LOGICAL.get(logical) if logical else None
    if rule is None:
        rule = _PLAIN.get(schema["type"])
    if rule is None:
        raise _InexactType(f"{_describe_schema(schema)} has no counterpart")
    return rule(schema) if callable(rule) else rule


def _map_decimal(schema: ConnectSchema, encoding: Encoding) -> MappedType:
    parameters = schema.get("parameters") or {}
    digits = parameters.get(_PRECISION) or _DIGITS.get(_get_source_type(schema))
    if (kind := _choose_decimal_type(digits, parameters.get("scale", "0"))) is not None:
        return kind, encoding
    if encoding != "plain":
        raise _InexactType(
            f"{_describe_schema(schema)} has {digits or 'an unknown number of'} digits, "
            f"at most {MOST_DIGITS} are kept in a "
            "decimal, and its values are bytes; the converter option `decimal.format: NUMERIC`, or for Avro the "
            "connector's `decimal.handling.mode: string`, keeps them as text"
        )
    return "string", "plain"


def _choose_decimal_type(digits: str | int | None, scale: str | None) -> str | None:
    """Returns the Spark decimal type with precision `digits` and scale `scale`; None if it is unknown or too wide."""
    if digits is None or scale is None:
        return None
    # PostgreSQL has numeric(2, 5), for numbers below 0.001.
    whole = max(int(digits), int(scale))
    return f"decimal({whole},{scale})" if 0 < whole <= MOST_DIGITS and int(scale) >= 0 else None


def _map_text(schema: ConnectSchema) -> MappedType:
    """Returns the Spark type and encoding of a column that Debezium writes as text.

    The column can be a decimal, with `decimal.handling.mode: string`, which keeps NaN and all digits.
    """
    source = _get_source_type(schema)
    if source.split(" ")[0] not in _DECIMALS:
        return "string", "plain"
    if source == "MONEY":
        return f"decimal({_DIGITS[source]},2)", "plain"
    parameters = schema.get("parameters") or {}
    kind = _choose_decimal_type(parameters.get(SOURCE_LENGTH), parameters.get(SOURCE_SCALE))
    return ("string", "decimal_text") if kind is None else (kind, "plain")


def _map_bits_to_binary(schema: ConnectSchema) -> MappedType:
    source = _get_source_type(schema)
    if source == "VARBIT" or source.startswith("_"):
        raise _InexactType(f"values of {source.removeprefix('_').lower()} lose their length on the way")
    return "binary", "base64"


def _map_bytes(schema: ConnectSchema) -> MappedType:
    """Returns the Spark type and encoding of a binary column.

    Raises _Refused for a database type that is unknown to Debezium: Debezium sends the values of such a type as bytes
    too, but in no defined format.
    """
    source = _get_source_type(schema)
    if source and source.partition("(")[0] not in _BINARY:
        raise _InexactType(f"the database type {source.lower()} is not known to Debezium")
    return "binary", "base64"


def _refuse_nested_array(schema: ConnectSchema) -> MappedType:
    raise _InexactType(f"{_describe_schema(schema)}: lists inside of lists are not supported")


def _get_source_type(schema: ConnectSchema) -> str:
    """Returns the column's database type in upper case; empty if the schema does not contain it."""
    return str((schema.get("parameters") or {}).get(SOURCE_TYPE) or "").upper()


def _describe_schema(schema: ConnectSchema) -> str:
    name, source = schema.get("name"), _get_source_type(schema)
    connect = f"{schema['type']} {name}" if name else str(schema["type"])
    return f"{source.lower()} ({connect})" if source else connect


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DIGITS: Mapping[str, int] = {"MONEY": 19, "BIGINT UNSIGNED": 20, "BIGINT UNSIGNED ZEROFILL": 20}
"""Precision of decimal types in databases whose schema does not contain it."""

_DECIMALS = frozenset(("NUMERIC", "DECIMAL", "DEC", "FIXED", "MONEY"))
"""The first words of the names of decimal types in databases."""

_BINARY = frozenset(
    ("BYTEA", "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "LONG VARBINARY", "IMAGE", "RAW")
)

_Rule = MappedType | Callable[[ConnectSchema], MappedType]

_PLAIN: Mapping[str, _Rule] = {
    "int8": ("int", "plain"),
    "int16": ("int", "plain"),
    "int32": ("int", "plain"),
    "int64": ("bigint", "plain"),
    "float32": ("float", "plain"),
    "float": ("float", "plain"),
    "float64": ("double", "plain"),
    "double": ("double", "plain"),
    "boolean": ("boolean", "plain"),
    "string": _map_text,
    "bytes": _map_bytes,
    "array": _refuse_nested_array,
    "map": ("string", "json"),
    "struct": ("string", "json"),
}
"""Spark type and encoding by the `type` of a schema, used if the schema has no `name` or an unknown one."""

_DEBEZIUM, _CONNECT = "io.debezium", "org.apache.kafka.connect.data"
_BITS = f"{_DEBEZIUM}.data.Bits"

_NUMBERS: Mapping[str | None, tuple[str, ...]] = {_BITS: ("length",), _DECIMAL: ("scale", _PRECISION)}
"""Parameters that have to be numbers, by the name of a logical type."""

_LOGICAL: Mapping[str, _Rule] = {
    f"{_DEBEZIUM}.time.Date": ("date", "epoch_days"),
    f"{_DEBEZIUM}.time.Time": ("string", "millis_of_day"),
    f"{_DEBEZIUM}.time.MicroTime": ("string", "micros_of_day"),
    f"{_DEBEZIUM}.time.NanoTime": ("string", "nanos_of_day"),
    f"{_DEBEZIUM}.time.Timestamp": ("timestamp_ntz", "epoch_millis"),
    f"{_DEBEZIUM}.time.MicroTimestamp": ("timestamp_ntz", "epoch_micros"),
    f"{_DEBEZIUM}.time.NanoTimestamp": ("timestamp_ntz", "epoch_nanos"),
    f"{_DEBEZIUM}.time.ZonedTimestamp": ("timestamp", "zoned_timestamp"),
    f"{_DEBEZIUM}.time.ZonedTime": ("string", "plain"),
    f"{_DEBEZIUM}.time.IsoDate": ("date", "date_text"),
    f"{_DEBEZIUM}.time.IsoTime": ("string", "plain"),
    f"{_DEBEZIUM}.time.IsoTimestamp": ("timestamp_ntz", "local_timestamp"),
    f"{_DEBEZIUM}.time.Year": ("int", "plain"),
    f"{_DEBEZIUM}.time.Interval": ("string", "interval"),
    f"{_DEBEZIUM}.time.MicroDuration": ("bigint", "plain"),
    f"{_DEBEZIUM}.time.NanoDuration": ("bigint", "plain"),
    f"{_CONNECT}.Date": ("date", "epoch_days"),
    f"{_CONNECT}.Time": ("string", "millis_of_day"),
    f"{_CONNECT}.Timestamp": ("timestamp_ntz", "epoch_millis"),
    f"{_DEBEZIUM}.data.Json": ("string", "plain"),
    f"{_DEBEZIUM}.data.Xml": ("string", "plain"),
    f"{_DEBEZIUM}.data.Uuid": ("string", "plain"),
    f"{_DEBEZIUM}.data.Enum": ("string", "plain"),
    f"{_DEBEZIUM}.data.EnumSet": ("string", "plain"),
    f"{_DEBEZIUM}.data.Tsvector": ("string", "plain"),
    f"{_DEBEZIUM}.data.Ltree": ("string", "plain"),
    _BITS: _map_bits_to_binary,
    f"{_DEBEZIUM}.data.VariableScaleDecimal": ("string", "variable_decimal"),
    f"{_DEBEZIUM}.data.geometry.Point": ("string", "json"),
    f"{_DEBEZIUM}.data.geometry.Geometry": ("string", "json"),
    f"{_DEBEZIUM}.data.geometry.Geography": ("string", "json"),
    f"{_DEBEZIUM}.data.SparseDoubleVector": ("string", "json"),
}
"""Spark type and encoding by the `name` of a schema, its logical type.

Debezium's MicroDuration and NanoDuration count a month of an interval as 30.4375 days.
"""
