"""The SQL of a comparison, in DuckDB: it names exactly the rows that were made wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from arctic_runtime.audit.comparison import (
    DIFFERENCES,
    NEXT,
    OWN,
    QUERY,
    TABLE,
    CauseRule,
    ComparedColumn,
    Comparison,
    build_differences,
    count_groups,
    is_kind,
    refer_to_query,
    sample_groups,
)

Row = tuple[int | None, str | None, float | None]
KEYED = (ComparedColumn("id", is_key=True), ComparedColumn("name"), ComparedColumn("amount", is_float=True))
WHOLE = tuple(ComparedColumn(column.name, is_key=True) for column in KEYED)

keys = st.integers(0, 30) | st.none()
values = st.tuples(st.sampled_from(["a", "b"]) | st.none(), st.sampled_from([0.5, 1.0, -2.0]) | st.none())
tables = st.dictionaries(keys, values, max_size=12)
bags = st.lists(
    st.tuples(st.integers(0, 3), *(st.sampled_from(["a", None]), st.sampled_from([0.5, None]))), max_size=12
)


CONNECTION = duckdb.connect(config={"threads": 1})


def differences(
    comparison: Comparison, rules: Sequence[CauseRule] = (), **relations: Iterable[Row]
) -> list[dict[str, Any]]:
    for name, rows in relations.items():
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        CONNECTION.execute(
            f"create or replace table {name} as select unnest(?::integer[]) as c0, unnest(?::varchar[]) as c1, "
            "unnest(?::double[]) as c2",
            [list(column) for column in columns],
        )
    differing, counting, sampling = write_statements(comparison, tuple(rules))
    CONNECTION.execute(f"create or replace table {DIFFERENCES} as {differing}")
    result = CONNECTION.execute(f"select * from {DIFFERENCES}")
    names = [column[0] for column in result.description]
    found = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    counted = CONNECTION.execute(counting).fetchall()
    assert sum(keys for _, _, keys, _ in counted) == len(found)
    sampled = CONNECTION.execute(sampling).fetchall()
    assert len(sampled) == sum(min(2, keys) for _, _, keys, _ in counted)
    return found


@cache
def write_statements(comparison: Comparison, rules: tuple[CauseRule, ...]) -> tuple[str, str, str]:
    queries = (build_differences(comparison, rules), count_groups(), sample_groups(comparison, 2))
    first, second, third = (query.sql(dialect="duckdb") for query in queries)
    return first, second, third


def rows_of(table: dict[int | None, tuple[str | None, float | None]]) -> list[Row]:
    return [(key, *rest) for key, rest in table.items()]


@settings(max_examples=40)
@given(tables, tables, st.sets(keys))
def test_a_keyed_comparison_names_exactly_the_changed_rows(
    query: dict[Any, Any], table: dict[Any, Any], doubled: set[Any]
) -> None:
    twice = [(key, *table[key]) for key in doubled & table.keys()]
    found = differences(Comparison(KEYED), **{QUERY: rows_of(query), TABLE: [*rows_of(table), *twice]})
    expected: dict[Any, str] = {}
    for key in query.keys() | table.keys():
        if key not in table:
            expected[key] = "lost"
        elif key not in query:
            expected[key] = "left over"
        elif key in doubled:
            expected[key] = "doubled"
        elif query[key] != table[key]:
            expected[key] = "stale"
    named = {row["q0"] if row["query_copies"] else row["t0"]: row["kind"] for row in found}
    assert named == expected
    copies = {key: 2 if key in doubled and key not in query else 1 for key in expected}
    assert {row["q0"] if row["query_copies"] else row["t0"]: row["row_count"] for row in found} == copies


@settings(max_examples=40)
@given(bags, bags)
def test_a_comparison_without_a_key_counts_each_row(query: list[Row], table: list[Row]) -> None:
    found = differences(Comparison(WHOLE), **{QUERY: query, TABLE: table})
    lost = {_row(row, "q"): row["row_count"] for row in found if row["kind"] == "lost"}
    surplus = {_row(row, "t"): row["row_count"] for row in found if row["kind"] in ("left over", "doubled")}
    assert lost == Counter(query) - Counter(table)
    assert surplus == Counter(table) - Counter(query)
    assert all((row["kind"] == "doubled") == (row["query_copies"] > 0) for row in found if row["kind"] != "lost")


def _row(row: dict[str, Any], side: str) -> Row:
    return (row[f"{side}0"], row[f"{side}1"], row[f"{side}2"])


@settings(max_examples=40)
@given(tables, tables, tables)
def test_rows_of_the_next_run_are_pending_and_rows_of_wrong_upstreams_are_inherited(
    query: dict[Any, Any], table: dict[Any, Any], other: dict[Any, Any]
) -> None:
    relations = {QUERY: rows_of(query), TABLE: rows_of(table), OWN: rows_of(other), NEXT: rows_of(other)}
    for row in differences(Comparison(KEYED, has_own=True, has_next=True), **relations):
        key = row["q0"] if row["query_copies"] else row["t0"]
        is_pending = key in query and other.get(key) == query[key]
        is_inherited = other.get(key) == table.get(key)
        assert row["cause"] == ("pending" if is_pending else "inherited" if is_inherited else "unknown")


def test_a_run_that_appends_replaces_no_stale_row() -> None:
    relations = {QUERY: [(1, "new", 1.0)], TABLE: [(1, "old", 1.0)], NEXT: [(1, "new", 1.0)]}
    appends = Comparison(KEYED, has_next=True, replaces_rows=False)
    assert [row["cause"] for row in differences(appends, **relations)] == ["unknown"]
    merges = Comparison(KEYED, has_next=True)
    assert [row["cause"] for row in differences(merges, **relations)] == ["pending"]


def test_a_key_that_the_query_has_twice_is_ambiguous() -> None:
    found = differences(Comparison(KEYED), **{QUERY: [(1, "a", 1.0), (1, "b", 1.0)], TABLE: [(1, "a", 1.0)]})
    assert [row["kind"] for row in found] == ["ambiguous"]


@pytest.mark.parametrize(("stored", "kinds"), [(0.1 + 0.2, []), (0.3001, ["stale"]), (None, ["stale"])])
def test_sums_in_another_order_are_equal(stored: float | None, kinds: list[str]) -> None:
    found = differences(Comparison(KEYED), **{QUERY: [(1, "a", 0.3)], TABLE: [(1, "a", stored)]})
    assert [row["kind"] for row in found] == kinds


def test_the_first_rule_that_holds_is_the_cause() -> None:
    rules = [
        CauseRule("late", exp.and_(is_kind("lost"), refer_to_query(2) < exp.Literal.number(1))),
        CauseRule("filtered", is_kind("lost")),
    ]
    found = differences(Comparison(KEYED), rules, **{QUERY: [(1, "a", 0.5), (2, "a", 2.0)], TABLE: [(3, "a", 1.0)]})
    assert {row["q0"]: row["cause"] for row in found} == {1: "late", 2: "filtered", None: "unknown"}
