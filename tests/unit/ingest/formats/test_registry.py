"""Every format can be chosen by its name, and leads to the rows of the events that its tool writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.formats.event_format import Change, EventFormat, Path
from arctic_runtime.ingest.formats.registry import FORMATS, make_format

ROW, OLD = {"id": 1, "name": "new"}, {"id": 1, "name": "old"}
DEBEZIUM = {
    "before": OLD,
    "after": ROW,
    "op": "u",
    "source": {"table": "orders", "ts_us": 1_700_000_000_000_000},
    "transaction": {"id": "9"},
}
EVENTS: tuple[tuple[str, Mapping[str, Any], Mapping[str, Any]], ...] = (
    ("debezium", {}, DEBEZIUM),
    ("debezium", {"with_schema": True}, {"schema": {}, "payload": DEBEZIUM}),
    (
        "canal",
        {},
        {
            "data": [ROW],
            "old": [OLD],
            "type": "UPDATE",
            "table": "orders",
            "database": "shop",
            "es": 1_700_000_000_000,
            "gtid": "9",
        },
    ),
    (
        "maxwell",
        {},
        {
            "data": ROW,
            "old": OLD,
            "type": "update",
            "table": "orders",
            "database": "shop",
            "ts": 1_700_000_000,
            "xid": 9,
        },
    ),
    ("rows", {"operation": "op", "time": "at"}, {**ROW, "op": "upsert", "at": "2023-11-14T22:13:20Z"}),
    ("rows", {}, ROW),
)
events = pytest.mark.parametrize(("name", "options", "event"), EVENTS)


def follow(event: Any, path: Path | None) -> Any:
    for field in path or ():
        event = event[field]
    return event


@events
def test_paths_lead_to_the_parts_of_an_event(name: str, options: Mapping[str, Any], event: Mapping[str, Any]) -> None:
    read = make_format(name, options).events
    row = follow(event, read.row)
    assert (row[0] if read.rows_are_lists else row).items() >= ROW.items()
    if read.before:
        before = follow(event, read.before)
        assert (before[0] if read.rows_are_lists else before) == OLD
    if read.operation:
        assert read.changes[follow(event, read.operation)] == "update"
    if read.table:
        assert follow(event, read.table) == "orders"
    if read.namespace:
        assert follow(event, read.namespace) == "shop"
    if read.transaction:
        assert str(follow(event, read.transaction)) == "9"


@events
def test_times_are_in_the_unit_that_the_format_says(
    name: str, options: Mapping[str, Any], event: Mapping[str, Any]
) -> None:
    read = make_format(name, options).events
    if read.time:
        time = follow(event, read.time)
        per_second = {"seconds": 1, "millis": 1_000, "micros": 1_000_000}
        assert time == "2023-11-14T22:13:20Z" if read.time_unit == "text" else time / per_second[read.time_unit] == 17e8


def test_every_format_has_an_event_here() -> None:
    assert {name for name, _, _ in EVENTS} == set(FORMATS)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_changes_are_known_and_schemas_can_be_declared(name: str) -> None:
    made = make_format(name, {})
    assert set(made.events.changes.values()) <= set(get_args(Change))
    assert made.declare({"id": "int", "note": "string"}, ["id"]).key == ("id",)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_an_event_that_tells_nothing_has_no_schema(name: str) -> None:
    read_event_schema = make_format(name, {}).read_event_schema
    if read_event_schema is not None:
        assert read_event_schema(json.dumps({"type": "insert"}), None, {}) is None


@given(
    st.dictionaries(
        st.sampled_from(get_args(Change)), st.lists(st.text(min_size=1), min_size=1, unique=True), min_size=1
    )
)
def test_texts_of_the_operation_are_turned_to_changes_unless_one_has_two(texts: dict[str, list[str]]) -> None:
    options = {"operation": "op", "operations": texts}
    given_texts = [text for of_change in texts.values() for text in of_change]
    if len(set(given_texts)) < len(given_texts):
        with pytest.raises(ConfigError, match="two meanings"):
            make_format("rows", options)
    else:
        read: EventFormat = make_format("rows", options).events
        assert {change: [text for text in read.changes if read.changes[text] == change] for change in texts} == texts


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cannal", {}, "Unknown format: cannal .did you mean canal"),
        ("avro", {}, "Unknown format: avro .known: debezium, canal, maxwell, rows"),
        ("canal", {"zones": "UTC"}, "Unknown option of the format canal: zones .did you mean zone"),
        ("maxwell", {"zone": "UTC"}, "Unknown option of the format maxwell: zone .known: none"),
        ("canal", {"zone": "noon"}, "`zone` must be UTC, an offset"),
        ("debezium", {"with_schema": "yes"}, "`with_schema` must be true or false"),
        ("rows", {"operation": ""}, "`operation` must be a non-empty string"),
        ("rows", {"operation": "op", "operations": ["D"]}, "`operations` must map changes"),
        ("rows", {"operation": "op", "operations": {"deleted": "D"}}, "operations"),
        ("rows", {"operations": {"delete": "D"}}, "set `operation` to its name"),
        ("rows", {"time": "at", "time_unit": "days"}, "time_unit"),
        ("rows", {"order": [1]}, "`order` must be"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(name: str, options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_format(name, options)
