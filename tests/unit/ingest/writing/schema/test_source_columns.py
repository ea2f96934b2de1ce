"""Columns that a source renames, adds, drops or makes anew are told apart, or ingestion ends."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import (
    NULL_IN_OLDER_ROWS,
    UNKNOWN_IN_OLDER_ROWS,
    OlderRows,
    SourceColumn,
    SourceSchema,
)
from arctic_runtime.ingest.writing.schema.source_columns import (
    ColumnChange,
    RecreatedTable,
    choose_column_numbers,
    decode_numbers,
    encode_numbers,
    find_column_change,
)

NULL, FIVE = NULL_IN_OLDER_ROWS, OlderRows(True, "5")


def schema(**columns: int | None) -> SourceSchema:
    return SourceSchema(
        tuple(SourceColumn(name, "int", number=column, older_rows=NULL) for name, column in columns.items())
    )


def added(name: str, number: int | None, older: OlderRows, **others: int | None) -> SourceSchema:
    return SourceSchema((*schema(**others).columns, SourceColumn(name, "int", number=number, older_rows=older)))


KNOWN = {"id": 1, "a": 2, "b": 3}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (schema(id=1, a=2, b=3), ColumnChange()),
        (schema(id=1, x=2, b=3), ColumnChange({"x": "a"})),
        (schema(id=1, b=2, a=3), ColumnChange({"b": "a", "a": "b"})),
        (schema(id=1, b=3), ColumnChange()),
        (schema(id=1, b=3, x=4), ColumnChange({}, {"x": NULL})),
        (added("x", 4, FIVE, id=1, y=2), ColumnChange({"y": "a"}, {"x": FIVE})),
        (schema(id=1, a=None, b=3), ColumnChange()),
    ],
    ids=["same", "renamed", "swapped", "dropped", "dropped and added", "renamed and added", "older than now"],
)
def test_numbers_tell_what_a_column_was(new: SourceSchema, expected: ColumnChange) -> None:
    assert find_column_change(KNOWN, new, "t") == expected


@pytest.mark.parametrize(
    "new",
    [
        schema(id=1, a=4, b=3),
        schema(id=1, x=None, b=3),
        schema(id=1, b=3, x=2, a=4),
        schema(id=1, x=0, b=3),
        added("x", 4, UNKNOWN_IN_OLDER_ROWS, **KNOWN),
    ],
    ids=["made anew", "renamed again since", "its name given to another", "older than others", "unknown default"],
)
def test_what_numbers_do_not_tell_ends_ingestion_with_advice(new: SourceSchema) -> None:
    with pytest.raises(SourceError, match="what to do: `arctic ingest --resync TABLE`"):
        find_column_change(KNOWN, new, "t")


def test_a_table_with_none_of_its_columns_was_created_again() -> None:
    with pytest.raises(RecreatedTable, match="dropped and created again"):
        find_column_change(KNOWN, schema(id=4, a=5, b=6), "t")
    find_column_change({"id": None, "a": 2}, schema(id=1), "t")


def test_without_numbers_a_column_that_takes_the_place_of_another_is_unclear() -> None:
    known = {"id": None, "a": None}
    assert find_column_change(known, schema(id=None), "t") == ColumnChange()
    assert find_column_change(known, schema(id=None, A=None, x=None), "t") == ColumnChange({}, {"x": NULL})
    with pytest.raises(SourceError, match="a became x, or was dropped, and the source does not say which"):
        find_column_change(known, schema(id=None, x=None), "t")


def test_sources_that_can_not_be_asked_keep_nothing_and_change_nothing() -> None:
    plain = SourceSchema((SourceColumn("id", "int"), SourceColumn("x", "int")))
    assert find_column_change(KNOWN, plain, "t") == ColumnChange()
    assert choose_column_numbers(None, plain) is None


def test_what_is_kept_are_the_numbers_of_the_newest_definition() -> None:
    assert choose_column_numbers(KNOWN, schema(id=1, x=2)) == {"id": 1, "x": 2}
    assert choose_column_numbers(KNOWN, schema(id=1, a=None, b=3)) == KNOWN
    assert decode_numbers(encode_numbers(KNOWN)) == KNOWN
    assert decode_numbers(None) is None
