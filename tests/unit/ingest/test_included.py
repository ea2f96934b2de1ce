"""Tables that a source ingests without their being declared, by the names that the database has."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.source import DeclaredTable, IngestSource, read_source


def source(include: Any, *declared: DeclaredTable) -> IngestSource:
    tables = declared or (DeclaredTable("orders", "orders", "ods", "lake", {"sort_key": ["day"]}, ()),)
    ingest = {"connector": "postgresql", "host": "db", "database": "d", "user": "u", "schema_changes": "evolve"}
    return read_source("shop", {**ingest, "include": include}, tables)


NAMES = ["public.orders", "public.items", "sales.Plans", "sales.tmp_x", "other.a"]


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (["public.*"], ["public.items"]),
        (["public.*", "sales.[!t]*"], ["public.items", "sales.Plans"]),
        ("*.*", ["other.a", "public.items", "sales.Plans", "sales.tmp_x"]),
        (["*.A"], []),
    ],
)
def test_names_that_match_a_pattern_and_are_not_declared_are_included(include: Any, expected: list[str]) -> None:
    tables = source(include).list_included_tables(NAMES)
    assert [table.source_name for table in tables] == expected
    assert all(str(table.table) == f"lake.ods.{table.source_name.split('.')[1]}" for table in tables)
    assert {table.schema_changes for table in tables} <= {"evolve"}


def test_dots_after_the_schema_belong_to_the_name_of_a_table() -> None:
    tables = source(["*.*"]).list_included_tables(["public.Zone.B", "sales.a.b"])
    assert [table.table.name for table in tables] == ["Zone.B", "a.b"]
    declared = DeclaredTable("zone", "zone", "ods", "lake", {}, ())
    ingest = {"connector": "mariadb", "database": "my.shop", "include": ["*.*"]}
    (table,) = read_source("shop", ingest, [declared]).list_included_tables(["my.shop.Zone.B"])
    assert (table.source_name, table.table.name) == ("my.shop.Zone.B", "Zone.B")


def test_a_table_that_is_declared_under_another_name_is_not_included_again() -> None:
    declared = DeclaredTable("bought", "bought", "ods", "lake", {"source_table": "public.items"}, ())
    assert [table.source_name for table in source(["public.*"], declared).list_included_tables(NAMES)] == [
        "public.orders"
    ]


@pytest.mark.parametrize("name", ["sales.Orders", "a.shop__dead_letters"])
def test_two_tables_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"{name} would both be the table[\s\S]*`source_table: {name}`"):
        source(["*.*"]).list_included_tables([*NAMES, name])


@pytest.mark.parametrize("include", [[], {}, 5, ["orders"], [5]])
def test_patterns_name_a_schema(include: Any) -> None:
    with pytest.raises(ConfigError, match="must be a list of tables with their schema"):
        source(include)
