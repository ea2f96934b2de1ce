"""Columns of events are told from others by the newest definition of their table, whatever names it has by now."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows, SourceColumn
from arctic_runtime.ingest.transports.debezium.servers.postgresql_tables import (
    TableColumn,
    number_columns,
    read_columns,
)


def table(*names: str, generated: str = "", listed: bool = False, kind: str = "text") -> list[TableColumn]:
    """The columns of a table in the order of their numbers; one without a name was dropped."""
    return [
        TableColumn(
            number,
            name,
            kind,
            is_dropped=not name,
            is_generated=bool(name) and name == generated,
            is_listed=listed,
        )
        for number, name in enumerate(names, 1)
    ]


@pytest.mark.parametrize(
    ("events", "now", "expected"),
    [
        ("id a", table("id", "a", "b"), [1, 2]),
        ("id a b", table("id", "x", "y"), [1, 2, 3]),
        ("id a b", table("id", "b", "a"), [1, 2, 3]),
        ("id a b", table("id", "x", "a", "b"), [1, 2, 3]),
        ("id a b", table("id", "x", ""), [1, 2, 3]),
        ("id b", table("id", "", "b"), [1, 3]),
        ("id a", table("id", "", "x", "a"), [1, None]),
        ("id b", table("id", "a", "b", generated="a"), [1, 3]),
        ("id b", table("id", "a", "b", listed=True), [1, 3]),
    ],
    ids=[
        "as now",
        "renamed since",
        "swapped since",
        "a name given on",
        "dropped since",
        "dropped before",
        "dropped and renamed",
        "generated",
        "column list",
    ],
)
def test_numbers_follow_places_or_names(events: str, now: list[TableColumn], expected: list[int | None]) -> None:
    columns = [SourceColumn(name, "string") for name in events.split()]
    numbered = number_columns(columns, now, is_chosen=False)
    assert [column.number for column in numbered.columns] == expected


@pytest.mark.parametrize(("kind", "encoding"), [("numeric", "decimal_text"), ("text", "plain")])
def test_decimals_of_a_domain_are_distinguished_from_texts(kind: str, encoding: str) -> None:
    (column,) = number_columns([SourceColumn("id", "string")], table("id", kind=kind), is_chosen=False).columns
    assert column.encoding == encoding


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({}, NULL_IN_OLDER_ROWS),
        ({"has_default": True, "has_value": True, "value": "it's"}, OlderRows(True, "it's")),
        ({"kind": "bit", "has_value": True, "value": "000000000001"}, OlderRows(True, "0100")),
        ({"kind": "bit", "has_value": True, "value": "1"}, OlderRows(True, "1")),
        ({"kind": "mood", "is_enum": True, "has_value": True, "value": "happy"}, OlderRows(True, "happy")),
        ({"kind": "int4", "is_array": True, "has_value": True, "value": "[]"}, OlderRows(True, "[]")),
        (
            {"kind": "numeric", "is_array": True, "has_value": True, "value": "[1.50, null]"},
            OlderRows(True, '["1.50", null]'),
        ),
        ({"kind": "bool", "is_array": True, "has_value": True, "value": "[true]"}, OlderRows(True, '["true"]')),
        ({"kind": "bytea", "is_array": True, "has_value": True, "value": '["\\\\x00ff"]'}, OlderRows(True, '["00ff"]')),
    ],
)
def test_older_rows_have_the_value_that_the_catalog_keeps(column: dict[str, Any], expected: OlderRows) -> None:
    (numbered,) = number_columns([SourceColumn("a", "string")], [TableColumn(1, "a", **column)], False).columns
    assert numbered.older_rows == expected


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"has_default": True}, "differs from row to row"),
        ({"kind": "hstore", "has_value": True, "value": '"a"=>"b"'}, "a value of its type hstore"),
        ({"kind": "int4", "is_array": True, "has_value": True, "value": "[[1]]"}, "a value of its type int4"),
    ],
)
def test_a_value_that_older_rows_may_not_have_is_unknown_for_a_reason(column: dict[str, Any], reason: str) -> None:
    (numbered,) = number_columns([SourceColumn("a", "string")], [TableColumn(1, "a", **column)], False).columns
    assert numbered.older_rows is not None
    assert not numbered.older_rows.is_known
    assert reason in numbered.older_rows.reason


def test_rows_of_the_catalog_are_read_by_their_places() -> None:
    row = ("3", "a", "f", "f", "t", "t", "t", "[1]", "int4", "b", "t", "16384")
    read = TableColumn(
        3, "a", "int4", False, False, True, True, True, "[1]", is_enum=False, is_array=True, table_id="16384"
    )
    assert read_columns([row]) == [read]
    for is_chosen in (True, False):
        assert number_columns([SourceColumn("a", "string")], [read], is_chosen).table_id == "16384"
