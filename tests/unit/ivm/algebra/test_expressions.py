"""Expressions are copied, compared and looked through as sqlglot itself would do it."""

from __future__ import annotations

from itertools import product

import pytest
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import (
    build_column,
    get_form,
    list_used_columns,
    transform_expression,
    walk_parts,
)

TEXTS = (
    "a",
    "`a`.b",
    "a + 1",
    "1 + a",
    "a + b * 2",
    "(a + b) * 2",
    "''",
    "false",
    "true",
    "'1'",
    "sum(a)",
    "sum(distinct a)",
    "sum(a) filter (where b > 0)",
    "count(*)",
    "count(a, b)",
    "my_function(a, 'X')",
    "my_function(a, 'x')",
    "cast(a as int)",
    "cast(a as decimal(10, 2))",
    "cast(a as decimal(10, 3))",
    "cast(a as array<struct<x: int>>)",
    "case when a = 1 then b when a = 2 then 'c' end",
    "case when a = 1 then b when a = 2 then 'c' else null end",
    "case a when 1 then b end",
    "get_json_object(a, '$.x')",
    "get_json_object(a, '$.X')",
    "row_number() over (partition by a, b order by a)",
    "row_number() over (partition by a order by b, a)",
    "row_number() over (partition by a order by b desc, a)",
    "sum(a) over (partition by a rows between 1 preceding and current row)",
    "a in (1, 2)",
    "a in (select x from t where y > 1)",
    "exists (select 1 from t)",
    "a between 1 and 2",
    "a is null",
    "not a is null",
    "a like 'x%'",
    "filter(a, x -> x > 1)",
    "a[0].b",
    "interval 1 day",
    "interval 2 day",
)


def parse_text(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, dialect="spark")


def write_text(expression: exp.Expr) -> str:
    return expression.sql(dialect="spark")


def test_expressions_have_one_form_where_they_are_written_alike() -> None:
    for one, other in product(map(parse_text, TEXTS), map(parse_text, TEXTS)):
        assert (get_form(one) == get_form(other)) == (write_text(one) == write_text(other)), (
            write_text(one),
            write_text(other),
        )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sum( A )", "SUM(A)"),
        ("MY_function(a)", "my_FUNCTION(a)"),
        ("cast(a as INTEGER)", "a::int"),
        ("a<>1", "a != 1"),
    ],
)
def test_how_an_expression_was_typed_does_not_matter(one: str, other: str) -> None:
    assert get_form(parse_text(one)) == get_form(parse_text(other))


@pytest.mark.parametrize("text", TEXTS)
def test_a_copy_is_the_same_and_shares_nothing(text: str) -> None:
    expression = parse_text(text)
    copied = transform_expression(expression, lambda part: part)
    assert write_text(copied) == write_text(expression)
    assert {id(part) for part in copied.walk()}.isdisjoint(id(part) for part in expression.walk())
    places = [(part.parent and part.parent.key, part.arg_key, part.index) for part in copied.walk()]
    assert places == [(part.parent and part.parent.key, part.arg_key, part.index) for part in expression.walk()]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_replaced_is_not_looked_into(text: str) -> None:
    def visit(part: exp.Expr) -> exp.Expr:
        return build_column(f"{part.name}#1") if isinstance(part, exp.Column) else part

    expression = parse_text(text)
    assert write_text(transform_expression(expression, visit)) == write_text(expression.transform(visit))
    assert write_text(expression) == write_text(parse_text(text))


@pytest.mark.parametrize("text", TEXTS)
def test_all_parts_are_found_and_none_inside_a_whole(text: str) -> None:
    expression = parse_text(text)
    assert list(map(id, walk_parts(expression))) == list(map(id, expression.walk()))
    pruned = expression.walk(prune=lambda part: isinstance(part, exp.Query))
    assert list(map(id, walk_parts(expression, whole=exp.Query))) == list(map(id, pruned))
    assert set(list_used_columns(expression)) == {part.name for part in expression.find_all(exp.Column)}
