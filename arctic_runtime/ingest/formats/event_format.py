"""The parts of a format: how the JSON of a change event says what happened to which row, and how it writes values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Encoding = Literal[
    "plain",
    "json",
    "epoch_days",
    "epoch_millis",
    "epoch_micros",
    "epoch_nanos",
    "zoned_timestamp",
    "local_timestamp",
    "date_text",
    "millis_of_day",
    "micros_of_day",
    "nanos_of_day",
    "base64",
    "base64_decimal",
    "variable_decimal",
    "array",
    "zero_one",
]
"""How JSON writes a value.

`plain`: as text or number that Spark casts. `json`: as any JSON, which is kept as its text. `epoch_…`: a count since
1970-01-01, UTC. `zoned_timestamp`, `local_timestamp`, `date_text`: ISO 8601 or SQL text, with and without zone.
`…_of_day`: a time of day as a count since midnight, kept as the text `HH:MM:SS.ffffff`. `base64`: bytes.
`base64_decimal`: the unscaled big-endian integer of a decimal whose scale the type has. `variable_decimal`: an object
`{"scale": …, "value": …}`, kept as text. `array`: a JSON array of plain values. `zero_one`: a boolean as 0 or 1.
"""

Change = Literal["insert", "read", "update", "delete", "truncate", "ignored"]
"""What an event says: `read` is a row of a snapshot, an `ignored` event (a message, a marker) says nothing of rows."""

Path = tuple[str, ...]
"""Names of nested fields, outermost first."""


@dataclass(frozen=True)
class SourceColumn:
    """A column of a table in a source: its name, the Spark type that the arctic table keeps, and its encoding."""

    name: str
    type: str
    encoding: Encoding = "plain"


@dataclass(frozen=True)
class SourceSchema:
    """The columns of a table in a source, and the names of those in its primary key; none for a table without one."""

    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class EventFormat:
    """How events of a format are read; paths lead from the top of an event's JSON.

    `row` leads to the row after the change, and for a delete to the deleted row where `before` is None or
    `is_row_of_delete`; `before` to the row before, which has only the columns that changed where `is_before_partial`.
    Where `rows_are_lists`, both paths lead to lists of rows, one for each row that the event changed. `changes` maps
    the text at `operation` to what it means; any other text makes an event a dead letter. A null or absent row before
    means that the source does not send it. `time` leads to when the change happened, in `time_unit`. `order` are paths
    whose values, left to right, order the events of a table; numbers are compared as numbers. `transaction` leads to
    the id of the source's transaction. `unavailable` is the text or JSON in the place of a value that the source did
    not send, since the change did not touch it.
    """

    name: str
    row: Path
    before: Path | None
    operation: Path
    changes: Mapping[str, Change]
    time: Path | None = None
    time_unit: Literal["seconds", "millis", "micros"] = "millis"
    table: Path | None = None
    order: tuple[Path, ...] = ()
    transaction: Path | None = None
    rows_are_lists: bool = False
    is_before_partial: bool = False
    is_row_of_delete: bool = False
    unavailable: tuple[str, ...] = field(default=())
