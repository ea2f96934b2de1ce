"""Computes the constant default of a MySQL or MariaDB column by the server, as the text of its value in older rows."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn, build_unknown_value
from arctic_runtime.ingest.formats.mysql_types import MysqlType, read_mysql_type
from arctic_runtime.ingest.transports.debezium.servers.ddl_history import ColumnType, ConstantDefault
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost


class AskServer(Protocol):
    """Runs a query at the server; returns the first value of its first row."""

    def __call__(self, sql: str) -> str | None: ...


@dataclass(frozen=True)
class _Target:
    """The column to which a default is converted: its type in the source, and the column of events."""

    type: ColumnType
    column: SourceColumn


@dataclass(frozen=True)
class _DefaultRule:
    """The conversion of a type's defaults.

    `query` has the place `{value}` for the expression, and `{charset}`, `{length}` and `{scale}` for those of the
    column. `convert` turns the text that the server returns into that of OlderRows; None if the column may hold another
    value.
    """

    query: str
    convert: Callable[[str, _Target], str | None]


def compute_default(ask: AskServer, default: ConstantDefault, kind: ColumnType, column: SourceColumn) -> OlderRows:
    """Computes the value of a default in a column of the type `kind`.

    `column` is the column of events. The server computes it by its own `sql_mode`. Returns an unknown value if the
    server can't compute it, or if the column may hold another value. Raises ConnectionLost if the server is away.
    """
    type_ = read_mysql_type(kind.name)
    name = "" if type_ is None else type_.name
    rule, sql = _RULES.get(name), default.sql or _find_implicit(name, kind)
    if sql is None:
        return build_unknown_value(f"it is not null, and its type {kind.name} has no constant default of its own")
    if rule is None:
        return build_unknown_value(f"a default of the type {kind.name} can't be converted")
    charset = kind.charset if re.fullmatch(r"\w+", kind.charset or "") else "utf8mb4"
    sizes = {"length": int(kind.length or 0), "scale": int(kind.scale or 0)}
    query = rule.query.format(value=f"({sql})", charset=charset, **sizes)
    try:
        text = ask(f"select {query}")
        if "\\" in sql and "NO_BACKSLASH_ESCAPES" in str(ask("select @@sql_mode")).upper():
            text = None
    except ConnectionLost:
        raise
    except SourceError as error:
        return build_unknown_value(f"the server can't compute its default {sql} again ({error.actual})")
    value = None if text is None else rule.convert(text, _Target(kind, column))
    if value is None:
        return build_unknown_value(f"the column may hold another value than its default {sql}")
    return OlderRows(True, value)


def _convert_text(text: str, target: _Target) -> str | None:
    length = target.type.length
    return text if length is None or len(text) <= length else None


def _convert_char(text: str, target: _Target) -> str | None:
    return _convert_text(text.rstrip(" "), target)


def _convert_label(text: str, target: _Target) -> str | None:
    """Returns the label of an enum that a text names, in the case of its definition; None if it names none or two."""
    matches = [label for label in _read_labels(target) if label.casefold() == text.rstrip(" ").casefold()]
    return matches[0] if len(matches) == 1 else None


def _convert_labels(text: str, target: _Target) -> str | None:
    """Returns the labels of a set that a text names, in the order of its definition."""
    labels = [_convert_label(part, target) for part in text.split(",")] if text else []
    if None in labels:
        return None
    return ",".join(label for label in _read_labels(target) if label in labels)


def _read_labels(target: _Target) -> tuple[str, ...]:
    return MysqlType("enum", ",".join(target.type.labels)).labels


def _convert_whole(text: str, target: _Target) -> str | None:
    """Returns a whole number or a boolean; None for a fraction, which servers round in several ways."""
    number = _read_whole(text)
    if number is None or target.column.type != "boolean":
        return None if number is None else str(number)
    return _BOOLEANS.get(number)


def _keep_text(text: str, _: _Target) -> str:
    return text


def _convert_bits(text: str, target: _Target) -> str | None:
    """Returns a bit as a boolean, and more as the bytes that events have: the lowest first."""
    number, width = _read_whole(text), target.column.padded_to
    if number is None or width is None:
        return None if number is None else _BOOLEANS.get(number)
    return number.to_bytes(width, "little").hex() if 0 <= number < 256**width else None


def _convert_year(text: str, _: _Target) -> str | None:
    year = _read_whole(text)
    if year is None:
        return None
    if 0 < year < 100:
        year += 2000 if year < 70 else 1900
    return str(year) if 1901 <= year <= 2155 else None


def _convert_float(text: str, target: _Target) -> str | None:
    """Returns the nearest number that a float has, with all of its digits."""
    try:
        return None if target.type.scale else repr(struct.unpack("f", struct.pack("f", float(text)))[0])
    except (ValueError, OverflowError):
        return None


def _convert_double(text: str, target: _Target) -> str | None:
    return None if target.type.scale else text


def _convert_fixed_bytes(text: str, target: _Target) -> str:
    return text.ljust(2 * (target.type.length or 1), "0")


def _convert_date(text: str, _: _Target) -> str | None:
    return text if _is_valid(date.fromisoformat, text) else None


def _convert_datetime(text: str, _: _Target) -> str | None:
    return text if _is_valid(datetime.fromisoformat, text) else None


def _is_valid(read: Callable[[str], object], text: str) -> bool:
    """Whether a text is a moment of the years 1 to 9999; servers also have a month and a day 0."""
    try:
        read(text)
    except ValueError:
        return False
    return True


def _convert_time(text: str, _: _Target) -> str:
    whole, *fraction = text.split(".")
    return f"{whole}.{''.join(fraction):0<6}"


def _read_whole(text: str) -> int | None:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else None


def _find_implicit(name: str, kind: ColumnType) -> str | None:
    """Returns the value, as SQL, that a column which is not null has without a default; None for none that is known."""
    return kind.labels[0] if name == "enum" and kind.labels else _IMPLICIT.get(name)


_BOOLEANS: Mapping[int, str] = {0: "false", 1: "true"}
_TEXTS = ("varchar", "tinytext", "text", "mediumtext", "longtext")
_BLOBS = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_WHOLE_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_IMPLICIT: Mapping[str, str] = {
    **dict.fromkeys((*_WHOLE_NUMBERS, "decimal", "bit", "float", "double"), "0"),
    **dict.fromkeys((*_TEXTS, *_BLOBS, "char", "binary", "set"), "''"),
    "time": "0",
}
_TEXT = "convert(convert({value} using {charset}) using utf8mb4)"
_NUMBER = "cast({value} as decimal(65, 30))"
_DOUBLE = "({value} + 0e0)"
_BYTES = "hex(cast({value} as binary))"
_RULES: Mapping[str, _DefaultRule] = {
    **dict.fromkeys(_TEXTS, _DefaultRule(_TEXT, _convert_text)),
    "char": _DefaultRule(_TEXT, _convert_char),
    # MariaDB keeps the text; MySQL writes its own.
    "json": _DefaultRule(f"if(version() like '%MariaDB%', {_TEXT}, null)", _convert_text),
    "enum": _DefaultRule(_TEXT, _convert_label),
    "set": _DefaultRule(_TEXT, _convert_labels),
    **dict.fromkeys(_WHOLE_NUMBERS, _DefaultRule(_NUMBER, _convert_whole)),
    "decimal": _DefaultRule("cast({value} as decimal(65, {scale}))", _keep_text),
    "bit": _DefaultRule(_NUMBER, _convert_bits),
    "year": _DefaultRule(_NUMBER, _convert_year),
    "float": _DefaultRule(_DOUBLE, _convert_float),
    "double": _DefaultRule(_DOUBLE, _convert_double),
    **dict.fromkeys(_BLOBS, _DefaultRule(_BYTES, _keep_text)),
    "binary": _DefaultRule(_BYTES, _convert_fixed_bytes),
    "date": _DefaultRule("cast(cast({value} as date) as char)", _convert_date),
    "datetime": _DefaultRule("cast(cast({value} as datetime({length})) as char)", _convert_datetime),
    "time": _DefaultRule("cast(cast({value} as time({length})) as char)", _convert_time),
}
"""Conversions by the name of a type; a TIMESTAMP depends on the time zone of the session that added the column."""
