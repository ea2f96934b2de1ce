"""Statements that define a table of MySQL number its columns, and have the defaults of new ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import sqlglot

from arctic_runtime.ingest.formats.event_format import NULL_IN_OLDER_ROWS, OlderRows
from arctic_runtime.ingest.formats.event_format import UNKNOWN_IN_OLDER_ROWS as UNKNOWN
from arctic_runtime.ingest.transports.debezium.servers.ddl_history import (
    ColumnType,
    ConstantDefault,
    Default,
    Definition,
    find_default,
    find_definition,
    list_definitions,
)

Columns = Mapping[str, Mapping[str, Any]]
INT, TEXT = {"typeName": "INT"}, {"typeName": "VARCHAR"}
FIRST: Columns = {"id": {**INT, "optional": False}, "a": TEXT, "z": TEXT}


def line(ddl: str, columns: Columns | None, table: str = '"h"."t"') -> str:
    defined = [
        {
            "name": name,
            "position": place,
            "optional": True,
            **column,
        }
        for place, (name, column) in enumerate((columns or {}).items(), 1)
    ]
    change = {"type": "DROP" if columns is None else "ALTER", "id": table, "table": {"columns": defined}}
    return json.dumps({"ddl": ddl, "tableChanges": [change]})


def after(ddl: str, columns: Columns) -> Definition:
    return list_definitions("\n".join([line("create table t", FIRST), line(ddl, columns)]), "h", "t")[-1]


def numbers(definition: Definition) -> dict[str, int]:
    return {name: value.number for name, value in definition.items()}


@pytest.mark.parametrize(
    ("ddl", "names", "expected"),
    [
        ("alter table t rename column a to b", ["id", "b", "z"], {"id": 1, "b": 2, "z": 3}),
        ("alter table t CHANGE `a` b varchar(9)", ["id", "b", "z"], {"id": 1, "b": 2, "z": 3}),
        ("alter table t change column a z int, change z a int", ["id", "z", "a"], {"id": 1, "z": 2, "a": 3}),
        ("alter table t rename column if exists a to b, drop z", ["id", "b"], {"id": 1, "b": 2}),
        ("alter table t drop a, add b int", ["id", "z", "b"], {"id": 1, "z": 3, "b": 6}),
        (
            "alter table t add b int comment 'change a b' first",
            ["b", "id", "a", "z"],
            {"b": 4, "id": 1, "a": 2, "z": 3},
        ),
    ],
)
def test_a_column_keeps_its_number_through_renames(ddl: str, names: list[str], expected: dict[str, int]) -> None:
    columns = after(ddl, {name: FIRST.get(name, TEXT) for name in names})
    assert numbers(columns) == expected


def test_a_column_that_is_recreated_gets_another_number() -> None:
    lines = [line("create table t", FIRST), line("drop table t", None), line("create table t", FIRST)]
    definitions = list_definitions("\n".join(lines), "h", "t")
    assert [numbers(definition) for definition in definitions] == [
        {"id": 1, "a": 2, "z": 3},
        {},
        {"id": 4, "a": 5, "z": 6},
    ]
    assert list_definitions("\n".join(lines), "h", "other") == []


def test_columns_of_a_table_that_is_replaced_get_other_numbers() -> None:
    assert numbers(after("create or replace table t (id int)", {"id": INT})) == {"id": 4}


def test_a_default_that_changes_later_is_not_that_of_older_rows() -> None:
    lines = [
        line("create table t", FIRST),
        line("alter table t add n int default 5", {**FIRST, "n": INT}),
        line("alter table t alter n drop default", {**FIRST, "n": INT}),
    ]
    assert list_definitions("\n".join(lines), "h", "t")[-1]["n"].default == ConstantDefault("5")


def test_a_definition_has_the_type_that_the_column_had_when_it_was_added() -> None:
    column = {"typeName": "ENUM", "length": 1, "charsetName": "latin1", "enumValues": ["'a'", "'b''c'"]}
    assert after("alter table t add n enum('a','b''c')", {**FIRST, "n": column})["n"].type == ColumnType(
        "ENUM", 1, None, "latin1", ("'a'", "'b''c'")
    )


@pytest.mark.parametrize("ddl", ["rename table t_new to t", "create table t (n int default 5)"])
def test_a_column_that_no_alter_table_adds_has_no_known_default(ddl: str) -> None:
    assert after(ddl, {**FIRST, "n": INT})["n"].default == UNKNOWN


def test_a_column_in_the_place_of_another_is_unknown_where_a_rename_is_not_understood() -> None:
    columns = after("alter table t change column if exists whatever", {"id": INT, "b": TEXT, "z": TEXT})
    assert columns["b"].default == UNKNOWN


def test_events_have_the_newest_definition_with_their_columns_in_order() -> None:
    lines = [line("create table t", FIRST), line("alter table t drop a", {"id": INT, "z": TEXT})]
    definitions = list_definitions("\n".join(lines), "h", "t")
    assert find_definition(definitions, ["id", "a"]) == definitions[0]
    assert find_definition(definitions, ["id", "z"]) == definitions[1]
    assert find_definition(definitions, ["z", "id"]) == {}


def test_a_comment_with_another_end_of_line_is_a_part_of_its_statement() -> None:
    """Debezium does not escape these, and Python's own lines would end there."""
    columns: Columns = {**FIRST, "b": {**TEXT, "comment": "a\u2028b\x85c"}}
    history = json.dumps(json.loads(line("alter table t add b text comment 'a\u2028b'", columns)), ensure_ascii=False)
    assert list(list_definitions(f"{history}\n", "h", "t")[-1]) == ["id", "a", "z", "b"]


def test_a_statement_that_ends_inside_of_a_rename_renames_nothing() -> None:
    assert list(after("alter table t rename column a to", FIRST)) == ["id", "a", "z"]


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
