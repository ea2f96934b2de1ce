"""Statements in a text, and those after which a session is not lent again."""

from __future__ import annotations

import pytest

from dbt.adapters.arctic.connections import statements


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
        ("/* a */ work: begin select 1; select 2; end;", ["/* a */ work: begin select 1; select 2; end"]),
        ("select 'open; b", ["select 'open", "b"]),
    ],
)
def test_only_semicolons_between_statements_split(text: str, expected: list[str]) -> None:
    assert statements.split_statements(text) == expected


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
def test_queries_are_distinguished_from_commands(statement: str, expected: bool) -> None:
    assert statements.is_query(statement) is expected


@pytest.mark.parametrize(
    "statement",
    [
        "/* x */ SET a = b",
        "set var v = 1",
        "reset",
        "use dwd",
        "declare v int",
        "cache table t",
        "add jar x",
        "create temporary function f() returns int return 1",
        "create or /* x */ replace TEMPORARY function f as 'C'",
        "begin set spark.sql.ansi.enabled = false; end",
        "work: begin set spark.sql.ansi.enabled = false; end",
        "execute immediate 'set a = b'",
        "some word of a later Spark",
    ],
)
def test_a_session_is_not_lent_again_after(statement: str) -> None:
    assert statements.is_session_change(statement)


@pytest.mark.parametrize(
    "statement",
    ["select 'set x'", "with t as (select 1) select 1", "create function f() returns int return 1", "drop table t"],
)
def test_a_session_is_lent_again_after(statement: str) -> None:
    assert not statements.is_session_change(statement)


def test_temporary_views_are_noticed() -> None:
    assert statements.is_temporary_view("create or replace TEMPORARY view v as select 1")
    assert statements.is_temporary_view("create /* x */ temp view v as select 1")
    assert not statements.is_temporary_view("create view temporary as select 1")
    assert not statements.is_session_change("create temp view v as select 1")


@pytest.mark.parametrize(
    ("statement", "is_reading"),
    [
        ("select 1", True),
        ("/* dbt */ with a as (select 'insert into t') select * from a", True),
        ("show tables in lake.dwd", True),
        ("describe lake.dwd.t", True),
        ("with a as (select 1) insert into t select * from a", False),
        ("from t insert overwrite table u select *", False),
        ("create table t (id int)", False),
        ("drop table t", False),
        ("call lake.system.expire_snapshots('t')", False),
        ("begin select 1; end", False),
        ("", False),
    ],
)
def test_statements_that_may_change_a_catalog_are_recognised(statement: str, is_reading: bool) -> None:
    assert statements.is_reading(statement) == is_reading


def test_a_statement_is_shown_without_the_comments_before_it() -> None:
    assert statements.drop_first_comments("/* dbt */ -- x\n drop /* y */ table t") == "drop /* y */ table t"
