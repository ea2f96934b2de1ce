"""Columns of events are told from others by the newest definition of their table, whatever names it has by now."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.formats.event_format import SourceColumn
from arctic_runtime.ingest.transports.debezium.servers.postgresql import match_columns

Row = tuple[str | None, ...]


def table(*names: str, generated: str = "", listed: bool = False, kind: str = "text") -> list[Row]:
    """The columns of a table in the order of their numbers; one without a name was dropped.

    Each is of a domain over `kind`, or of this type itself.
    """
    flag = {True: "t", False: "f"}
    return [
        (
            str(number),
            name,
            "f",
            None,
            "f",
            "text",
            "b",
            flag[not name],
            flag[bool(name) and name == generated],
            flag[listed],
            kind,
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
def test_numbers_follow_places_or_names(events: str, now: list[Row], expected: list[int | None]) -> None:
    columns = [SourceColumn(name, "string") for name in events.split()]
    assert [column.number for column in match_columns(columns, now, is_chosen=False)] == expected


@pytest.mark.parametrize(("kind", "encoding"), [("numeric", "decimal_text"), ("text", "plain")])
def test_decimals_of_a_domain_are_distinguished_from_texts(kind: str, encoding: str) -> None:
    (column,) = match_columns([SourceColumn("id", "string")], table("id", kind=kind), is_chosen=False)
    assert column.encoding == encoding
