"""Functions that convert the arguments of operations, given as texts that people type or as YAML, Jinja or JSON values.

Each takes the argument's name, for error messages, and its value. It returns the value in the type that the operation
needs, or raises ConfigError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.compaction import CompactionMode
from arctic_runtime.model.names import TableName

Reader = Callable[[str, Any], Any]

MODES: tuple[str, ...] = get_args(CompactionMode)


def read_text(_: str, value: Any) -> str:
    """Converts any value, such as a number or a date, to text."""
    return str(value)


def read_flag(label: str, value: Any) -> bool:
    """Returns the value; raises ConfigError unless it is a boolean."""
    if not isinstance(value, bool):
        raise ConfigError(f"`{label}` must be true or false; found {value!r}")
    return value


def read_count(label: str, value: Any) -> int:
    """Returns the value; raises ConfigError unless it is a whole number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"`{label}` must be a whole number, 0 or more; found {value!r}")
    return int(value)


def read_texts(label: str, value: Any) -> tuple[str, ...]:
    """Converts a list to a tuple of texts; raises ConfigError for a single text or number."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"`{label}` must be a list; found {value!r}")
    return tuple(str(item) for item in value)


def read_mode(_: str, value: Any) -> CompactionMode:
    """Returns the value; raises ConfigError unless it is a mode of compaction."""
    if value not in MODES:
        raise ConfigError(f"unknown compaction mode {value!r}; expected one of {', '.join(MODES)}")
    mode: CompactionMode = value
    return mode


def read_source(_: str, value: Any) -> str | TableName:
    """Returns a TableName, as dbt passes it, unchanged; converts any other value to text, a name of a table or view."""
    return value if isinstance(value, TableName) else str(value)


def read_partition(label: str, value: Any) -> dict[str, str]:
    """Converts the values of a partition, a mapping or a list of texts such as `region=eu`, to texts by column."""
    if isinstance(value, Mapping):
        return {str(name): _partition_value(f"{label}.{name}", part_value) for name, part_value in value.items()}
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(
            f"`{label}` must be a mapping of columns to values, or a list of COLUMN=VALUE; found {value!r}"
        )
    return dict(_parse_column_value(label, str(text)) for text in value)


def _partition_value(label: str, value: Any) -> str:
    if value is None:
        raise ConfigError(f"`{label}` has no value")
    return str(value)


def _parse_column_value(label: str, text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"`{label}` must be a column and its value, such as region=eu; found {text!r}")
    return name, value
