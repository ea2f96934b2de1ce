"""Describes formats of change events: paths to the changed row and the operation in JSON, and encodings of values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from arctic_runtime.errors import ConfigError

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
"""The way in which JSON writes a value.

`plain`: as text or number that Spark casts. `json`: as any JSON, which is kept as its text. `epoch_…`: a count since
1970-01-01, UTC. `zoned_timestamp`: ISO 8601 or SQL text with a zone. `local_timestamp`: the same without a zone; a zone
in the text is always UTC and is ignored. `date_text`: the same for dates, which may end in `Z`. `zoneless_timestamp`:
SQL text of a moment without its zone, which is the `zone` of the format. `…_of_day`: a time of day as a count since
midnight, kept as the text `HH:MM:SS.ffffff`. `base64`: bytes. `latin1`: bytes, each as the ISO 8859-1 character of its
number. `base64_decimal`: the unscaled big-endian integer of a decimal, whose scale is that of the type. `decimal_text`:
all digits of a decimal, or `NAN`, `POSITIVE_INFINITY`, `NEGATIVE_INFINITY`, which are kept as PostgreSQL shows them.
`interval`: ISO 8601 with a binary fraction of seconds, kept to the microsecond. `variable_decimal`: an object
`{"scale": …, "value": …}`, kept as text. `array`: a JSON array, whose elements have the column's encoding `element`.
`zero_one`: a boolean as 0 or 1. `enum_index`: the number of one of the column's labels, 1 for the first, and 0 for the
empty text. `set_bits`: a number whose lowest bit stands for the first of the column's labels. `set_array`: a JSON array
of labels. Sets of both encodings are kept as their labels with commas between, as MySQL shows them.
"""

Change = Literal["insert", "read", "update", "delete", "truncate", "ignored"]
"""The kind of an event: `read` is a row of a snapshot; an `ignored` event, such as DDL or a marker, changes no rows."""

TimeUnit = Literal["seconds", "millis", "micros", "text"]
"""The encoding of the time of a change: a count since 1970-01-01, UTC, or (`text`) ISO 8601 text with a zone."""

Path = tuple[str, ...]
"""Names of nested JSON fields, outermost first."""


@dataclass(frozen=True)
class OlderRows:
    """The value that an added column has in rows which existed before it; the source sends no events for these rows.

    `value` is a text that Spark casts to the column's type, None for null. Bytes are hexadecimal, and an array is JSON
    with such a text for each element. If `is_known` is False, the value is not known, `reason` says why, and the source
    has to be read again.
    """

    is_known: bool
    value: str | None = None
    reason: str = ""


NULL_IN_OLDER_ROWS = OlderRows(True)


def build_unknown_value(reason: str) -> OlderRows:
    """Builds the OlderRows of a column whose value in older rows is not known; `reason` is a clause for people."""
    return OlderRows(False, reason=reason)


UNKNOWN_IN_OLDER_ROWS = build_unknown_value("the source does not say which of its columns this is")


@dataclass(frozen=True)
class SourceColumn:
    """A column of a table in a source: its name, its Spark type in the arctic table, and its encoding in events.

    `labels` are those of `enum_index` and `set_bits`. Bytes shorter than `padded_to` get zero bytes at their end:
    MySQL's binlog leaves these out of the values of a column with a fixed width. `element` is the encoding of an
    array's elements. `number` is the number of the column in the source, which a rename does not change; None if the
    source has none, or if it is not known. `older_rows` is None for sources from which that value can't be queried.
    `name_in_events` is None for a column that is not renamed: then events have it under its `name`.
    """

    name: str
    type: str
    encoding: Encoding = "plain"
    labels: tuple[str, ...] = ()
    padded_to: int | None = None
    element: Encoding = "plain"
    number: int | None = None
    older_rows: OlderRows | None = None
    name_in_events: str | None = None

    @property
    def event_name(self) -> str:
        """The column's name in events."""
        return self.name if self.name_in_events is None else self.name_in_events


@dataclass(frozen=True)
class CatalogColumn:
    """A column that a table has in the source's catalog now; one that `is_dropped` was part of the table before."""

    number: int
    older_rows: OlderRows
    is_dropped: bool = False


@dataclass(frozen=True)
class NumberedColumns:
    """The columns of events, with the numbers that the source's server could tell.

    `catalog` are all columns of the table, in their order; empty if events may lack some of them, or if the server
    keeps no dropped columns. `table_id` identifies the table, so that it is another one if it was dropped and made
    again under its name; None if the server does not number tables.
    """

    columns: tuple[SourceColumn, ...]
    catalog: tuple[CatalogColumn, ...] = ()
    table_id: str | None = None


@dataclass(frozen=True)
class SourceSchema:
    """The columns of a table in a source, and the names of its primary key's columns; `key` is empty if it has none.

    If `is_key_chosen`, the user chose a key that is not the source's own, so the source does not mark updates that
    change the key. `catalog` and `table_id` are those of NumberedColumns. Raises ConfigError for a name that no table
    can store.
    """

    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...] = ()
    is_key_chosen: bool = False
    catalog: tuple[CatalogColumn, ...] = field(default=(), compare=False)
    table_id: str | None = None

    def __post_init__(self) -> None:
        for name in (*(column.name for column in self.columns), *self.key):
            _check_column_name(name)

    def rename_columns(self, names: Mapping[str, str]) -> SourceSchema:
        """Returns the schema with the names that columns have in the arctic table.

        `names` maps names in events to them; columns that it lacks keep their name. An earlier renaming is replaced.
        """
        columns = tuple(_rename_column(column, names) for column in self.columns)
        renamed = {old.name: new.name for old, new in zip(self.columns, columns, strict=True)}
        return replace(self, columns=columns, key=tuple(renamed.get(name, name) for name in self.key))


def _rename_column(column: SourceColumn, names: Mapping[str, str]) -> SourceColumn:
    own = column.event_name
    name = names.get(own, own)
    return replace(column, name=name, name_in_events=None if name == own else own)


@dataclass(frozen=True)
class EventFormat:
    """Describes the JSON of an event format; all paths lead from the top of an event's JSON.

    `row` leads to the row after the change. For a delete it leads to the deleted row if `before` is None or if
    `is_row_of_delete`. `before` leads to the row before the change; if it is null or absent, the source does not send
    that row. If `is_before_partial`, the row before has only the columns that changed: a column that is absent has not
    changed, and one that is null was null. If `rows_are_lists`, both paths lead to lists of rows, one for each row that
    the event changed, in the order of the changes. An insert, update or delete without a row is a dead letter.

    `operation` leads to a text that `changes` maps to a `Change`; an event with any other text is a dead letter. If
    `operation` is None, every event is an update.

    `time` leads to the time of the change, in `time_unit`. `order` are paths whose values, compared left to right,
    order the events of a table; numbers are compared as numbers. Without such paths, events are ordered by arrival.
    `table` leads to the name of the table, `namespace` to that of its database or schema.

    `transaction` leads to the id of the source's transaction, and `log_position` to the position of the change in the
    source's log. Both are the same in the two events by which a source reports an update of a primary key.
    `unavailable` are the texts or JSON that stand for a value which the source did not send, since the change did not
    touch it. `schema` leads to the parts of an event that describe the table's schema: events with equal parts have the
    same schema; events without any of the parts contain no schema. `zone` is the time zone of each
    `zoneless_timestamp`. If `has_tombstones`, a message without a value only repeats that a row was deleted, for
    brokers that keep only the newest message of a key. `proof` leads to a value that every event has which could be
    decoded to JSON; an event without it is a dead letter.
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
    log_position: Path | None = None
    schema: tuple[Path, ...] = ()
    rows_are_lists: bool = False
    is_before_partial: bool = False
    is_row_of_delete: bool = False
    unavailable: tuple[str, ...] = field(default=())
    zone: str = "UTC"
    has_tombstones: bool = False
    proof: Path | None = None


Declared = Mapping[str, str]
"""The columns of a table as a user declares them: name to type, in the syntax of the format."""


@dataclass(frozen=True)
class Format:
    """A format with the user's options: the description of its events, and functions that determine schemas of tables.

    `declare` builds a schema from the columns and the primary key that a user declares. `read_event_schema` reads a
    schema from the JSON of an event and of its key, and takes declared columns, which replace those of the event; it
    returns None if the event contains no schema. `read_event_schema` is None for a format whose events never contain a
    schema. Both functions raise ConfigError if the values of a column can't be read exactly; the error names the
    column.
    """

    events: EventFormat
    declare: Callable[[Declared, Sequence[str]], SourceSchema]
    read_event_schema: Callable[[str, str | None, Declared], SourceSchema | None] | None = None


def read_event_object(text: str | None) -> Mapping[str, Any]:
    """Parses the JSON of an event or a key; empty for a text that is no JSON object, which has no schema."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, Mapping) else {}


def build_malformed_error(table: str, what: str) -> ConfigError:
    """Builds the error for an event whose schema is not built as the format says; `what` names the wrong part."""
    return ConfigError(
        f"table {table}: the schema in an event can't be read.",
        actual=what,
        fix="see which program writes these events; `columns` of the dbt source declare a schema in its place",
    )


def _check_column_name(name: str) -> None:
    try:
        is_storable = bool(name.encode())
    except (AttributeError, UnicodeEncodeError):
        is_storable = False
    if not is_storable:
        raise ConfigError(
            f"{name!r} can't be the name of a column.",
            expected="a text of at least one character",
            fix="rename the column at the source, or exclude it",
        )


def nest_in_envelope(events: EventFormat, envelope: str) -> EventFormat:
    """Returns the format of the same events in the field `envelope` of a larger object, such as `payload`.

    `schema` stays as it is, since such messages have their schema beside that field.
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
        log_position=prefix_path(events.log_position),
    )
