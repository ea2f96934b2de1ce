"""Columns that a source renames, adds, drops or makes anew are told apart, or ingestion ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import (
    NULL_IN_OLDER_ROWS,
    CatalogColumn,
    OlderRows,
    SourceColumn,
    SourceSchema,
    build_unknown_value,
)
from arctic_runtime.ingest.writing.source_columns import (
    ColumnChange,
    FollowedTable,
    RecreatedTable,
    check_table_id,
    choose_column_numbers,
    decode_numbers,
    encode_numbers,
    find_column_change,
)
from arctic_runtime.model.names import TableName

TABLE = FollowedTable(TableName("lake", "shop", "orders"), "public.t")
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
    assert find_column_change(KNOWN, new, TABLE) == expected


DIFFERING = build_unknown_value("its default differs from row to row")


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (schema(id=1, a=4, b=3), "column a is not the column that had this name before"),
        (schema(id=1, x=None, b=3), "column x can't be identified: the source renamed or dropped it"),
        (schema(id=1, b=3, x=2, a=4), "column a is not the column that had this name before"),
        (schema(id=1, x=0, b=3), "column x is not the column"),
        (
            added("x", 4, DIFFERING, **KNOWN),
            "column x was added, and its value in older rows is not known: its default differs from row to row",
        ),
    ],
    ids=[
        "made anew",
        "renamed again since",
        "its name given to another",
        "older than others",
        "unknown default",
    ],
)
def test_what_numbers_do_not_tell_ends_ingestion_with_the_column_and_advice(new: SourceSchema, expected: str) -> None:
    with pytest.raises(SourceError) as raised:
        find_column_change(KNOWN, new, TABLE)
    assert raised.value.message.startswith(f"lake.shop.orders, from public.t: {expected}")
    assert "`arctic resync orders`" in str(raised.value.fix)


def catalog(*numbers: int, dropped: int = 0) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(number, FIVE, is_dropped=number == dropped) for number in numbers)


LACKING = schema(id=1, b=3, x=None)


@pytest.mark.parametrize(
    ("known", "table", "expected"),
    [
        ({"id": 1, "b": 3}, catalog(1, 2, 3, 4, dropped=2), ColumnChange({}, {"x": FIVE})),
        ({"id": 1, "b": 3}, catalog(1, 2, 3, 4, 5, dropped=2), ColumnChange({}, {"x": FIVE})),
        ({"id": 1, "b": 3, "c": 4}, catalog(1, 2, 3, 4, dropped=2), ColumnChange({"x": "c"})),
    ],
    ids=["added and renamed", "another one was added since", "renamed twice"],
)
def test_a_column_without_a_number_is_found_by_its_place_among_the_columns_that_were_there(
    known: dict[str, int | None], table: tuple[CatalogColumn, ...], expected: ColumnChange
) -> None:
    assert find_column_change(known, replace(LACKING, catalog=table), TABLE) == expected


@pytest.mark.parametrize(
    ("known", "table"),
    [
        ({"id": 1, "a": 2, "b": 3}, catalog(1, 2, 3, 4, dropped=2)),
        ({"id": 1, "b": 3}, catalog(1, 2, 3, 4, 5, dropped=4)),
        ({"id": 1, "b": 3}, catalog(1, 2, 3, dropped=2)),
        ({"id": 1, "b": 3, "c": 4, "d": 5}, catalog(1, 2, 3, 4, 5, dropped=2)),
    ],
    ids=["dropped since", "added and dropped since", "too few now", "too few in the events"],
)
def test_no_place_is_taken_for_a_column_where_another_was_dropped_since(
    known: dict[str, int | None], table: tuple[CatalogColumn, ...]
) -> None:
    with pytest.raises(SourceError, match="column x can't be identified"):
        find_column_change(known, replace(LACKING, catalog=table), TABLE)


def test_a_column_that_was_found_by_its_place_is_kept_with_its_number() -> None:
    found = choose_column_numbers({"id": 1, "b": 3}, replace(LACKING, catalog=catalog(1, 2, 3, 4, dropped=2)))
    assert found == {"id": 1, "b": 3, "x": 4}


@pytest.mark.parametrize("new", [schema(id=4, a=5, b=6), schema(id=4, x=5)])
def test_a_table_with_none_of_its_columns_was_made_again(new: SourceSchema) -> None:
    with pytest.raises(RecreatedTable, match="it was dropped and made again in the source") as raised:
        find_column_change(KNOWN, new, TABLE)
    assert raised.value.fix == "wait until ingestion has loaded it again, which begins within about a minute"


def test_a_table_with_another_number_was_made_again_though_its_columns_are_the_same() -> None:
    made_again = replace(schema(id=1, a=2), table_id="7")
    with pytest.raises(RecreatedTable, match="it was dropped and made again in the source"):
        check_table_id("6", made_again, TABLE)
    for known in ("7", None):
        check_table_id(known, made_again, TABLE)
    check_table_id("6", schema(id=1, a=2), TABLE)


def test_a_table_of_which_a_column_stays_was_not_made_again() -> None:
    find_column_change({"id": None, "a": 2}, schema(id=1), TABLE)


def test_without_numbers_a_column_that_takes_the_place_of_another_is_unclear() -> None:
    known = {"id": None, "a": None}
    assert find_column_change(known, schema(id=None), TABLE) == ColumnChange()
    assert find_column_change(known, schema(id=None, A=None, x=None), TABLE) == ColumnChange({}, {"x": NULL})
    with pytest.raises(SourceError, match="a became x, or was dropped, and the source does not say which"):
        find_column_change(known, schema(id=None, x=None), TABLE)


def test_sources_that_can_not_be_asked_keep_nothing_and_change_nothing() -> None:
    plain = SourceSchema((SourceColumn("id", "int"), SourceColumn("x", "int")))
    assert find_column_change(KNOWN, plain, TABLE) == ColumnChange()
    assert choose_column_numbers(None, plain) is None


def test_what_is_kept_are_the_numbers_of_the_newest_definition() -> None:
    assert choose_column_numbers(KNOWN, schema(id=1, x=2)) == {"id": 1, "x": 2}
    assert choose_column_numbers(KNOWN, schema(id=1, a=None, b=3)) == KNOWN
    assert decode_numbers(encode_numbers(KNOWN)) == KNOWN
    assert decode_numbers(None) is None
