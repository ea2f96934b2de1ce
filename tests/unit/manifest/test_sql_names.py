"""Names of tables in the text of a query: where Spark's SQL may have them, and what is none."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.manifest.sql_names import list_named_tables, replace_names


def mark_names(sql: str) -> str:
    named = list_named_tables(sql, lambda line: f"line {line}")
    texts = (f"{'+' * table.reads_changes}<{table.schema}|{table.name}>" for table in named)
    return replace_names(sql, zip(named, texts, strict=True))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from ods.t, ods.`a``b` x", "select * from <ods|t>, <ods|a`b> x"),
        ("select * from ods . t join ods.2020_t using (id)", "select * from <ods|t> join <ods|2020_t> using (id)"),
        ("from ods.t select a", "from <ods|t> select a"),
        ("select a from ods.t |> where a > 1", "select a from <ods|t> |> where a > 1"),
        ("select t.a from ods.t version as of 3 t", "select t.a from <ods|t> version as of 3 t"),
        ("select (select 1 from ods.u) from ods.t", "select (select 1 from <ods|u>) from <ods|t>"),
        ("(select 1) union all select a from ods.t", "(select 1) union all select a from <ods|t>"),
        ("with c as (select * from ods.t) select * from C", "with c as (select * from <ods|t>) select * from C"),
        ("select * from CHANGES ( ods.t ) c", "select * from +<ods|t> c"),
        ("select * from ods.changes", "select * from <ods|changes>"),
        ("select /*+ broadcast(u) */ 'ods.t' from ods.u", "select /*+ broadcast(u) */ 'ods.t' from <ods|u>"),
        ("select 1 from ods.t -- ods.u\n", "select 1 from <ods|t> -- ods.u\n"),
    ],
)
def test_names_of_tables_are_replaced_in_every_place(sql: str, expected: str) -> None:
    assert mark_names(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "select * from range(3) r",
        "select * from values (1, 2) t(a, b)",
        "select * from other.ods.t",
        "select * from lake.ods.t.history",
        "select * from json.`/files/t`",
        "with recursive r as (select 1 union all select * from r) select * from r",
    ],
)
def test_functions_paths_and_names_with_a_catalog_stay(sql: str) -> None:
    assert mark_names(sql) == sql


@pytest.mark.parametrize(
    ("sql", "line"),
    [("select 1\nfrom t", 2), ("select 1\n\nfrom changes(lake.ods.t)", 3), ("select 1\nfrom ods.t where (", 2)],
)
def test_an_error_has_the_line(sql: str, line: int) -> None:
    with pytest.raises(ConfigError) as raised:
        mark_names(sql)
    assert raised.value.where == f"line {line}"
