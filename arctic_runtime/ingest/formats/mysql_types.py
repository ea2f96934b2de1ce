"""Converts the texts of MySQL's and MariaDB's column types to types and encodings of arctic columns.

A column of a source has the same Spark type in every format; only the encoding of its values depends on the tool that
reads the binlog.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Encoding, SourceColumn

AS_TEXT = "string"
"""Type that a user can declare instead of a MySQL type: the column keeps the text of the events, uninterpreted."""

WIDEST_DECIMAL = 38
"""Largest precision of a decimal in Spark and Iceberg; decimals of MySQL have up to 65 digits."""

_TYPE = re.compile(
    r"\s*(?P<words>[a-z][a-z0-9_ ]*?)\s*(?:\((?P<arguments>.*)\)(?P<rest>[^()]*))?", re.IGNORECASE | re.S
)
_LABEL = re.compile(r"\s*'(?P<label>(?:[^'\\]|\\.|'')*)'\s*(?:,|$)", re.S)
_ESCAPED = re.compile(r"''|\\(.)", re.S)
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "Z": "\x1a"}
_ATTRIBUTES = frozenset({"unsigned", "signed", "zerofill"})
_ALIASES = {
    "bool": "tinyint",
    "boolean": "tinyint",
    "int1": "tinyint",
    "int2": "smallint",
    "int3": "mediumint",
    "middleint": "mediumint",
    "int4": "int",
    "integer": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
    "double precision": "double",
    "real": "double",
    "numeric": "decimal",
    "dec": "decimal",
    "fixed": "decimal",
    "character": "char",
    "nchar": "char",
    "national char": "char",
    "character varying": "varchar",
    "char varying": "varchar",
    "nvarchar": "varchar",
    "national varchar": "varchar",
    "geomcollection": "geometrycollection",
}


@dataclass(frozen=True)
class MysqlType:
    """A column type of MySQL: its `name` in lower case, without aliases, and the `arguments` in its parentheses."""

    name: str
    arguments: str = ""
    is_unsigned: bool = False

    @property
    def numbers(self) -> tuple[int, ...]:
        """The arguments as numbers, such as precision and scale; empty if there are none or if they are not numbers."""
        parts = [part.strip() for part in self.arguments.split(",")]
        return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of an enum or a set; empty if the arguments are something else."""
        labels, at = [], 0
        while at < len(self.arguments):
            quoted = _LABEL.match(self.arguments, at)
            if quoted is None:
                return ()
            labels.append(_ESCAPED.sub(_unescape_character, quoted["label"]))
            at = quoted.end()
        return tuple(labels)


@dataclass(frozen=True)
class Rendering:
    """Rules by which a tool, such as Canal or Maxwell, writes the values of MySQL's types into JSON.

    `bytes`, `enum`, `set`, `json` and `timestamp` are the encodings of these types. `timestamp` is None if the zone of
    the tool's timestamps isn't known. `refused` maps names of types whose values can't be read exactly to the reason.
    `widest_bit` is the width, in bits, of the widest bit column that the tool writes correctly.
    """

    tool: str
    bytes: Encoding
    enum: Encoding
    set: Encoding
    json: Encoding
    timestamp: Encoding | None = "zoneless_timestamp"
    widest_bit: int = 64
    refused: Mapping[str, str] = field(default_factory=dict)


def read_mysql_type(text: str) -> MysqlType | None:
    """Parses the text of a column type, such as `int(10) unsigned` or `enum('a','b')`; None if it can't be parsed."""
    read = _TYPE.fullmatch(text)
    if read is None:
        return None
    before = read["words"].lower().split()
    after = (read["rest"] or "").lower().split()
    # `varchar(9) character set latin1 collate latin1_bin` is a varchar in an event.
    words = before[: next((at for at, word in enumerate(before) if word in _ATTRIBUTES and at), len(before))]
    words = words[: _find_charset(words)]
    name = " ".join(words)
    if name == "serial":
        return MysqlType("bigint", is_unsigned=True)
    is_unsigned = not {"unsigned", "zerofill"}.isdisjoint([*before, *after])
    return MysqlType(_ALIASES.get(name, name), (read["arguments"] or "").strip(), is_unsigned)


def build_mysql_column(name: str, text: str, rendering: Rendering) -> SourceColumn:
    """Builds a column from its name and the text of its MySQL type, or the text `string` (see `AS_TEXT`).

    Raises ConfigError if the type is unknown, or if its values can't be read exactly from the JSON of the tool.
    """
    if text.strip().lower() == AS_TEXT:
        return SourceColumn(name, "string")
    kind = read_mysql_type(text)
    column = _COLUMNS.get(kind.name) if kind else None
    try:
        if kind is None or column is None:
            raise _Inexact("a type of MySQL whose values have an exact type in Spark")
        if kind.name in rendering.refused:
            raise _Inexact(rendering.refused[kind.name])
        return replace(column(kind, rendering), name=name)
    except _Inexact as inexact:
        raise ConfigError(
            f"Column {name} can't be read exactly from the events of {rendering.tool}.",
            where=f"its type {text.strip() or '(none)'}",
            expected=inexact.expected,
            fix=inexact.fix,
        ) from None


class _Inexact(Exception):
    def __init__(
        self,
        expected: str,
        fix: str = "declare the column as `string`, which keeps the text of the events, or leave it out",
    ) -> None:
        super().__init__(expected)
        self.expected = expected
        self.fix = fix


_Column = Callable[[MysqlType, Rendering], SourceColumn]
"""Builds a column of a type, except its name; raises _Inexact if the values can't be read exactly."""


def _build_column(
    type_: str, encoding: Encoding = "plain", labels: tuple[str, ...] = (), padded_to: int | None = None
) -> SourceColumn:
    return SourceColumn("", type_, encoding, labels, padded_to)


def _build_fixed(type_: str, encoding: Encoding = "plain") -> _Column:
    def build_fixed_column(kind: MysqlType, rendering: Rendering) -> SourceColumn:
        return _build_column(type_, encoding)

    return build_fixed_column


def _build_integer(signed: str, unsigned: str) -> _Column:
    def build_integer_column(kind: MysqlType, rendering: Rendering) -> SourceColumn:
        return _build_column(unsigned if kind.is_unsigned else signed)

    return build_integer_column


def _build_decimal(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    precision, scale = (*kind.numbers, *(10, 0)[len(kind.numbers) :])[:2]
    if precision > WIDEST_DECIMAL:
        raise _Inexact(f"a decimal of at most {WIDEST_DECIMAL} digits")
    return _build_column(f"decimal({precision},{scale})")


def _build_bit(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    width = kind.numbers[0] if kind.numbers else 1
    if width > rendering.widest_bit:
        raise _Inexact(f"at most bit({rendering.widest_bit}), since {rendering.tool} may write wider ones wrong")
    if width == 1:
        return _build_column("boolean", "zero_one")
    return _build_column("bigint" if width < 64 else "decimal(20,0)")


def _build_bytes(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    return _build_column("binary", rendering.bytes)


def _build_fixed_bytes(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    return _build_column("binary", rendering.bytes, padded_to=kind.numbers[0] if kind.numbers else 1)


def _build_timestamp(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    if rendering.timestamp is None:
        raise _Inexact(
            "a known time zone, since the texts of timestamps have none",
            f"set `zone` to the time zone of the {rendering.tool} server, such as UTC or +08:00",
        )
    return _build_column("timestamp", rendering.timestamp)


def _build_enum(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    encoding = rendering.enum if kind.name == "enum" else rendering.set
    if encoding not in ("enum_index", "set_bits"):
        return _build_column("string", encoding)
    if not kind.labels:
        raise _Inexact("the labels of the column, such as enum('a','b')")
    return _build_column("string", encoding, kind.labels)


def _build_json(kind: MysqlType, rendering: Rendering) -> SourceColumn:
    return _build_column("string", rendering.json)


# Iceberg has no integers of less than 32 bits.
_COLUMNS: Mapping[str, _Column] = {
    "tinyint": _build_integer("int", "int"),
    "smallint": _build_integer("int", "int"),
    "mediumint": _build_integer("int", "int"),
    "int": _build_integer("int", "bigint"),
    "bigint": _build_integer("bigint", "decimal(20,0)"),
    "float": _build_fixed("float"),
    "double": _build_fixed("double"),
    "decimal": _build_decimal,
    "bit": _build_bit,
    "date": _build_fixed("date", "date_text"),
    "datetime": _build_fixed("timestamp_ntz", "local_timestamp"),
    "timestamp": _build_timestamp,
    "time": _build_fixed("string"),
    "year": _build_fixed("int"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _build_fixed("string")),
    "binary": _build_fixed_bytes,
    **dict.fromkeys(("varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _build_bytes),
    "enum": _build_enum,
    "set": _build_enum,
    "json": _build_json,
    **dict.fromkeys(("geometry", "point", "linestring", "polygon"), _build_bytes),
    **dict.fromkeys(("multipoint", "multilinestring", "multipolygon", "geometrycollection"), _build_bytes),
}
MYSQL_TYPES = tuple(_COLUMNS)
"""Names of the MySQL types that can be read, without aliases."""


def _find_charset(words: list[str]) -> int:
    """Returns the index at which `character set …`, `charset …` or `collate …` begins after the name of a type.

    Returns the number of words if there is no such clause.
    """
    starts = (
        at
        for at, word in enumerate(words)
        if at and (word in ("charset", "collate", "ascii", "unicode") or words[at : at + 2] == ["character", "set"])
    )
    return next(starts, len(words))


def _unescape_character(escape: re.Match[str]) -> str:
    character = escape[1]
    return "'" if character is None else _ESCAPES.get(character, character)
