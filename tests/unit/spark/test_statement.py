"""Statements: no name and no value ends up as SQL."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.tokens import TokenType

import arctic_runtime
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    quote_number,
    quote_text,
    write_properties,
)

_sharp = st.sampled_from("`'\"\\;-/*%_.{}()0127uUxnrtZ \n\r\t\x00\x1aé日🎉")
_texts = st.text(_sharp | st.characters(exclude_categories=("Cs",)), max_size=20)
_identifiers = st.text(_sharp | st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20).filter(
    lambda part: "${" not in part
)

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_LETTERS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def as_spark_reads(literal: str) -> str:
    """The value of a string literal by the rules of Spark's documentation."""

    def value(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code:
            return chr(int(code, 16))
        return chr(int(match[3], 8)) if match[3] else _LETTERS.get(match[4], match[4])

    assert re.fullmatch(r"'(?:[^'\\]|\\.)*'", literal, re.DOTALL)
    return _ESCAPE.sub(value, literal[1:-1])


@settings(max_examples=50)
@given(_texts)
@example("\x0001")
@example("\\u0041")
@example("it's; drop table x --")
@example("\\'")
def test_spark_reads_a_text_back_as_it_was(value: str) -> None:
    assert as_spark_reads(quote_text(value)) == value


@settings(max_examples=50)
@given(_texts)
def test_a_text_is_one_token_to_a_parser(value: str) -> None:
    tokens = sqlglot.tokenize(f"select {quote_text(value)} from t", read="spark")
    assert [token.token_type for token in tokens][1:3] == [TokenType.STRING, TokenType.FROM]
    assert len(tokens) == 4


@settings(max_examples=40)
@given(st.lists(_identifiers, min_size=1, max_size=3))
def test_a_parser_reads_a_name_back_level_by_level(parts: list[str]) -> None:
    tree = sqlglot.parse_one(fill_statement("SELECT 1 FROM {table}", table=quote_name(*parts)), dialect="spark")
    (table,) = tree.find_all(exp.Table)
    assert [part.name for part in table.parts] == parts


@settings(max_examples=40)
@given(_texts, _identifiers)
def test_braces_in_a_value_are_never_filled_in_again(value: str, column: str) -> None:
    inner = fill_statement("{c} = {v}", c=quote_name(column), v=quote_text(value))
    outer = fill_statement("DELETE FROM t WHERE {condition}", condition=inner)
    assert outer == f"DELETE FROM t WHERE {quote_name(column)} = {quote_text(value)}"


@pytest.mark.parametrize("part", ["orders", "", 7, None, b"x", ["a"]])
def test_a_part_that_did_not_quote_itself_is_a_type_error(part: Any) -> None:
    with pytest.raises(TypeError, match="table is"):
        fill_statement("DROP TABLE {table}", table=part)


def test_joining_quoted_parts_by_hand_is_no_way_around_it() -> None:
    with pytest.raises(TypeError, match="only parts of a statement"):
        fill_statement("DROP TABLE {table}", table=quote_name("a") + "; drop table b")


def test_parts_can_be_listed_and_paired() -> None:
    assert join_parts([quote_name("a"), quote_name("b")]) == "`a`, `b`"
    assert join_parts([quote_name("a"), quote_name("b")], " AND ") == "`a` AND `b`"
    assert write_properties([("k", "v"), ("it's", "\\")]) == "'k' = 'v', 'it\\'s' = '\\\\'"
    assert quote_number(-(2**63)) == "-9223372036854775808"
    assert isinstance(fill_statement("{a}", a=quote_number(1)), Sql)


def test_a_number_is_never_a_text() -> None:
    with pytest.raises(ValueError, match="1 or 1"):
        quote_number("1 or 1")  # type: ignore[arg-type]


def _constant(node: ast.expr) -> bool:
    match node:
        case ast.Constant():
            return True
        case ast.IfExp(body=one, orelse=other):
            return _constant(one) and _constant(other)
        case _:
            return False


def test_nothing_but_constants_becomes_sql_outside_of_this_module() -> None:
    root = Path(arctic_runtime.__file__).parents[1]
    files = [file for part in ("arctic_runtime", "dbt") for file in (root / part).rglob("*.py")]
    assert len(files) > 100
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Sql":
                is_own = file.name == "statement.py"
                assert is_own or all(map(_constant, node.args)), f"{file}:{node.lineno}"
