"""Debezium's change events in JSON, as its engine and its connectors for Kafka Connect write them.

Source: the documentation of Debezium's connectors, "change event values", version 3.6.
"""

from __future__ import annotations

from functools import partial

from arctic_runtime.ingest.formats.declared import AS_TEXT, declared_schema
from arctic_runtime.ingest.formats.event_format import EventFormat, Format, inside

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a value out of line (TOAST) that an update did not touch; in base64 for columns of bytes."""

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
    unavailable=(UNAVAILABLE, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
)

ENCODINGS = {
    **{family: encoding for family, encoding in AS_TEXT.items() if family != "timestamp_ntz"},
    "date": "epoch_days",
    "decimal": "base64_decimal",
}
"""The encodings of declared columns with Debezium's default settings. That of a timestamp without zone depends on its
precision, so it has to be declared."""


def debezium(with_schema: bool = False) -> Format:
    """Debezium's format; `with_schema` where each event is an object of `schema` and `payload`."""
    return Format(
        events=inside(DEBEZIUM, "payload") if with_schema else DEBEZIUM,
        declare=partial(declared_schema, encodings=ENCODINGS),
    )
