"""Debezium's change events in JSON, as its engine and its connectors for Kafka Connect write them.

Source: the documentation of Debezium's connectors, "change event values", version 3.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from arctic_runtime.ingest.formats.connect_schema import build_source_schema
from arctic_runtime.ingest.formats.declared import AS_TEXT, build_declared_column, build_declared_schema
from arctic_runtime.ingest.formats.event_format import (
    Declared,
    EventFormat,
    Format,
    SourceSchema,
    nest_in_envelope,
    read_event_object,
)
from arctic_runtime.model.sources.unavailable import list_marker_texts

UNAVAILABLE = "__debezium_unavailable_value"
"""Placeholder that Debezium writes for a large PostgreSQL value (TOAST) that an update did not change.

It is encoded differently for each type.
"""


DEBEZIUM = EventFormat(
    name="debezium",
    row=("after",),
    before=("before",),
    operation=("op",),
    changes={
        "c": "insert",
        "r": "read",
        "u": "update",
        "d": "delete",
        "t": "truncate",
        "m": "ignored",
    },
    time=("source", "ts_us"),
    time_unit="micros",
    table=("source", "table"),
    transaction=("transaction", "id"),
    log_position=("source", "lsn"),
    unavailable=list_marker_texts(UNAVAILABLE),
    has_tombstones=True,
)

ENCODINGS = {
    **{family: encoding for family, encoding in AS_TEXT.items() if family != "timestamp_ntz"},
    "date": "epoch_days",
    "decimal": "base64_decimal",
}
"""The encoding of declared columns by type family, with Debezium's default settings.

It has no entry for timestamps without zone: their encoding depends on the precision, so the user has to declare it.
"""


def build_debezium_format(with_schema: bool = False) -> Format:
    """Builds Debezium's format; with `with_schema` each event is an object of the fields `schema` and `payload`."""
    declare = partial(build_declared_schema, encodings=ENCODINGS)
    if not with_schema:
        return Format(events=DEBEZIUM, declare=declare)
    return Format(
        events=replace(nest_in_envelope(DEBEZIUM, "payload"), schema=(("schema",),)),
        declare=declare,
        read_event_schema=read_schema,
    )


def read_schema(event: str, key: str | None, declared: Declared) -> SourceSchema | None:
    """Reads the schema that Kafka Connect's JSON converter wrote into an event and its key; None if the event has none.

    Types in `declared`, by column name, replace those of the event.
    """
    message = read_event_object(event)
    schema = message.get("schema")
    if not isinstance(schema, Mapping):
        return None
    table = _find_table(message) or schema.get("name")
    chosen = {name: build_declared_column(name, text, ENCODINGS) for name, text in declared.items()}
    of_key = read_event_object(key).get("schema")
    return build_source_schema(str(table), schema, of_key, "base64_decimal", chosen)


def _find_table(message: Mapping[str, Any]) -> object:
    """Returns the name of an event's table, in its payload's source; None if the event does not have it."""
    part: object = message
    for name in ("payload", "source", "table"):
        part = part.get(name) if isinstance(part, Mapping) else None
    return part
