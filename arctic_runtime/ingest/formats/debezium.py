"""Debezium's change events in JSON, as its engine and its connectors for Kafka Connect write them.

Source: the documentation of Debezium's connectors, "change event values", version 3.6.
"""

from __future__ import annotations

import json
from base64 import b64encode
from functools import partial

from arctic_runtime.ingest.formats.declared import AS_TEXT, declared_schema
from arctic_runtime.ingest.formats.event_format import EventFormat, Format, inside

UNAVAILABLE = "__debezium_unavailable_value"
"""What Debezium writes for a value out of line (TOAST) that an update did not touch, in a form for each type."""

_UNAVAILABLE_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""The same as a name-based UUID, version 3 without a namespace."""


def _unavailable() -> tuple[str, ...]:
    """UNAVAILABLE as columns of each kind have it: texts, bytes, hstore, and lists of texts, bytes, numbers, uuids."""
    raw = UNAVAILABLE.encode()
    base64 = b64encode(raw).decode()
    texts = (UNAVAILABLE, base64, _compact({UNAVAILABLE: UNAVAILABLE}))
    return (*texts, *(_compact(of) for of in ([UNAVAILABLE], [base64], list(raw), [_UNAVAILABLE_UUID])))


def _compact(of: object) -> str:
    return json.dumps(of, separators=(",", ":"))


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
    unavailable=_unavailable(),
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
