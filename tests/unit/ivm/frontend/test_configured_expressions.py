"""Expressions over the stored and the arriving row, over two structs, and check constraints over renamed columns."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.configured_expressions import (
    NEW,
    OLD,
    bind_rows,
    list_row_columns,
    rename_check_columns,
)
from arctic_runtime.spark.engine.statement import write_expression
from arctic_runtime.sql.spark_sql import write_sql

ROWS = {OLD: ("o", {"a": "a0", "b c": "a1", "tags": "a2"}), NEW: ("n", {"a": "n0", "op": "n1"})}


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("old.a + new.A", "`o`.`a0` + `n`.`n0`"),
        (
            "case when NEW.op = 'old.a' then old.`b c` else 0 end",
            "CASE WHEN `n`.`n1` = 'old.a' THEN `o`.`a1` ELSE 0 END",
        ),
        ("old.a.field", "`o`.`a0`.field"),
        ("transform(old.tags, t -> t + new.a)", "TRANSFORM(`o`.`a2`, t -> t + `n`.`n0`)"),
    ],
)
def test_columns_of_both_rows_are_read_from_two_structs(text: str, over: str) -> None:
    assert write_expression(bind_rows(text, ROWS)).replace("(", "").replace(")", "") == over.replace("(", "").replace(
        ")", ""
    )


def test_the_columns_of_a_row_are_named_once() -> None:
    assert list_row_columns("old.a + new.op + old.a", OLD) == ("a",)
    assert list_row_columns("old.a + new.op + old.a", NEW) == ("op",)


def test_a_column_that_a_row_does_not_have_is_named_with_those_that_it_has() -> None:
    with pytest.raises(ConfigError, match=r"uses `new.b`, and there is no such column.\n  expected: one of a, op"):
        bind_rows("old.a + new.b", ROWS)


NAMES = {"id": "a0", "from": "a1", "a.b": "a2", "tags": "a3", "at": "a4"}


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("id > 0", "`a0` > 0"),
        ("(ID >= 1) and `from` <> 'green'", "(`a0` >= 1) AND (`a1` <> 'green')"),
        ("`a.b` is not null", "`a2` IS NOT NULL"),
        ("`from` <> 'O''Brien' and id > -128Y", "(`a1` <> 'O''Brien') AND (`a0` > (-128Y))"),
        ("date_add(hour, 1, at) > now()", "DATE_ADD(hour, 1, `a4`) > NOW()"),
        ("`from` rlike r'\\d+'", "`a1` RLIKE r'\\d+'"),
        ("at.city = 'id'", "`a4`.city = 'id'"),
        ("exists(tags, id -> id > 0)", "EXISTS(`a3`, id -> id > 0)"),
        ("from_unixtime(id) < '2030'", "FROM_UNIXTIME(`a0`) < '2030'"),
    ],
)
def test_columns_have_their_other_names_and_nothing_else_changes(check: str, expected: str) -> None:
    assert write_sql(rename_check_columns(check, NAMES)) == expected


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("ide > 0", "expected: one of id, from, .*\n  found: ide"),
        ("id >", "is not a predicate"),
        ("-", "is not a predicate"),
        ("not", "is not a predicate"),
        ("id in (select id from other)", "has a subquery"),
        ("select 1", "is not a predicate"),
        ("drop table x", "is not a predicate"),
    ],
)
def test_what_is_no_predicate_over_a_row_is_refused(check: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        rename_check_columns(check, NAMES)
