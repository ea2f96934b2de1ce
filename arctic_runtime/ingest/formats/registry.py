"""The registry of formats by name, each with the options that it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from arctic_runtime.errors import ConfigError, find_nearest
from arctic_runtime.ingest.formats.canal import build_canal_format
from arctic_runtime.ingest.formats.debezium import build_debezium_format
from arctic_runtime.ingest.formats.event_format import Change, Format, TimeUnit
from arctic_runtime.ingest.formats.maxwell import build_maxwell_format
from arctic_runtime.ingest.formats.rows import build_rows_format
from arctic_runtime.plan.config.config_readers import get_reader, read_flag, read_names, read_text
from arctic_runtime.plan.config.value_reader import Schema, ValueReader, accept, close_object

_ZONE = re.compile(r"UTC|[+-](?:0\d|1[0-8]):[0-5]\d|[A-Za-z]+(?:/[A-Za-z0-9_+-]+)+")


@dataclass(frozen=True)
class Option:
    """An option of a format: its meaning, as a line for the documentation, and the function that reads its value."""

    meaning: str
    read: ValueReader[Any]


@dataclass(frozen=True)
class FormatEntry:
    """A format that users can choose: a line that describes it, its options, and the function that builds it."""

    description: str
    make: Callable[..., Format]
    options: Mapping[str, Option] = field(default_factory=dict)


@accept({"type": "string", "pattern": f"^(?:{_ZONE.pattern})$", "examples": ["UTC", "+08:00", "Asia/Tokyo"]})
def _read_zone(key: str, value: Any) -> str:
    if not isinstance(value, str) or not _ZONE.fullmatch(value):
        raise ConfigError(
            f"`{key}` must be UTC, an offset such as +08:00 or a region such as Asia/Tokyo; found {value!r}"
        )
    return value


@accept(
    {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"enum": list(get_args(Change))},
        "additionalProperties": read_names.schema,
    }
)
def _read_operations(key: str, value: Any) -> Mapping[str, Change]:
    """Converts a user's texts for each change, such as `{delete: [D, d]}`, to a mapping of each text to its change.

    `key` is the name of the option, for errors.
    """
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(f"`{key}` must map changes to their texts, such as {{delete: [D]}}; found {value!r}")
    read_change = get_reader(Change)
    changes: dict[str, Change] = {}
    for change, texts in value.items():
        for text in read_names(f"{key}.{change}", texts):
            if text in changes:
                raise ConfigError(f"`{key}` gives {text!r} two meanings: {changes[text]} and {change}")
            changes[text] = read_change(key, change)
    return changes


FORMATS: Mapping[str, FormatEntry] = {
    "debezium": FormatEntry(
        "Debezium's change events in JSON, with or without their schema",
        build_debezium_format,
        {"with_schema": Option("whether each event has its schema beside its payload", read_flag)},
    ),
    "canal": FormatEntry(
        "Canal's flat messages",
        build_canal_format,
        {"zone": Option("time zone of the Canal server, needed for columns of the type timestamp", _read_zone)},
    ),
    "maxwell": FormatEntry("Maxwell's events", build_maxwell_format),
    "rows": FormatEntry(
        "one JSON object for each row, with or without a column that tells the operation",
        build_rows_format,
        {
            "operation": Option("column that tells the operation; without it each row is an upsert", read_text),
            "operations": Option("texts of that column by what they mean, such as {delete: [D]}", _read_operations),
            "time": Option("column with the time of the change", read_text),
            "time_unit": Option("how that time is written", get_reader(TimeUnit)),
            "order": Option("columns that order the changes of a key; without them the later row wins", read_names),
        },
    ),
}


def describe_formats() -> Schema:
    """Returns the JSON schema of a format: its name, or a mapping of its name to its options."""
    options = {name: _describe_options(entry) for name, entry in FORMATS.items()}
    alone: Schema = {"enum": list(FORMATS)}
    return {"anyOf": [alone, {"type": "object", "minProperties": 1, "maxProperties": 1, **close_object(options)}]}


def _describe_options(entry: FormatEntry) -> Schema:
    options = {name: {"description": option.meaning, **option.read.schema} for name, option in entry.options.items()}
    return {"type": ["object", "null"], "description": entry.description, **close_object(options)}


def make_format(name: str, options: Mapping[str, Any]) -> Format:
    """Builds the format `name` with a user's options; raises ConfigError if the name or an option can't be used."""
    entry = FORMATS.get(name)
    if entry is None:
        raise _build_unknown_error("format", name, FORMATS)
    values_given = {}
    for key, value in options.items():
        if key not in entry.options:
            raise _build_unknown_error(f"option of the format {name}", key, entry.options)
        values_given[key] = entry.options[key].read(key, value)
    return entry.make(**values_given)


def _build_unknown_error(what: str, name: str, known: Mapping[str, object]) -> ConfigError:
    nearest = find_nearest(name, known)
    hint = f"did you mean {nearest}?" if nearest else f"known: {', '.join(known) or 'none'}"
    return ConfigError(f"Unknown {what}: {name} ({hint})")
