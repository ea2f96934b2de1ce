"""Which joins shuffle rows, by the buckets of their sides, with every reason."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.rewrite.join_placement import describe_joins
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.layout import Placement
from arctic_runtime.model.names import TableName

A, B, C = (TableName("lake", "dwd", name) for name in "abc")
COLUMNS = (Column("id", "int"), Column("k", "int"), Column("v", "bigint"))
PLACED = {A: Placement("id", (8,)), B: Placement("ID", (8,))}


def describe(sql: str, **placed: Placement) -> tuple[str, ...]:
    relations = {str(table): Relation(COLUMNS, ("id",), ()) for table in (A, B, C)}
    where = {**PLACED, **{TableName("lake", "dwd", name): value for name, value in placed.items()}}
    return describe_joins(analyse_query(sql, relations, {}, "lake", "dwd").tree, where)


PAIR = "lake.dwd.a and lake.dwd.b are joined"


@pytest.mark.parametrize(
    "sql",
    [
        "select a.id, b.v from a join b on a.id = b.id",
        "select a.id, b.v from a left join b on b.id = a.id and a.v > b.v",
        "select a.id, b.v from a, b where a.id = b.id and a.k = 1",
        "select x.n, b.v from (select id as n, v + 1 as w from a where k > 2) as x join b on x.n = b.id and x.w = b.k",
        "select id from a where exists (select 1 from b where b.id = a.id)",
        "select id from a where id in (select id from b)",
    ],
)
def test_equally_bucketed_tables_are_joined_without_a_shuffle(sql: str) -> None:
    assert describe(sql) == (f"{PAIR} without a shuffle",)


@pytest.mark.parametrize(
    ("sql", "placed", "reason"),
    [
        ("a.id = b.k", {}, "they are bucketed by id and ID, but the join compares id = k; set `hash_key`"),
        ("a.id = b.v", {}, "but the join compares no columns of the same type"),
        ("a.v > b.v", {}, "but the join compares no columns of the same type"),
        ("a.id = b.id", {"b": Placement("id", (8, 16))}, "lake.dwd.b has files in 8 and 16 buckets, until"),
        ("a.id = b.id", {"b": Placement("id", (8,), ("d", "V"))}, "lake.dwd.b is also partitioned by V, which"),
        ("a.id = b.id", {"b": Placement("id", (16,))}, "lake.dwd.a has 8 buckets and lake.dwd.b has 16"),
        ("a.id = b.id", {"a": Placement(otherwise="is elsewhere")}, "lake.dwd.a is elsewhere"),
    ],
)
def test_why_rows_are_shuffled_is_described(sql: str, placed: dict[str, Placement], reason: str) -> None:
    (line,) = describe(f"select a.id, b.v from a join b on {sql}", **placed)
    assert line.startswith(f"{PAIR} with a shuffle: ")
    assert reason in line


def test_a_table_without_buckets_is_described_as_not_bucketed() -> None:
    (line,) = describe("select a.id, c.v from a join c on a.id = c.id")
    assert line == "lake.dwd.a and lake.dwd.c are joined with a shuffle: lake.dwd.c is not bucketed"


def test_of_what_spark_makes_itself_nothing_is_described() -> None:
    assert describe("select a.id, g.n from a join (select k, count(*) as n from b group by k) as g on a.id = g.k") == ()
    assert describe("select id from a") == ()
    lines = describe("select a.id from a join b on a.id = b.id join c on c.id = a.id")
    assert lines == (f"{PAIR} without a shuffle",)
