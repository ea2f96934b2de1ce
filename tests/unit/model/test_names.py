"""Names: any text that a catalog can keep survives the way into a query and back."""

from __future__ import annotations

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.names import (
    TableName,
    format_changes_view,
    format_history_view,
    list_changes_read,
    parse_table_name,
    replace_with_history,
)
from arctic_runtime.spark.engine.statement import quote_name as quoted

ORDERS = TableName("lake", "dwd", "orders")

_sharp = st.sampled_from("aZ09_ `'\".%()$#?;,-2E5é日🎉")
_any = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\")
_parts = st.text(_sharp | _any, min_size=1, max_size=8).filter(lambda part: part not in (".", ".."))
_names = st.builds(TableName, _parts, _parts, _parts)


@settings(max_examples=50)
@given(_names)
@example(TableName("a.b", "`c`", "%2E"))
@example(TableName("(", ")", "``"))
@example(TableName("%25", "%", "changes(a.b.c)"))
@example(TableName('"', "'", "--"))
def test_changes_are_read_under_a_name_that_leads_back_to_the_table_for_any_table_name(source: TableName) -> None:
    assert list_changes_read(f"select * from {quoted(format_changes_view(source))} where true") == (source,)


@settings(max_examples=25)
@given(_names)
def test_the_name_of_changes_is_one_identifier_to_a_parser(source: TableName) -> None:
    tree = sqlglot.parse_one(f"select * from {quoted(format_changes_view(source))}", dialect="spark")
    (table,) = tree.find_all(exp.Table)
    assert (table.catalog, table.db, table.name) == ("", "", format_changes_view(source))


@settings(max_examples=25)
@given(st.lists(_names, min_size=1, max_size=3))
def test_changes_are_found_in_order_of_appearance_each_table_once(sources: list[TableName]) -> None:
    sql = "select 1 from " + " join ".join(quoted(format_changes_view(source)) for source in sources * 2)
    assert list_changes_read(sql) == tuple(dict.fromkeys(sources))


@settings(max_examples=25)
@given(_names, _names)
def test_history_is_read_under_views_of_its_own(source: TableName, other: TableName) -> None:
    sql = "select {0}.a, 'x' from {0} join {1}"
    new = sql.format(quoted(format_changes_view(source)), quoted(format_changes_view(other)))
    seen = replace_with_history("seen", new)
    assert seen == sql.format(quoted(format_history_view("seen", source)), quoted(format_history_view("seen", other)))
    assert list_changes_read(seen) == ()


@pytest.mark.parametrize(
    "sql",
    [
        "select * from orders",
        "select changes(a.b.c) from orders",
        "select * from `changes(orders)`",
        "select * from `changes(dwd.orders)`",
        "select * from `changes(a.b.c.d)`",
        "select * from `my changes(a.b.c)`",
    ],
)
def test_other_names_are_never_taken_for_changes(sql: str) -> None:
    assert list_changes_read(sql) == ()


@pytest.mark.parametrize("part", ["", ".", "..", "a/b", "/", "a\\b", "a\nb", "\x00", "a\x7f", "a\ud800"])
@pytest.mark.parametrize("place", range(3))
def test_a_part_that_no_catalog_can_keep_is_refused(part: str, place: int) -> None:
    parts = ["lake", "dwd", "orders"]
    parts[place] = part
    with pytest.raises(ConfigError, match="is not a valid part of a table name") as raised:
        TableName(*parts)
    assert repr(part) in str(raised.value)
    assert "alias" in str(raised.value)


def test_no_control_character_gets_into_a_name() -> None:
    for code in (*range(32), 127):
        with pytest.raises(ConfigError):
            ORDERS.with_name(f"a{chr(code)}b")


def test_the_relations_of_a_table_share_its_schema() -> None:
    assert ORDERS.changes == TableName("lake", "dwd", "orders__changes")
    assert ORDERS.base == TableName("lake", "dwd", "orders__base")
    assert ORDERS.with_name("x") == TableName("lake", "dwd", "x")
    assert ORDERS.to_branch_parts("arctic_1") == ("lake", "dwd", "orders", "branch_arctic_1")
    assert str(ORDERS) == "lake.dwd.orders"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("lake", "ods", "t")),
        ("raw.t", ("lake", "raw", "t")),
        ("other.raw.t", ("other", "raw", "t")),
        ("`a.b`.`c``d`", ("lake", "a.b", "c`d")),
    ],
)
def test_a_table_is_named_in_one_to_three_levels(text: str, parts: tuple[str, ...]) -> None:
    assert parse_table_name(text, TableName("lake", "ods", "m")).parts == parts


@pytest.mark.parametrize("text", ["", "a b", "a.b.c.d", "a..b", "`a", "t; drop table t"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid table name"):
        parse_table_name(text, TableName("lake", "ods", "m"))
