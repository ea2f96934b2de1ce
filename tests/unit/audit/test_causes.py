"""Causes from the two texts of a model's query, tried on rows in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pytest

from arctic_runtime.audit.audited_model import AuditedModel, Evidence, collect_evidence
from arctic_runtime.audit.causes import CAUSES, list_rules
from arctic_runtime.audit.comparison import QUERY, TABLE, ComparedColumn, Comparison, build_differences
from arctic_runtime.model.names import TableName

ORDERS = "select id, name, at from lake.s.raw {where}"
NEWER = "where at > (select max(at) from m)"
JOINED = """with orders as (select * from lake.s.raw {where}),
customers as (select * from lake.s.customers),
final as (select orders.id, customers.name, orders.at from orders left join customers on orders.c = customers.id)
select * from final"""
SUMMED = "select id, sum(x) as name, 5 as at from lake.s.raw {where} group by id"
WHOLE_GROUPS = "where id in (select id from lake.s.raw where at > (select max(at) from m))"
COLUMNS = ("id", "name", "at")


def build_model(sql: str, where: str, **given: Any) -> AuditedModel:
    declared = {"key": ("id",), "strategy": "merge", "has_unique_key": True, **given}
    full, incremental = sql.replace("{where}", ""), sql.replace("{where}", where)
    return AuditedModel("m", TableName("lake", "s", "m"), full, incremental, **declared)


def collect(model: AuditedModel, columns: Sequence[str] = COLUMNS) -> Evidence:
    assert model.full_sql is not None
    return collect_evidence(model, columns, model.full_sql)


def find_causes(model: AuditedModel, query: Sequence[Any], table: Sequence[Any]) -> dict[str, str]:
    """The cause of each difference between rows of id, name and at, by its kind."""
    comparison = Comparison(tuple(ComparedColumn(name, name in model.key or not model.key) for name in COLUMNS))
    sql = build_differences(comparison, list_rules(model, comparison, collect(model))).sql(dialect="duckdb")
    with duckdb.connect() as connection:
        for name, rows in ((QUERY, query), (TABLE, table)):
            connection.execute(f"create table {name} (c0 integer, c1 varchar, c2 integer)")
            for row in rows:
                connection.execute(f"insert into {name} values (?, ?, ?)", row)
        connection.execute(f"create view m as select c0 as id, c1 as name, c2 as at from {TABLE}")
        return dict(connection.execute(f"select kind, cause from ({sql})").fetchall())


@pytest.mark.parametrize(
    ("query", "table", "causes"),
    [
        ([(1, "a", 3)], [(2, "b", 5)], {"lost": "late", "left over": "deleted"}),
        ([(1, "a", None), (2, "b", 5)], [(2, "b", 5)], {"lost": "null_time"}),
        ([(1, "new", 3), (2, "b", 5)], [(1, "old", 3), (2, "b", 5)], {"stale": "silent"}),
        ([(1, "new", 4), (2, "b", 5)], [(1, "old", 3), (2, "b", 5)], {"stale": "late"}),
        ([(1, "new", 9), (2, "b", 5)], [(1, "old", 3), (2, "b", 5)], {"stale": "filtered"}),
    ],
)
def test_a_filter_by_the_newest_row_misses_late_rows(query: Any, table: Any, causes: dict[str, str]) -> None:
    assert find_causes(build_model(ORDERS, NEWER), query, table) == causes


def test_a_window_misses_rows_that_are_older() -> None:
    model = build_model("select id, name, at from lake.s.raw {where}", "where at >= year(current_date()) - 3")
    assert find_causes(model, [(1, "a", 2000)], []) == {"lost": "window"}


def test_columns_of_the_other_side_of_a_join_are_told_by_the_filter() -> None:
    model = build_model(JOINED, NEWER)
    assert collect(model).joined == {"name"}
    assert find_causes(model, [(1, "eve", 5)], [(1, "ann", 5)]) == {"stale": "joined"}
    assert find_causes(model, [(1, "eve", 4), (2, "x", 5)], [(1, "ann", 3), (2, "x", 5)]) == {"stale": "late"}


def test_a_filter_on_both_sides_of_a_join_tells_none_of_them() -> None:
    sql = """select o.id, c.name, greatest(o.at, c.at) as at from lake.s.raw as o
        left join lake.s.customers as c on o.c = c.id {where}"""
    evidence = collect(build_model(sql, "where greatest(o.at, c.at) > (select max(at) from lake.s.m)"))
    assert evidence.joined == frozenset()
    assert [one.columns for one in evidence.filters] == [("at",)]


def test_an_aggregate_of_new_rows_is_told_from_one_of_whole_groups() -> None:
    assert collect(build_model(SUMMED, NEWER)).partial == {"name"}
    assert collect(build_model(SUMMED, WHOLE_GROUPS)).partial == frozenset()
    assert find_causes(build_model(SUMMED, NEWER), [(1, "30", 5)], [(1, "10", 5)]) == {"stale": "partial"}


@pytest.mark.parametrize(
    "where",
    [
        "where id not in (select id from lake.s.m)",
        "where not exists (select 1 from lake.s.m as t where t.id = raw.id)",
        "left join lake.s.m as t on t.id = raw.id where t.id is null",
    ],
)
def test_known_keys_that_are_left_out_are_never_updated(where: str) -> None:
    model = build_model("select raw.id, raw.name, raw.at from lake.s.raw as raw {where}", where)
    assert [one.kind for one in collect(model).filters if one.kind != "other"] == ["known_keys"]
    assert find_causes(model, [(1, "new", 3)], [(1, "old", 3)]) == {"stale": "known_keys"}


def test_columns_that_a_merge_leaves_alone_are_named() -> None:
    model = build_model(ORDERS, NEWER, kept_columns=("NAME",))
    assert find_causes(model, [(1, "new", 3)], [(1, "old", 3)]) == {"stale": "not_updated"}
    model = build_model(ORDERS, NEWER, updated_columns=("at",))
    assert find_causes(model, [(1, "new", 3)], [(1, "old", 3)]) == {"stale": "not_updated"}


def test_doubled_rows_come_from_appends_or_from_nulls_in_the_key() -> None:
    model = build_model(ORDERS, NEWER, key=(), strategy="append", has_unique_key=False)
    assert find_causes(model, [(1, "a", 3)], [(1, "a", 3), (1, "a", 3)]) == {"doubled": "appended"}
    model = build_model(ORDERS, NEWER)
    assert find_causes(model, [(1, "a", 3)], [(1, "a", 3), (1, "a", 3)]) == {"doubled": "not_merged"}
    assert find_causes(model, [(None, "a", 3)], [(None, "a", 3), (None, "a", 3)]) == {"doubled": "null_key"}


@pytest.mark.parametrize(
    ("sql", "volatile"),
    [
        ("select id, current_timestamp() as name, at from lake.s.raw", {"name"}),
        ("with x as (select *, uuid() as name from lake.s.raw) select id, name, at from x", {"name"}),
        ("select id, name, at from lake.s.raw where at < year(now())", set()),
        ("select id, 'run 4711' as name, at from lake.s.raw", {"name"}),
        ("select id, name, at from lake.s.a union all select id, uuid() as other, at from lake.s.b", {"name"}),
    ],
)
def test_columns_that_each_run_computes_anew_are_recognised(sql: str, volatile: set[str]) -> None:
    assert collect(build_model(sql, "", constants=("4711",))).volatile == volatile


def test_a_query_that_can_not_be_parsed_gives_no_evidence() -> None:
    assert collect(build_model("select from where", NEWER)) == Evidence()


def test_every_cause_explains_itself_in_one_sentence() -> None:
    for code, cause in CAUSES.items():
        assert cause.code == code
        assert cause.title
        assert not cause.why.endswith(".")
