"""Conditions of a query by which files of its sources are skipped."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.frontend.analyse import Relation, analyse_query
from arctic_runtime.ivm.rewrite.scan_limits import list_needed_scans, list_scan_limits
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.model.row_filter import ColumnLimit

FACTS, PLACES = TableName("lake", "ods", "facts"), TableName("lake", "ods", "places")
RELATIONS = {
    str(FACTS): Relation((Column("id", "bigint"), Column("day", "date"), Column("amount", "double"))),
    str(PLACES): Relation((Column("id", "bigint"), Column("name", "string"))),
}


def limits(sql: str) -> dict[TableName, set[ColumnLimit]]:
    analysed = analyse_query(sql, RELATIONS, {}, "lake", "ods")
    return {source: set(found) for source, found in list_scan_limits(analysed.tree).items()}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("id = 7", ColumnLimit("id", "=", 7)),
        ("7 < id", ColumnLimit("id", ">", 7)),
        ("id >= -7", ColumnLimit("id", ">=", -7)),
        ("day > date '2026-01-01'", ColumnLimit("day", ">", "2026-01-01")),
    ],
)
def test_a_comparison_with_a_constant_is_a_limit(condition: str, expected: ColumnLimit) -> None:
    assert limits(f"select id, amount from facts where {condition}") == {FACTS: {expected}}


@pytest.mark.parametrize("condition", ["id = 7 or amount > 1", "id <> 7", "id + 1 = 7", "id = amount", "not id = 7"])
def test_another_condition_is_no_limit(condition: str) -> None:
    assert limits(f"select id, amount from facts where {condition}") == {FACTS: set()}


def test_a_condition_above_a_subquery_and_in_a_join_reaches_the_scans() -> None:
    sql = """
        select f.id, p.name from (select id, amount as sum from facts) f join places p on f.id = p.id and p.name = 'x'
        where f.sum > 3
    """
    assert limits(sql) == {FACTS: {ColumnLimit("amount", ">", 3)}, PLACES: {ColumnLimit("name", "=", "x")}}


def test_only_the_limits_of_all_scans_of_a_source_count() -> None:
    sql = "select id from facts where id > 5 and amount > 1 union all select id from facts where id > 5"
    assert limits(sql) == {FACTS: {ColumnLimit("id", ">", 5)}}


@pytest.mark.parametrize(
    ("sql", "fields"),
    [
        ("select day, count(*) as n from keyed group by day", {"day"}),
        ("select amount from keyed where day > date '2026-01-01'", {"amount", "day"}),
        ("select amount, row_number() over (partition by day order by id) as n from keyed", {"amount", "day", "id"}),
        ("select id from keyed union all select amount from keyed", {"id", "amount"}),
        ("select distinct day from keyed", {"day"}),
    ],
)
def test_columns_that_only_identify_a_row_are_not_needed(sql: str, fields: set[str]) -> None:
    columns = (Column("id", "bigint"), Column("day", "date"), Column("amount", "bigint"))
    analysed = analyse_query(sql, {"lake.ods.keyed": Relation(columns, ("id",))}, {}, "lake", "ods")
    scans = list_needed_scans(analysed.tree, [own for _, own in analysed.outputs])
    assert {name for scan in scans for _, name in scan.fields} == fields
