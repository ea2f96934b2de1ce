"""Readers of arguments, which are texts that people type, or values from YAML, Jinja or JSON.

Each reader takes the value and, for its errors, the argument's name. It raises ConfigError if it can't use the value.
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
    """Reads any value as text, such as a number or a date."""
    return str(value)


def read_flag(label: str, value: Any) -> bool:
    """Reads true or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"`{label}` must be true or false; found {value!r}")
    return value


def read_count(label: str, value: Any) -> int:
    """Reads a whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"`{label}` must be a whole number; found {value!r}")
    return int(value)


def read_texts(label: str, value: Any) -> tuple[str, ...]:
    """Reads a list of texts."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"`{label}` must be a list; found {value!r}")
    return tuple(str(item) for item in value)


def read_mode(_: str, value: Any) -> CompactionMode:
    """Reads a mode of compaction."""
    if value not in MODES:
        raise ConfigError(f"unknown compaction mode {value!r}; expected one of {', '.join(MODES)}")
    mode: CompactionMode = value
    return mode


def read_source(_: str, value: Any) -> str | TableName:
    """Reads a table or view: a name with or without schema and catalog, or a complete TableName, which dbt passes."""
    return value if isinstance(value, TableName) else str(value)


def read_partition(label: str, value: Any) -> dict[str, str]:
    """Reads the value of each partition column, from a mapping or from texts such as `region=eu`."""
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
