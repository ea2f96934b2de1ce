from __future__ import annotations

import pytest

from dbt.adapters.arctic import statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1", ["select 1"]),
        ("a; b;", ["a", "b"]),
        (" ; ;a;; ", ["a"]),
        ("", []),
        ("-- nothing; here\n", []),
        ("/* a; b */", []),
        ("select ';', \"x;y\", `a;b` ; b", ["select ';', \"x;y\", `a;b`", "b"]),
        (r"select 'it\'s; fine'; b", [r"select 'it\'s; fine'", "b"]),
        ("select 'it''s; fine'; b", ["select 'it''s; fine'", "b"]),
        (r"select r'\'; b", [r"select r'\'", "b"]),
        ("select `a``;`; b", ["select `a``;`", "b"]),
        ("a -- ; no\n; b", ["a -- ; no", "b"]),
        ("/* x /* ; */ ; */ a; b", ["/* x /* ; */ ; */ a", "b"]),
        ("a; /* the end */", ["a"]),
        ('/* {"app": "dbt"} */\nselect 1;', ['/* {"app": "dbt"} */\nselect 1']),
        ("begin select 1; select 2; end;", ["begin select 1; select 2; end"]),
        ("select 'open; b", ["select 'open", "b"]),
    ],
)
def test_only_semicolons_between_statements_split(text: str, expected: list[str]) -> None:
    assert statements.split(text) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("/* c */ -- d\n Select 1", True),
        ("(select 1)", True),
        ("with a as (select 1) select * from a", True),
        ("create table t (a int)", False),
        ("call lake.system.x()", False),
    ],
)
def test_queries_are_told_from_commands(statement: str, expected: bool) -> None:
    assert statements.is_query(statement) is expected


def test_what_a_statement_leaves_in_its_session_is_noticed() -> None:
    assert statements.changes_session("/* x */ SET a = b")
    assert not statements.changes_session("select 'set x'")
    assert not statements.changes_session("settle")
    assert statements.makes_temporary_view("create or replace TEMPORARY view v as select 1")
    assert not statements.makes_temporary_view("create view v as select 1")
