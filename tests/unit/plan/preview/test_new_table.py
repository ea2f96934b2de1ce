"""Rows and bytes of a table that no run has made yet."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.frontend.analyse import Analysed, Relation, analyse_query
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.file_sizes import FileSizes
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Version
from arctic_runtime.plan.preview.amount import Amount
from arctic_runtime.plan.preview.new_table import estimate_new_row_bytes, estimate_new_rows
from arctic_runtime.plan.preview.table_sizes import TableSizes

FACTS, PLACES = TableName("lake", "ods", "facts"), TableName("lake", "ods", "places")
COLUMNS = {
    FACTS: (Column("id", "bigint"), Column("place", "bigint"), Column("note", "string")),
    PLACES: (Column("id", "bigint"), Column("name", "string")),
}
ROWS = {FACTS: 1_000, PLACES: 10}
SOURCES = {
    str(name): SourceState(name, "table", Version("uuid", 1, 1), (), columns, 3, rows=ROWS[name], key=("id",))
    for name, columns in COLUMNS.items()
}
SIZES = {
    str(FACTS): TableSizes(FileSizes(1_000, 1, 12_000, {"id": 2_000, "place": 500, "note": 9_500})),
    str(PLACES): TableSizes(FileSizes(10, 1, 60, {"id": 20, "name": 40})),
}


def analyse(sql: str) -> Analysed:
    relations = {str(name): Relation(columns, ("id",)) for name, columns in COLUMNS.items()}
    return analyse_query(sql, relations, {}, "lake", "ods")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("select id, upper(note) as note from facts", Amount(1_000, 1_000, 1_000)),
        ("select id from facts where place = 3", Amount(0, 1_000, 1_000)),
        ("select place, count(*) as n from facts group by place", Amount(0, 16, 1_000)),
        ("select place + 1 as next, count(*) as n from facts group by place + 1", Amount(0, 16, 1_000)),
        ("select id, max(note) as note from facts group by id", Amount(0, 1_000, 1_000)),
        (
            "select p.id, f.place, count(*) as n from facts f join places p on f.place = p.id group by p.id, f.place",
            Amount(0, 160, 1_000),
        ),
        ("select f.id, p.name from facts f join places p on f.place = p.id", Amount(0, 1_000, 1_000)),
        ("select f.id, explode(array(1, 2)) as n from facts f", Amount(0, 1_000, 1_000)),
        ("select count(*) as n from facts", Amount(0, 1, 1)),
    ],
)
def test_rows_are_at_most_those_that_pass_the_joins_and_groups_are_guessed_by_bits(sql: str, rows: Amount) -> None:
    assert estimate_new_rows(analyse(sql), SOURCES, SIZES) == rows


def test_a_query_that_is_not_analysed_has_the_rows_of_its_largest_source() -> None:
    assert estimate_new_rows(None, SOURCES, SIZES) == Amount(0, 1_000, 1_000)
    assert estimate_new_rows(None, {}, {}) == Amount()
    assert estimate_new_row_bytes(None, SOURCES, SIZES) == 12


def test_columns_of_sources_have_their_bytes_and_others_those_of_a_mean_value() -> None:
    query = analyse("select f.id, p.name, f.place + 1 as next from facts f join places p on f.place = p.id")
    assert estimate_new_row_bytes(query, SOURCES, SIZES) == pytest.approx(2 + 4 + 12_060 / 3_020)
