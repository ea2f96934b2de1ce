"""The parts of a format: how the JSON of a change event says what happened to which row, and how it writes values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

Encoding = Literal[
    "plain",
    "json",
    "epoch_days",
    "epoch_millis",
    "epoch_micros",
    "epoch_nanos",
    "zoned_timestamp",
    "zoneless_timestamp",
    "local_timestamp",
    "date_text",
    "millis_of_day",
    "micros_of_day",
    "nanos_of_day",
    "interval",
    "base64",
    "latin1",
    "base64_decimal",
    "decimal_text",
    "variable_decimal",
    "array",
    "zero_one",
    "enum_index",
    "set_bits",
    "set_array",
]
"""How JSON writes a value.

`plain`: as text or number that Spark casts. `json`: as any JSON, which is kept as its text. `epoch_…`: a count since
1970-01-01, UTC. `zoned_timestamp`, `local_timestamp`: ISO 8601 or SQL text, with and without zone; a zone in the
latter is UTC and says nothing. `date_text`: the same for dates, which may end in `Z`. `zoneless_timestamp`: SQL text
of a moment that leaves out its zone, which is the format's. `…_of_day`: a time of day as a count since midnight, kept
as the text `HH:MM:SS.ffffff`. `base64`: bytes. `latin1`: bytes, each as the character of its number. `base64_decimal`:
the unscaled big-endian integer of a decimal whose scale the type has. `decimal_text`: all digits of a decimal, or
`NAN`, `POSITIVE_INFINITY`, `NEGATIVE_INFINITY`, which are kept as PostgreSQL shows them. `interval`: ISO 8601 with a
binary fraction of seconds, kept to the microsecond. `variable_decimal`: an object `{"scale": …, "value": …}`, kept as
text. `array`: a JSON array, whose elements are written as the column's `element` says. `zero_one`: a boolean as 0 or
1. `enum_index`: the number of one of the column's labels, 1 for the first, and 0 for the empty text. `set_bits`: a
number whose lowest bit stands for the first of the column's labels. `set_array`: a JSON array of labels. Both sets are
kept as their labels with commas between, as MySQL shows them.
"""

Change = Literal["insert", "read", "update", "delete", "truncate", "ignored"]
"""What an event says: `read` is a row of a snapshot, an `ignored` event (a message, a marker) says nothing of rows."""

TimeUnit = Literal["seconds", "millis", "micros", "text"]
"""How a format writes the time of a change: as a count since 1970-01-01, UTC, or as ISO 8601 text with a zone."""

Path = tuple[str, ...]
"""Names of nested fields, outermost first."""


@dataclass(frozen=True)
class OlderRows:
    """Value of rows that are older than a column, of which a source sends no events when it adds a column.

    `value` is a text that Spark casts to the column's type, None for null. Unless it `is_known`, the source has to be
    read again.
    """

    is_known: bool
    value: str | None = None


NULL_IN_OLDER_ROWS, UNKNOWN_IN_OLDER_ROWS = OlderRows(True), OlderRows(False)


@dataclass(frozen=True)
class SourceColumn:
    """A column of a table in a source: its name, the Spark type that the arctic table keeps, and its encoding.

    `labels` are those of `enum_index` and `set_bits`. Bytes shorter than `padded_to` get zero bytes at their end:
    MySQL's binlog cuts them off the values of a column of that width. `element` is how an `array` writes its elements.
    `number` is the column's in the source, which stays where it is renamed; None if the source has none, or it is
    not known. `older_rows` is None for sources that can't be asked.
    """

    name: str
    type: str
    encoding: Encoding = "plain"
    labels: tuple[str, ...] = ()
    padded_to: int | None = None
    element: Encoding = "plain"
    number: int | None = None
    older_rows: OlderRows | None = None


@dataclass(frozen=True)
class SourceSchema:
    """The columns of a table in a source, and the names of those in its primary key; none for a table without one.

    Where `is_key_chosen`, the key is not the source's own, so that it does not say by itself that an update changed it.
    """

    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...] = ()
    is_key_chosen: bool = False


@dataclass(frozen=True)
class EventFormat:
    """Description of an event format's JSON; paths lead from the top of an event's JSON.

    `row` leads to the row after the change, and for a delete to the deleted row where `before` is None or
    `is_row_of_delete`; `before` to the row before, which has only the columns that changed where `is_before_partial`
    (a column that is absent there has not changed, one that is null there was null). Where `rows_are_lists`, both paths
    lead to lists of rows, one for each row that the event changed, in the order of the changes. An insert, update or
    delete without a row is a dead letter. `changes` maps the text at `operation` to what it means; any other text makes
    an event a dead letter. Where `operation` is None, every event is an update. A null or absent row before means that
    the source does not send it. `time` leads to when the change happened, in `time_unit`. `order` are paths whose
    values, left to right, order the events of a table; numbers are compared as numbers. Where there are none, the
    order is that of arrival. `table` leads to the name of the table, `namespace` to that of its database or schema.
    `transaction` leads to the id of the source's transaction, and `log_place` to the place of the change in its log,
    which both events of a row that got another primary key have. `unavailable` is the text or JSON in the place of
    a value that the source did not send, since the change did not touch it. `schema` leads to the parts of an event
    that tell the table's schema: events whose parts are equal have one schema, and those without any tell none. `zone`
    is that of each `zoneless_timestamp`. Where it `has_tombstones`, a message without a value repeats that a row was
    deleted, for brokers that keep the newest message of a key alone.
    """

    name: str
    row: Path
    before: Path | None
    operation: Path | None
    changes: Mapping[str, Change]
    time: Path | None = None
    time_unit: TimeUnit = "millis"
    table: Path | None = None
    namespace: Path | None = None
    order: tuple[Path, ...] = ()
    transaction: Path | None = None
    log_place: Path | None = None
    schema: tuple[Path, ...] = ()
    rows_are_lists: bool = False
    is_before_partial: bool = False
    is_row_of_delete: bool = False
    unavailable: tuple[str, ...] = field(default=())
    zone: str = "UTC"
    has_tombstones: bool = False


Declared = Mapping[str, str]
"""What a user says of a table's columns: name to type, in the words of the format."""


@dataclass(frozen=True)
class Format:
    """A format with its options applied: how its events are read, and the source of their tables' schemas.

    `declare` makes a schema from the columns and the key that a user declares. `tell` reads it from the JSON of one
    event and of its key; it returns None if that event doesn't tell, and if a column is declared too, its
    declaration counts. `tell` is None for a format whose events never tell. Both raise ConfigError that names the
    column if its values can't be read exactly.
    """

    events: EventFormat
    declare: Callable[[Declared, Sequence[str]], SourceSchema]
    tell: Callable[[str, str | None, Declared], SourceSchema | None] | None = None


def nest_in_envelope(events: EventFormat, envelope: str) -> EventFormat:
    """The same events in a field of a larger object, as `payload` of messages that carry their schema.

    `schema` stays as it is, since such messages tell it beside that field.
    """

    def prefix_path(path: Path | None) -> Path | None:
        return None if path is None else (envelope, *path)

    return replace(
        events,
        row=(envelope, *events.row),
        before=prefix_path(events.before),
        operation=prefix_path(events.operation),
        time=prefix_path(events.time),
        table=prefix_path(events.table),
        namespace=prefix_path(events.namespace),
        order=tuple((envelope, *path) for path in events.order),
        transaction=prefix_path(events.transaction),
        log_place=prefix_path(events.log_place),
    )
