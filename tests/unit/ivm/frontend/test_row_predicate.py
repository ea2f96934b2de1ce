"""A predicate that a user types selects rows by their columns alone, and can't be anything else."""

from __future__ import annotations

import re

import pytest
from sqlglot import exp

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.frontend.row_predicate import read_row_predicate
from arctic_runtime.sql.spark_sql import write_sql

COLUMNS = ("day", "id", "address", "Amount", "tags")


@pytest.mark.parametrize(
    ("text", "written", "columns"),
    [
        (
            "day >= '2026-01-01' and DAY < '2026-02-01'",
            "((`day` >= '2026-01-01') AND (`day` < '2026-02-01'))",
            ("day",),
        ),
        ("day = 1 -- or true", "(`day` = 1)", ("day",)),
        ("address.city = 'x' or amount > 1", "((`address`.`city` = 'x') OR (`Amount` > 1))", ("address", "Amount")),
        ("exists(tags, day -> day = 1)", "(EXISTS(`tags`, day -> day = 1))", ("tags",)),
        ("true", "(TRUE)", ()),
    ],
)
def test_a_predicate_is_written_anew_over_the_columns_of_the_table(
    text: str, written: str, columns: tuple[str, ...]
) -> None:
    predicate = read_row_predicate(text, COLUMNS)
    assert (write_sql(predicate.bind_names()), predicate.columns) == (written, columns)


def test_a_predicate_over_other_values_keeps_fields_and_variables() -> None:
    predicate = read_row_predicate("address.city = 'x' and exists(tags, id -> id = Amount)", COLUMNS)
    values = {"address": build_column("a1"), "tags": build_column("a2"), "Amount": exp.cast(build_column("a3"), "int")}
    assert write_sql(predicate.bind_columns(values)) == (
        "((`a1`.`city` = 'x') AND EXISTS(`a2`, id -> id = CAST(`a3` AS INT)))"
    )


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "not one expression"),
        ("*", "not one expression"),
        ("'a'", "not one expression"),
        ("day = 1 as x", "not one expression"),
        ("day = 1; drop table t", "not one expression"),
        ("select 1", "not one expression"),
        ("day = 1) or (1 = 1", "ParseError"),
        ("day = 1 order by 1", "ParseError"),
        ("day = 1, id = 2", "ParseError"),
        ("exists (select 1)", "has a subquery"),
        ("id in (select id from t)", "has a subquery"),
        ("sum(id) > 1", "an aggregate, a window function"),
        ("row_number() over (order by id) = 1", "an aggregate, a window function"),
        ("explode(tags)", "an aggregate, a window function"),
        ("rand() < 1", "depends on more than its arguments"),
        ("day < current_date", "depends on more than its arguments"),
        ("day < 'today'", "another value in every run"),
        ("my_udf(id) = 1", "not a built-in function"),
        ("day = :day", "a parameter"),
        ("day = '${env:HOME}'", "replaces `${…}`"),
        ("amuont > 1", "did you mean 'Amount'"),
        ("t.day = 1", "a column that the table does not have"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, because: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(because)):
        read_row_predicate(text, COLUMNS)


@pytest.mark.parametrize(
    ("text", "selects_all"), [("true", True), ("TRUE", True), ("false", False), ("1 = 1", False), ("day > 1", False)]
)
def test_the_constant_true_alone_is_known_to_select_all_rows(text: str, selects_all: bool) -> None:
    assert read_row_predicate(text, COLUMNS).selects_all is selects_all
