"""Spark's SQL read and written back: literals as they stood, and the shape of the tree in parentheses."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.sql.spark_sql import list_literals, tokenize_sql, write_sql

AS_THEY_STOOD = (
    "'O''Brien'",
    "'it\\'s'",
    '"it\'s"',
    '"a""b"',
    "'a' 'b'",
    "r'\\d+'",
    "'\\\\'",
    "-128Y",
    "-32768S",
    "-9223372036854775808L",
    "1.5BD",
    "2.5D",
    "1e3",
    "DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01 10:00:00'",
    "TIMESTAMP_NTZ '2020-01-01'",
    "INTERVAL 1 DAY 2 HOURS",
    "INTERVAL -1 DAY",
    "INTERVAL 1 DAY -2 HOURS",
    "INTERVAL '1-2' YEAR TO MONTH",
    "INTERVAL '1 day 2 hours'",
    "X'1F'",
    "x IS NOT NULL",
)

SHAPES = {
    "1 & 2 >> 1": "1 & (2 >> 1)",
    "1 | 2 ^ 3 & 4 << 5": "1 | (2 ^ (3 & (4 << 5)))",
    "1 & 2 | 3": "(1 & 2) | 3",
    "a & b >>> 2 >> 1": "a & (SHIFTRIGHTUNSIGNED(b, 2) >> 1)",
    "a + b || c": "(a + b) || c",
    "a || b collate utf8_lcase": "a || (b COLLATE utf8_lcase)",
    "a + b * c - d": "(a + (b * c)) - d",
    "a - b - c": "a - b - c",
    "a - (b - c)": "a - (b - c)",
    "a or b and not c = d": "a OR (b AND (NOT (c = d)))",
    "not x is null": "NOT (x IS NULL)",
    "x is not null and y": "(x IS NOT NULL) AND y",
    "x not in (1, 2)": "NOT (x IN (1, 2))",
    "ts - interval 1 day 2 hours": "ts - (INTERVAL 1 DAY 2 HOURS)",
    "+'7'": "POSITIVE('7')",
    "1 - -5": "1 - (-5)",
    "-5::string": "CAST(-5 AS STRING)",
    "-x::string": "-CAST(x AS STRING)",
    "date '2020-01-01'::string": "CAST(DATE '2020-01-01' AS STRING)",
    "x between a + 1 and b": "x BETWEEN (a + 1) AND b",
    "dateadd(day, 1, d)": "DATEADD(day, 1, d)",
}


def _write(expression: str) -> str:
    return write_sql(parse_query(f"select {expression}")).removeprefix("SELECT ")


@pytest.mark.parametrize("literal", AS_THEY_STOOD)
def test_a_literal_is_written_as_it_stood(literal: str) -> None:
    assert _write(literal) == literal


@pytest.mark.parametrize("text", SHAPES)
def test_every_operand_that_is_an_operator_is_in_parentheses(text: str) -> None:
    assert _write(text) == SHAPES[text]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a, b JOIN c ON b.x = c.x",
        "SELECT * FROM a JOIN (b JOIN c ON b.x = c.x) ON a.x = b.x",
        "WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) SELECT * FROM a",
        "(SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) UNION (SELECT 4 INTERSECT SELECT 5) ORDER BY 1",
    ],
)
def test_clauses_stay_where_they_stood(text: str) -> None:
    assert write_sql(parse_query(text)) == text


def test_what_is_written_is_read_as_the_same_tree() -> None:
    for text in (*AS_THEY_STOOD, *SHAPES):
        written = _write(text)
        assert _write(written) == written


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("select * from t |> where id > 1", "pipe syntax"),
        ("select time '00:01:52' as x", "TIME"),
        ("select cast(x as time) from t", "TIME"),
        ("select v:price from t", "variant"),
        ("with recursive r as (select 1) select * from r", "RECURSIVE"),
    ],
)
def test_what_is_read_as_something_else_is_refused_by_name(sql: str, what: str) -> None:
    with pytest.raises(NotMaintained, match=what):
        parse_query(sql)


def test_the_suffix_of_a_number_is_part_of_it() -> None:
    assert [token.text for token in tokenize_sql("select 128Y, 1.5BD")] == ["select", "128Y", ",", "1.5BD"]


def test_literals_are_those_of_the_text() -> None:
    assert list_literals("select 'b', x from t where y = 1L -- 'c'\n and z = r'a'") == ["'b'", "1L", "r'a'"]


@pytest.mark.parametrize("text", ["select -", "select + from t", "select not", "select 1 where not", "select 2 + -"])
def test_an_operator_without_an_operand_is_no_sql(text: str) -> None:
    with pytest.raises(NotMaintained, match="UNPARSED"):
        parse_query(text)
