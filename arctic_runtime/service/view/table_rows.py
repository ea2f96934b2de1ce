"""Sample rows of a table for people, with long values cut and masked columns hidden."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from arctic_runtime.model.masking import Mask
from arctic_runtime.model.names import TableName


@dataclass(frozen=True)
class TableRows:
    """A few rows of a table; each row has a text for each column, or None for null.

    The rows are those of the last merge.
    """

    table: TableName
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    masked: tuple[str, ...]
    """Columns whose values are shown as hashes: equal values have the same hash until the service ends."""

    unmerged_rows: int
    """Number of change rows that are not merged yet, so that the rows shown may be older."""


def build_table_rows(
    table: TableName,
    rows: Sequence[Mapping[str, Any]],
    mask: Mask,
    most_characters: int,
    unmerged_rows: int = 0,
) -> TableRows:
    """Builds the rows to show: values are hidden by `mask`, and become texts of at most `most_characters`."""
    columns = tuple(rows[0]) if rows else ()
    masked = tuple(filter(mask.hides_column, columns))
    shown = tuple(
        tuple(_describe_value(mask.hide_value(name, row[name]), most_characters) for name in columns) for row in rows
    )
    return TableRows(table, columns, shown, masked, unmerged_rows)


def _describe_value(value: Any, most: int) -> str | None:
    if value is None:
        return None
    text = _to_text(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _to_text(value: Any) -> str:
    match value:
        case str():
            return value
        case bytes():
            return value.hex()
        case date() | time():
            return value.isoformat()
        case bool() | list() | dict():
            return json.dumps(value, ensure_ascii=False, default=_to_text)
    return str(value)
