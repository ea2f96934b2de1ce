"""The default of an added column is taken from its statement if it is made of constants alone."""

from __future__ import annotations

import pytest
import sqlglot

from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows
from arctic_runtime.ingest.transports.debezium.servers.ddl_history import ConstantDefault, Default, find_default

NULL = NULL_IN_OLDER_ROWS


def find(ddl: str, is_optional: bool = True) -> Default:
    return find_default(ddl, sqlglot.tokenize(ddl, dialect="mysql"), "n", is_optional)


@pytest.mark.parametrize(
    "expression",
    [
        "'it''s'",
        r"'it\'s'",
        r"'a\\b'",
        '"a\'b"',
        "'é😀?'",
        "'a' 'b'",
        "_utf8mb4'x'",
        "_latin1 x'E9'",
        "N'x'",
        "x'41'",
        "0x41",
        "b'101'",
        "1e-2",
        "-1.5",
        "+5",
        "true",
        "date '2024-01-01'",
        "timestamp'2024-01-01 00:00:00'",
        "(1+1)",
        "(concat('a', \"b\"))",
        "concat('a', 'b')",
        "(cast(12 as char(3)))",
        "(if(5 div 2 = 2, 'y', 'n'))",
        "(json_array(1, 'a'))",
    ],
)
def test_an_expression_of_constants_is_taken_as_it_is_written(expression: str) -> None:
    for after in ("", " not null", " comment 'default 3'", ", add m int default 7", " after a", " /* five */"):
        assert find(f"alter table t add n varchar(9) default {expression}{after}") == ConstantDefault(expression)


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table s.t add column if not exists `N` int default 5",
        "ALTER TABLE t ADD COLUMN (m decimal(5, 2) default 7, n int not null default 5, key k (m))",
        "alter table `add` add key k (n), add m int default 7, add n int unsigned default 5 check (n in (5, 6))",
        "alter table t drop a, change b c int default 7, add n int default 5 first, algorithm = instant",
    ],
)
def test_a_default_is_that_of_its_own_column(ddl: str) -> None:
    assert find(ddl) == ConstantDefault("5")


def test_a_column_without_a_default_is_null_or_has_the_value_that_its_type_implies() -> None:
    assert find("alter table t add n int, add m int default 7") == NULL
    assert find("alter table t add n int default null") == NULL
    assert find("alter table t add n int not null", is_optional=False) == ConstantDefault(None)


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        ("n timestamp default current_timestamp", "not an expression of constants"),
        ("n datetime default now(3) on update now(3)", "not an expression of constants"),
        ("n varchar(40) default (uuid())", "not an expression of constants"),
        ("n int default (a + 1)", "not an expression of constants"),
        ("n int default (`null`)", "not an expression of constants"),
        ("n int default (select 1)", "not an expression of constants"),
        ("n int default (@@version)", "not an expression of constants"),
        ("n int default (1 /*! + rand() */ + 1)", "not an expression of constants"),
        ("n int as (id + 1) stored", "computes its values"),
        ("n int generated always as (5)", "computes its values"),
        ("n int auto_increment", "computes its values"),
        ("m int default 5", "can't be read"),
    ],
)
def test_another_default_is_unknown_for_a_reason(clause: str, reason: str) -> None:
    found = find(f"alter table t add {clause}")
    assert isinstance(found, OlderRows)
    assert not found.is_known
    assert reason in found.reason
