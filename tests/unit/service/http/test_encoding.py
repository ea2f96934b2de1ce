"""JSON of what a service shows, and its schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from arctic_runtime.model.names import TableName
from arctic_runtime.service.http.encoding import build_schemas, encode_json, to_plain
from arctic_runtime.service.view.live_data import Job, ServiceState, TableOverview, Upkeep

TABLE = TableName("lake", "dwd", "flights")
TEXT = "lake.dwd.flights"
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, timezone(timedelta(hours=2)))


@dataclass(frozen=True)
class Inner:
    """Something inside."""

    table: TableName
    at: datetime | None = None


@dataclass(frozen=True)
class Outer:
    """Something outside. It has more.

    And details.
    """

    inner: tuple[Inner, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    any_value: Any = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (TABLE, TEXT),
        (asdict(Inner(TABLE)), {"table": TEXT, "at": None}),
        (AT, "2026-01-02T01:04:05.678Z"),
        (AT.replace(tzinfo=None), "2026-01-02T03:04:05.678Z"),
        (date(2026, 1, 2), "2026-01-02"),
        (Decimal("1.10"), "1.10"),
        (float("nan"), None),
        (float("inf"), None),
        (2**63, 2**63),
        (b"\x00\xff", "00ff"),
        ({1: {"a"}}, {"1": ["a"]}),
        (
            Outer((Inner(TABLE),), {"a": 1}),
            {"inner": [{"table": TEXT, "at": None}], "counts": {"a": 1}, "any_value": None},
        ),
    ],
)
def test_values_have_one_form(value: Any, expected: Any) -> None:
    assert to_plain(value) == expected
    assert json.loads(encode_json(value)) == expected


def test_json_is_ascii_and_holds_any_text() -> None:
    for text in ("\u2028", "\ud800", "</script>", "表\x00"):
        assert json.loads(encode_json(text).decode("ascii")) == text


def test_a_schema_names_every_field_and_where_null_can_be() -> None:
    schemas = build_schemas([Outer])
    assert schemas["Outer"]["required"] == ["inner", "counts", "any_value"]
    assert schemas["Outer"]["description"] == "Something outside. It has more."
    assert schemas["Outer"]["properties"]["inner"] == {"type": "array", "items": {"$ref": "#/components/schemas/Inner"}}
    assert schemas["Outer"]["properties"]["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert schemas["Inner"]["properties"]["at"]["anyOf"][1] == {"type": "null"}


def test_everything_that_a_service_shows_has_a_schema() -> None:
    schemas = build_schemas([Job, ServiceState, TableOverview, Upkeep])
    assert {"IngestionState", "Lag"} < schemas.keys()
    assert schemas["TableOverview"]["properties"]["state"]["enum"][0] == "fresh"
