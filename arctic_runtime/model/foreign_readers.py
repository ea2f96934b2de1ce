"""Models of other projects that read a table: they note themselves in its properties, so that expiry waits for them.

A note has the time of the model's last run, and not how far the model has read: that is in the model's own tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import TableName, escape_table_name, unescape_table_name
from arctic_runtime.model.properties import READER_PREFIX


def name_note(model: TableName) -> str:
    """Returns the name of the property by which the model `model` notes itself in a table that it reads."""
    return f"{READER_PREFIX}{escape_table_name(model)}"


def read_notes(properties: Mapping[str, str]) -> dict[TableName, int]:
    """Reads the models that have noted themselves in a table, with the times of their notes.

    These are in milliseconds since 1970. Notes that can't be read are left out.
    """
    notes: dict[TableName, int] = {}
    for key, value in properties.items():
        if key.startswith(READER_PREFIX):
            with suppress(ConfigError, ValueError):
                notes[unescape_table_name(key.removeprefix(READER_PREFIX))] = int(value)
    return notes


def select_waiting(notes: Mapping[TableName, int], now_ms: int, seconds: int) -> dict[TableName, int]:
    """Selects the notes that are younger than `seconds`: those of models for which expiry waits."""
    return {model: at_ms for model, at_ms in notes.items() if now_ms - at_ms < 1000 * seconds}
