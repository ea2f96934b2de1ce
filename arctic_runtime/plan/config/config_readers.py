"""Readers of configuration values: they return a user's value as a typed value, or raise a ConfigError with the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from arctic_runtime.errors import ConfigError, find_nearest
from arctic_runtime.model.files.layout import MAX_NODES
from arctic_runtime.model.merge_columns import FUNCTIONS
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Transform, Unit
from arctic_runtime.plan.config.value_reader import PLAIN, PLAIN_VALUES, TEXT, Schema, ValueReader, accept

_SMALLEST_FILE = 2**20
_SIZE = re.compile(r"(?P<number>[1-9]\d{0,8})\s*(?P<unit>[KMG]iB)")
_DIGITS = re.compile(r"[0-9]+")
_UNIT_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

_QUOTED = r"`(?:[^`]|``)+`"
_IDENTITY = re.compile(rf"{_QUOTED}|[^()`]+")
_TRANSFORM = re.compile(
    r"(?P<unit>[A-Za-z]+)\s*\(\s*(?:(?P<number>\d+)\s*,)?\s*"
    rf"(?P<column>{_QUOTED}|[^(),`]+?)\s*\)"
)
_UNITS: Mapping[str, Unit] = {
    "bucket": "bucket",
    "truncate": "truncate",
    "year": "years",
    "years": "years",
    "month": "months",
    "months": "months",
    "day": "days",
    "days": "days",
    "date": "days",
    "hour": "hours",
    "hours": "hours",
    "identity": "identity",
}

_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_NAMES: Final[Schema] = {"anyOf": [_NAME, {"type": "array", "items": _NAME}]}
_TRANSFORM_TEXT: Final[Schema] = {
    "type": "string",
    "pattern": rf"^\s*(?:{_QUOTED}|[^()`]+|[A-Za-z]+\s*\(\s*(?:[0-9]+\s*,)?\s*(?:{_QUOTED}|[^(),`]+)\s*\))\s*$",
    "examples": ["days(ordered_at)", "bucket(16, customer_id)", "region"],
}
_BYTES: Final[Schema] = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\s*[1-9][0-9]{0,8}\s*[KMG]iB\s*$", "examples": ["64 MiB", "1 GiB"]},
    ]
}
_FILE_BYTES: Final[Schema] = {"anyOf": [{"type": "integer", "minimum": _SMALLEST_FILE}, _BYTES["anyOf"][1]]}


@accept(_NAMES)
def read_names(key: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise ConfigError(f"`{key}` must be a column name or a list of them; found {value!r}")
    return tuple(names)


@accept(TEXT)
def read_text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"`{key}` must be a non-empty string; found {value!r}")
    return value


@accept(PLAIN)
def read_plain(key: str, value: Any) -> str:
    """Reads a text, a number or a boolean as a text; the error shows no value, which may be a secret."""
    if not isinstance(value, str | int | float):
        raise ConfigError(f"`{key}` must be a text, a number or a boolean; found a {type(value).__name__}")
    return str(value)


@accept(PLAIN_VALUES)
def read_plain_values(key: str, value: Any) -> dict[str, str]:
    """Reads a mapping of names to texts, numbers or booleans; the error shows no value, which may be a secret."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"`{key}` must be a mapping of names to values; found a {type(value).__name__}")
    return {str(name): read_plain(f"{key}.{name}", part) for name, part in value.items()}


@accept({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}]})
def read_digits(key: str, value: Any) -> int:
    """Reads a whole number of at least 0, which may be written as a text."""
    if isinstance(value, bool) or not isinstance(value, str | int) or not _DIGITS.fullmatch(str(value)):
        raise ConfigError(f"`{key}` must be a whole number; found {value!r}")
    return int(value)


@accept({"type": "boolean"})
def read_flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"`{key}` must be true or false; found {value!r}")
    return value


@accept({"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^(?!\s*$|\.{1,2}$)[^/\\\x00-\x1f]+$"}]})
def read_view_name(key: str, value: Any) -> bool | str:
    """Reads true, false or the name of a view; raises ConfigError for other values and names that no catalog allows."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"`{key}` must be true, false or the name of a view; found {value!r}")
    return TableName("catalog", "schema", value).name


def get_reader(kind: Any) -> ValueReader[Any]:
    """Returns the reader of the values of a `Literal`."""
    values = get_args(kind)
    names = [str(allowed) for allowed in values]

    @accept({"enum": list(values)})
    def read(key: str, value: Any) -> Any:
        if value in values and not isinstance(value, bool):
            return value
        nearest = find_nearest(str(value), names)
        hint = f"; did you mean `{nearest}`?" if nearest else ""
        raise ConfigError(f"`{key}` must be one of {', '.join(names)}; found {value!r}{hint}")

    return read


@accept({"anyOf": [_TRANSFORM_TEXT, {"type": "array", "items": _TRANSFORM_TEXT}]})
def read_transforms(key: str, value: Any) -> tuple[Transform, ...]:
    return tuple(_parse_transform(text) for text in read_names(key, value))


def _parse_transform(text: str) -> Transform:
    if _IDENTITY.fullmatch(text.strip()):
        return Transform("identity", _unquote_text(text.strip()))
    match = _TRANSFORM.fullmatch(text.strip())
    unit = _UNITS.get(match["unit"].lower()) if match else None
    if match is None or unit is None:
        raise ConfigError(
            f"`partition_by: {text}` is not an Iceberg transform; expected a column, or one of "
            "years(c), months(c), days(c), hours(c), bucket(n, c), truncate(w, c)"
        )
    if (unit in ("bucket", "truncate")) != (match["number"] is not None):
        raise ConfigError(
            f"`partition_by: {text}`: bucket and truncate need a number as their first argument, all other "
            "transforms take none"
        )
    number = int(match["number"]) if match["number"] is not None else None
    if number is not None and not 0 < number < 2**31:
        raise ConfigError(f"`partition_by: {text}`: the number must be from 1 to 2147483647; found {number}")
    return Transform(unit, _unquote_text(match["column"]), number)


def _unquote_text(name: str) -> str:
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name


@accept({"enum": ["auto", *(2**exponent for exponent in range(MAX_NODES.bit_length()))]})
def read_nodes(key: str, value: Any) -> int | None:
    if value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1 or value & (value - 1):
        raise ConfigError(f"`{key}` must be auto or a power of two; found {value!r}")
    if value > MAX_NODES:
        raise ConfigError(f"`{key}` must be at most {MAX_NODES}; found {value}")
    return int(value)


@accept(_BYTES)
def read_size(key: str, value: Any) -> int:
    """Reads a number of bytes from a number or a text such as `64 MiB`; raises ConfigError for any other value."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        return int(match["number"]) * _UNIT_BYTES[match["unit"]]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"`{key}` must be a number of bytes, or a text such as 64 MiB or 1 GiB; found {value!r}")
    return int(value)


@accept(_FILE_BYTES)
def read_file_size(key: str, value: Any) -> int:
    size = read_size(key, value)
    if size < _SMALLEST_FILE:
        raise ConfigError(
            f"`{key}` must be at least 1 MiB, since smaller files take longer to open than to read; found {value!r}"
        )
    return size


@accept({"type": "object", "propertyNames": _NAME, "additionalProperties": _NAME})
def read_renamed(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and name for item in value.items() for name in item
    ):
        raise ConfigError(f"`{key}` must be a mapping of new names to old ones; found {value!r}")
    return dict(value)


@accept(
    {
        "anyOf": [
            TEXT,
            {
                "type": "object",
                "minProperties": 1,
                "propertyNames": _NAME,
                "additionalProperties": {"anyOf": [_NAME, {"type": "array", "minItems": 1, "items": _NAME}]},
            },
        ]
    }
)
def read_sequence(key: str, value: Any) -> str | dict[str, tuple[str, ...]]:
    """Reads a column that orders all events, or a mapping of the order column of each flow to the flow's columns.

    A flow is a group of columns with its own order of events: the event with the highest value of the order column
    determines these columns, independently of other columns of the row. Raises ConfigError for any other value.
    """
    if not isinstance(value, Mapping):
        return read_text(key, value)
    if not value or not all(isinstance(column, str) and column for column in value):
        raise ConfigError(f"`{key}` must be a column, or a mapping of columns to lists of columns; found {value!r}")
    groups = {column: read_names(f"{key}: {column}", columns) for column, columns in value.items()}
    empty = [column for column, columns in groups.items() if not columns]
    if empty:
        raise ConfigError(f"`{key}` gives {', '.join(empty)} no columns; name those that its events bring")
    return groups


@accept(
    {
        "type": "object",
        "minProperties": 1,
        "propertyNames": TEXT,
        "additionalProperties": {**TEXT, "examples": list(FUNCTIONS)},
    }
)
def read_merge_columns(key: str, value: Any) -> dict[str, str]:
    """Reads a mapping of columns to merge functions: names such as `sum`, or SQL expressions over `old` and `new`.

    Raises ConfigError for any other value.
    """
    functions: Mapping[Any, Any] = value if isinstance(value, Mapping) else {}
    if not functions or not all(isinstance(part, str) and part.strip() for pair in functions.items() for part in pair):
        raise ConfigError(f"`{key}` must be a mapping of columns to functions; found {value!r}")
    return {name: _merge_function(f"`{key}` of `{name}`", part.strip()) for name, part in functions.items()}


def _merge_function(where: str, text: str) -> str:
    if text.lower() in FUNCTIONS:
        return text.lower()
    # Imported here, since it loads the parser of SQL, which no other key needs.
    from arctic_runtime.ivm.frontend.configured_expressions import check_merge_expression

    try:
        check_merge_expression(text)
    except ConfigError as error:
        nearest = find_nearest(text.lower(), FUNCTIONS)
        hint = f"; did you mean `{nearest}`?" if nearest else ""
        raise ConfigError(
            f"{where} must be one of {', '.join(FUNCTIONS)}, or an SQL expression over `old.column` and `new.column`; "
            f"found: {error}{hint}"
        ) from error
    return text


_PATH_PROPERTIES = frozenset(
    {"write.data.path", "write.folder-storage.path", "write.metadata.path", "write.object-storage.path"}
)
"""Iceberg's properties by which a table's files are stored outside of the table's own folder."""


@accept(
    {
        "type": "object",
        "propertyNames": {"not": {"anyOf": [{"pattern": r"^arctic\."}, {"enum": sorted(_PATH_PROPERTIES)}]}},
        "additionalProperties": PLAIN,
    }
)
def read_properties(key: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(text, str | int | float) for text in value.values()):
        raise ConfigError(
            f"`{key}` must be a mapping of Iceberg table properties to texts, numbers or booleans; found {value!r}"
        )
    if "format-version" in value:
        raise ConfigError(f"`{key}` can't set format-version; set the key `format_version`, which applies to the base")
    reserved = [name for name in value if str(name).startswith("arctic.")]
    if reserved:
        raise ConfigError(
            f"`{key}` can't set {reserved}: names that start with `arctic.` are reserved for the state of the table"
        )
    shared = [name for name in value if name in _PATH_PROPERTIES]
    if shared:
        raise ConfigError(
            f"`{key}` can't set {shared}: change table and base would share a folder, in which live files of the one "
            "look like orphans of the other; tables lie below the warehouse of the target"
        )
    return {str(name): str(text).lower() if isinstance(text, bool) else str(text) for name, text in value.items()}
