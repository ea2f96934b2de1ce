# ruff: noqa: E501
"""Columns of unlike types are compared as the query compares them, and none stands for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from arctic_runtime.ivm.algebra import inferred_types as inferred
from arctic_runtime.ivm.algebra.aggregate_functions import AGGREGATE_FUNCTIONS, find_aggregate_function
from arctic_runtime.ivm.algebra.conditions import Equality, list_equalities
from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    MULTIPLICITY,
    Filter,
    Join,
    Node,
    Projection,
    SemiJoin,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.functions import parse_query
from arctic_runtime.ivm.frontend.scope import Names, Relation
from arctic_runtime.ivm.frontend.type_coercion import find_common_type, is_comparison_lossless, mark_unlike
from arctic_runtime.ivm.render import build_query, name_input, render_sql
from arctic_runtime.ivm.strategies.maintain import AFFECTED, AffectedKeys, Deltas, plan_maintenance
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect, fetch, load, rows
from tests.unit.ivm.trees import condition, netted
from tests.unit.ivm.typed import COLUMNS, TYPED

CODES = (Column("code", "string"), Column("label", "string"))
NUMBERS = (Column("number", "int"), Column("amount", "int"))
PRICES = (Column("price", "decimal(5,2)"), Column("tag", "string"))
RELATIONS = {
    "lake.raw.codes": Relation(CODES, key=("code",)),
    "lake.raw.numbers": Relation(NUMBERS, key=("number",)),
    "lake.raw.prices": Relation(PRICES, key=("price",)),
}

Rows = list[tuple[Any, ...]]

OLD: dict[str, Rows] = {
    "codes": [("07", "a"), ("7", "b"), (" 7", "c"), ("8", "d"), ("+9", "e")],
    "numbers": [(7, 70), (8, 80), (5, 50), (1, 7)],
    "prices": [(7, "x"), (8, "y"), (5.25, "z")],
}

BATCHES: dict[str, dict[str, Rows]] = {
    "one of several alike came": {"codes": [*OLD["codes"], ("007", "f"), ("5", "g")]},
    "one of several alike went": {"codes": OLD["codes"][1:]},
    "one of several alike changed": {"codes": [("07", "a"), ("7", "z"), *OLD["codes"][2:]]},
    "a number came and another went": {"numbers": [(7, 71), (9, 90), (5, 50)]},
    "a price became another": {"prices": [(7, "v"), (1, "y"), (5.25, "z")]},
    "both sides changed": {"codes": [("7", "b"), ("08", "h")], "numbers": [(8, 81), (9, 1)]},
    "all three changed": {"codes": [("007", "b")], "numbers": [(7, 7), (6, 8)], "prices": [(6, "y"), (7, "n")]},
}

QUERIES: dict[str, tuple[str, str]] = {
    "inner join": ("select code, label, amount from codes join numbers on code = number", "code"),
    "by the other's key": ("select number, code, label from codes join numbers on code = number", "number code"),
    "left join": ("select number, amount, code from numbers left join codes on number = code", "number code"),
    "left join to the key": ("select code, amount from codes left join numbers on number = code", "code"),
    "the other's column as the key": ("select number, max(label) as m from codes, numbers where code = number group by number", "number"),
    "groups of text": ("select code, count(number) as n from codes left join numbers on number = code group by code", "code"),
    "full join": ("select code, number, amount from codes full join numbers on code = number", "code number"),
    "in": ("select code, label from codes where code in (select number from numbers)", "code"),
    "in, the other way round": ("select number, amount from numbers where number in (select code from codes)", "number"),
    "exists": ("select number from numbers n where not exists (select 1 from codes c where c.code = n.number)", "number"),
    "exists among groups": (
        "select number from numbers where number in (select code from codes group by code having count(*) = 1)",
        "number",
    ),
    "a constant": ("select label, code from codes where code = 7", "label"),
    "an equality of what is grouped": (
        "select code, n from (select code, count(*) as n from codes group by code) join numbers on code = n",
        "code",
    ),
    "over a projection of a constant": (
        "select label from codes join (select 7 as seven, number from numbers) on code = seven and number = 8",
        "label",
    ),
    "a comparison selected first": (
        "select number, code from (select number, code, number = code as alike from numbers, codes) where alike",
        "number code",
    ),
    "two exact numbers": ("select number, tag from numbers join prices on number = price", "number"),
    "text of a union": (
        "select cast(x as string) as shown, count(*) as n from (select number as x from numbers union all"
        " select price from prices) group by 1",
        "shown",
    ),
    "text of a difference": (
        "select cast(x as string) as shown from (select price as x from prices except select number from numbers)",
        "shown",
    ),
    "text of an exact number": (
        "select cast(price as string) as shown, amount from numbers join prices on price = number",
        "shown",
    ),
    "text of the other exact number": (
        "select cast(number as string) as shown, tag from prices left join numbers on number = price",
        "shown tag",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as con:
        yield con


def _analyse(sql: str) -> Analysed:
    return analyse_query(sql, RELATIONS, {}, CATALOG, SCHEMA)


def _load(con: duckdb.DuckDBPyConnection, new: dict[str, Rows]) -> None:
    for name, before in OLD.items():
        source, own = TableName(CATALOG, SCHEMA, name), RELATIONS[f"lake.raw.{name}"].columns
        came, went = Counter(new[name]) - Counter(before), Counter(before) - Counter(new[name])
        delta = [*((*row, 1) for row in came.elements()), *((*row, -1) for row in went.elements())]
        load(con, name, own, new[name])
        load(con, name_input(source, "old"), own, before)
        load(con, name_input(source, "new"), own, new[name])
        load(con, name_input(source, "either"), own, [*new[name], *went.elements()])
        load(con, name_input(source, "delta"), (*own, Column(MULTIPLICITY, "int")), delta)


def _result(con: duckdb.DuckDBPyConnection, analysed: Analysed, image: str) -> Counter[tuple[Any, ...]]:
    tree = build_query(analysed.tree).sql(dialect="duckdb")
    return fetch(con, tree if image == "new" else tree.replace(_prefix("new"), _prefix(image)))


def _prefix(image: Any) -> str:
    return name_input(TableName(CATALOG, SCHEMA, "x"), image).split(CATALOG)[0]


QUICK = ("one of several alike changed",)
"""What every run tries."""


@pytest.mark.parametrize(
    "batch", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in BATCHES if name not in QUICK)]
)
def test_a_result_follows_what_equals_it_by_a_cast(con: duckdb.DuckDBPyConnection, batch: str) -> None:
    new = {**OLD, **BATCHES[batch]}
    _load(con, new)
    for name, (sql, key) in QUERIES.items():
        analysed = _analyse(sql)
        made = tuple(output for wanted in key.split() for own, output in analysed.outputs if own == wanted)
        changed = frozenset(TableName(CATALOG, SCHEMA, table) for table in BATCHES[batch])
        old, expected = _result(con, analysed, "old"), _result(con, analysed, "new")
        assert " in (" in sql or expected == rows(con, sql), name  # of unlike types DuckDB has no IN
        try:
            plan = plan_maintenance(analysed.tree, made, changed)
        except NotMaintained as refused:
            assert refused.reason in ("NOTHING_NEW", "EVERYTHING_AFFECTED")  # noqa: PT017
            continue
        assert _maintained(con, analysed.tree, plan, old, made) == expected, name


def _maintained(
    con: duckdb.DuckDBPyConnection,
    tree: Node,
    plan: Deltas | AffectedKeys,
    old: Counter[tuple[Any, ...]],
    key: Sequence[str],
) -> Counter[tuple[Any, ...]]:
    if isinstance(plan, Deltas):
        after = old.copy()
        after.update(netted(fetch(con, build_query(plan.changes).sql(dialect="duckdb"))))
        return +after
    made = exp.Create(
        this=exp.Table(this=exp.to_identifier(AFFECTED, quoted=True)),
        kind="TABLE",
        replace=True,
        expression=build_query(plan.affected),
    )
    con.execute(made.sql(dialect="duckdb"))
    affected = set(fetch(con, f"from {AFFECTED}"))
    places = [list_columns(tree).index(name) for name in key]
    kept = {row: copies for row, copies in old.items() if tuple(row[place] for place in places) not in affected}
    return Counter(kept) + fetch(con, build_query(plan.new).sql(dialect="duckdb"))


def _conditions(node: Node) -> list[exp.Expr]:
    return [part.on for part in walk_tree(node) if isinstance(part, Join | SemiJoin) and part.on is not None]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from codes join numbers on code = number",
        "select * from codes full join numbers on number <=> code",
        "select * from codes c join (select number as code, amount from numbers) using (code)",
        "select code from codes where code in (select number from numbers)",
        "select code from codes where exists (select 1 from numbers where number = code)",
        "select code from codes, numbers group by code, number having code = number",
    ],
)
def test_no_unlike_columns_are_called_equal(sql: str) -> None:
    tree = _analyse(sql).tree
    below = [part for part in walk_tree(tree) if isinstance(part, Join | SemiJoin | Filter)]
    conditions = [part.condition if isinstance(part, Filter) else part.on for part in below]
    asked = [part for part in conditions if part is not None]
    names = [name for scan in list_scans(tree) for name, _ in scan.fields]
    assert len(asked) == 1
    assert list_equalities(asked[0], names, names) == ()
    assert render_sql(tree).count("COALESCE(") == 2


def test_unlike_columns_are_still_a_link_to_find_rows_by() -> None:
    analysed = _analyse("select number, amount from numbers left join codes on number = code")
    plan = plan_maintenance(analysed.tree, (analysed.outputs[0][1],), frozenset({TableName(CATALOG, SCHEMA, "codes")}))
    assert isinstance(plan, AffectedKeys)
    assert {(scan.source.name, scan.image) for scan in list_scans(plan.affected)} == {
        ("codes", "delta"),
        ("numbers", "new"),
    }
    assert ["COALESCE" in on.sql() for on in _conditions(plan.affected)] == [True]


def test_two_exact_numbers_identify_rows_but_do_not_stand_for_each_other() -> None:
    sql = "select number, tag from numbers left join prices on number = price"
    analysed = _analyse(sql)
    (on,) = _conditions(analysed.tree)
    left, right = (tuple(name for name, _ in scan.fields) for scan in list_scans(analysed.tree))
    assert list_equalities(on, left, right) == (Equality(left[0], right[0], False, same=False),)
    everything = frozenset(scan.source for scan in list_scans(analysed.tree))
    assert isinstance(plan_maintenance(analysed.tree, (analysed.outputs[0][1],), everything), Deltas)


def test_like_columns_stay_as_they_are() -> None:
    sql = (
        "select a.code from codes a join codes b on a.code = b.label where a.label = 'x' and b.code = cast(7 as string)"
    )
    assert "COALESCE" not in render_sql(_analyse(sql).tree)


def test_a_constant_of_another_type_leaves_several_values() -> None:
    types = {
        text: "COALESCE" in render_sql(_analyse(f"select 1 as one from {table} where {text}").tree)
        for table, text in (
            ("codes", "code = 7"),
            ("codes", "code = '7'"),
            ("codes", "7 <=> code"),
            ("numbers", "number = 7"),
            ("numbers", "number = 7.5"),
            ("numbers", "number = '7'"),
        )
    }
    assert types == {
        "code = 7": True,
        "code = '7'": False,
        "7 <=> code": True,
        "number = 7": False,
        "number = 7.5": False,
        "number = '7'": True,
    }


ALIKE = (
    ("int", "bigint"),
    ("decimal(10,2)", "bigint"),
    ("string", "varchar(3)"),
    ("date", "date"),
    ("double", "double"),
)
UNLIKE = (
    ("int", "string"),
    ("decimal(38,20)", "decimal(38,0)"),
    ("date", "timestamp"),
    ("int", "double"),
    ("string collate utf8_lcase", "string collate utf8_lcase"),
    ("char(3)", "string"),
    (None, None),
)  # fmt: skip


@pytest.mark.parametrize(("left", "right"), [*ALIKE, *UNLIKE])
def test_types_correspond_where_comparing_keeps_values_apart(left: str | None, right: str | None) -> None:
    assert is_comparison_lossless(left, right) == is_comparison_lossless(right, left) == ((left, right) in ALIKE)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("int", "bigint", "bigint"),
        ("decimal(10, 2)", "int", "decimal(12,2)"),
        ("decimal(5,3)", "decimal(6,2)", "decimal(7,3)"),
        ("float", "double", "double"),
        ("decimal(5,3)", "double", "double"),
        ("date", "timestamp", "timestamp"),
        ("decimal(38,20)", "decimal(38,0)", None),
        ("string", "int", None),
        ("float", "int", None),
        ("timestamp", "timestamp_ntz", None),
    ],
)
def test_two_types_in_one_column_have_a_common_one_where_that_is_certain(
    left: str, right: str, expected: str | None
) -> None:
    assert find_common_type(left, right) == find_common_type(right, left) == expected


def test_sides_of_a_union_are_cast_as_it_would_cast_them_itself() -> None:
    shown = render_sql(_analyse("select number, tag from numbers, prices union all select price, 'x' from prices").tree)
    assert shown.count("CAST(") == 2
    assert "CAST(`number#0` AS DECIMAL(12, 2))" in shown


@pytest.mark.parametrize(("text", "expected"), TYPED.items())
def test_a_type_is_inferred_if_it_is_certain(text: str, expected: str | None) -> None:
    value = parse_query(f"select {text}").expressions[0]
    assert Names(dict(COLUMNS)).type_of(value) == expected


def test_floats_are_not_taken_for_each_other() -> None:
    tree = Projection(
        Filter(list_scans(_analyse("select number, amount from numbers").tree)[0], condition("`x` = `y`")),
        (("z", build_column("x")),),
    )
    types = [
        part for part in walk_tree(mark_unlike(tree, Names({"x": "double", "y": "double"}))) if isinstance(part, Filter)
    ]
    assert types[0].condition == condition("coalesce(`x`) = `y`")


def test_each_inferred_type_is_compared_with_sparks() -> None:
    nodes = [part for text, of_type in TYPED.items() if of_type for part in parse_query(f"select {text}").walk()]
    calls = {(part.name.upper(), len(part.expressions)) for part in nodes if isinstance(part, exp.Anonymous)}
    assert calls >= set(inferred.FUNCTION_TYPES)
    assert {name for name, _ in calls} >= inferred.TEXT_FUNCTIONS
    assert {type(part) for part in nodes} >= {*inferred.ALWAYS_TYPES, *inferred.SAME_TYPE} - {
        exp.IgnoreNulls,
        exp.RespectNulls,
    }
    typed = {function.name for function in AGGREGATE_FUNCTIONS if function.infer_type is not None}
    assert {function.name for function in map(find_aggregate_function, nodes) if function is not None} >= typed
