"""Debezium's change events in JSON, as its engine and its connectors for Kafka Connect write them.

Source: the documentation of Debezium's connectors, "change event values", version 3.6.
"""

from __future__ import annotations

from arctic_runtime.ingest.formats.event_format import EventFormat

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
