"""Canal's flat messages: one message has all rows that one statement or binlog event changed in a table.

Source: Canal's FlatMessage, MQMessageUtils, LogEventConvert and RowsLogBuffer (branch master, July 2026):

- `data` has the rows after an insert or update, or the deleted rows. `old` exists only for updates, and has the old
  values of the changed columns, with rows in the same order. Every value is text or null.
- `mysqlType` has the text of each column's type, `pkNames` the primary key. Both are null in messages of DDL.
- Bytes are the characters of ISO 8859-1, an enum is its index, a set the number of its bits, both as text.
- Timestamps have no zone: they are in the time zone of the Canal server's Java. Datetimes are as stored.
- Zero dates are `0000-00-00` and `0000-00-00 00:00:00`, which no type of Spark has: such rows are dead letters unless
  the column is declared as `string`.
- TRUNCATE TABLE is a message without rows. A message of a statement (`binlog_format` other than ROW) has no rows
  either, so it is a dead letter. Rows have all columns only with `binlog_row_image` FULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from arctic_runtime.ingest.formats.declared import build_source_schema
from arctic_runtime.ingest.formats.event_format import (
    Declared,
    EventFormat,
    Format,
    SourceSchema,
    build_malformed_error,
    read_event_object,
)
from arctic_runtime.ingest.formats.mysql_types import Rendering, build_mysql_column

_NO_ROWS = (
    "CREATE",
    "ALTER",
    "ERASE",
    "RENAME",
    "CINDEX",
    "DINDEX",
    "QUERY",
    "GTID",
    "XACOMMIT",
    "XAROLLBACK",
    "MHEARTBEAT",
)

CANAL = EventFormat(
    name="canal",
    row=("data",),
    before=("old",),
    operation=("type",),
    changes={
        "INSERT": "insert",
        "UPDATE": "update",
        "DELETE": "delete",
        "TRUNCATE": "truncate",
        **dict.fromkeys(_NO_ROWS, "ignored"),
    },
    time=("es",),
    time_unit="millis",
    table=("table",),
    namespace=("database",),
    transaction=("gtid",),
    schema=(("mysqlType",), ("pkNames",)),
    rows_are_lists=True,
    is_before_partial=True,
    is_row_of_delete=True,
)

RENDERING = Rendering(tool="Canal", bytes="latin1", enum="enum_index", set="set_bits", json="plain", timestamp=None)


def build_canal_format(zone: str | None = None) -> Format:
    """Builds Canal's format; `zone` is the time zone of the Canal server.

    Without `zone`, ConfigError is raised for columns of the type timestamp when a schema is built.
    """
    rendering = get_rendering(zone)
    return Format(
        events=CANAL if zone is None else replace(CANAL, zone=zone),
        declare=partial(declare_schema, rendering),
        read_event_schema=partial(read_schema, rendering),
    )


def get_rendering(zone: str | None) -> Rendering:
    return RENDERING if zone is None else replace(RENDERING, timestamp="zoneless_timestamp")


def declare_schema(rendering: Rendering, columns: Declared, key: Sequence[str]) -> SourceSchema:
    """Builds the schema of columns that the user declares by MySQL types.

    `rendering` has the rules by which Canal writes their values.
    """
    return build_source_schema((build_mysql_column(name, text, rendering) for name, text in columns.items()), key)


def read_schema(rendering: Rendering, event: str, key: str | None, declared: Declared) -> SourceSchema | None:
    """Reads the schema of a table from the JSON of one of its events; None for an event without rows.

    `key`, the event's key, is not used. Types in `declared`, by column name, replace those of the event.
    """
    message = read_event_object(event)
    types = message.get("mysqlType")
    if not isinstance(types, Mapping) or not types:
        return None
    key_names = message.get("pkNames") or []
    if not isinstance(key_names, list) or not all(isinstance(name, str) for name in key_names):
        raise build_malformed_error(str(message.get("table")), f"`pkNames` is {key_names!r}")
    texts = {name: declared.get(name, str(text or "")) for name, text in types.items()}
    return declare_schema(rendering, texts, key_names)
