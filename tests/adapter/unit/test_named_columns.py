"""Columns that a configuration names, on their way into SQL."""

from __future__ import annotations

from typing import Any

import pytest
from dbt_common.exceptions import CompilationError

from dbt.adapters.arctic.relations.identifiers import NAMED_COLUMNS

COLUMNS = ["Id", "user id", "a.b", "a`b", "order", "s"]


@pytest.mark.parametrize(
    ("configured", "quoted"),
    [
        ("ID", ["`Id`"]),
        (["user id", "`USER ID`"], ["`user id`"]),
        ("a.b", ["`a.b`"]),
        (["a`b", "`a``b`"], ["`a``b`"]),
        ("`a.b`", ["`a.b`"]),
        (("order", "id"), ["`order`", "`Id`"]),
        ("s.field", ["s.field"]),
        (None, []),
    ],
)
def test_a_column_is_quoted_once_in_its_own_spelling(configured: Any, quoted: list[str]) -> None:
    assert NAMED_COLUMNS["columns"]("unique_key", configured, COLUMNS) == quoted
    assert NAMED_COLUMNS["columns_or_expressions"](configured, COLUMNS) == quoted


def test_what_is_no_column_is_an_expression_or_an_error() -> None:
    assert NAMED_COLUMNS["columns_or_expressions"]("id || name", COLUMNS) == ["id || name"]
    with pytest.raises(CompilationError, match="`unique_key` names 'id \\|\\| name', which is no column of the table"):
        NAMED_COLUMNS["columns"]("unique_key", "id || name", COLUMNS)


def test_parts_of_a_partitioning_are_quoted_where_they_are_plain_names() -> None:
    configured = ["day", "days(`at time`)", "user id", "s.field", "`x y`", "it's"]
    assert NAMED_COLUMNS["partitions"](configured) == [
        "day",
        "days(`at time`)",
        "`user id`",
        "s.field",
        "`x y`",
        "`it's`",
    ]
    assert NAMED_COLUMNS["partitions"]("day") == ["day"]


def test_parts_of_a_partitioning_may_have_the_form_of_another_adapter() -> None:
    partitions = NAMED_COLUMNS["partitions"]
    assert partitions({"field": "the day", "granularity": "month"}) == ["months(`the day`)"]
    assert partitions("toYYYYMM(day)") == ["months(day)"]
    assert partitions(None, ["bucket(id, 4)", "the region"]) == ["bucket(4, id)", "`the region`"]
    assert partitions("day", ["region"]) == ["day"]
    assert partitions(None, None) == []


@pytest.mark.parametrize("configured", [7, [1]])
def test_what_is_no_text_is_an_error(configured: Any) -> None:
    with pytest.raises(CompilationError, match="names no columns"):
        NAMED_COLUMNS["partitions"](configured)


def test_a_merge_updates_what_is_not_excluded_and_nothing_where_all_is() -> None:
    updated = NAMED_COLUMNS["updated"]
    assert updated(None, None, ["a", "B"]) == ["`a`", "`B`"]
    assert updated("b", None, ["a", "B"]) == ["`B`"]
    assert updated(None, ["A"], ["a", "B"]) == ["`B`"]
    assert updated(None, ["a", "b"], ["a", "B"]) == []
    with pytest.raises(CompilationError, match="`merge_exclude_columns` names 'c'"):
        updated(None, ["c"], ["a", "B"])
    with pytest.raises(CompilationError, match="leave one of them out"):
        updated(["a"], ["b"], ["a", "B"])
