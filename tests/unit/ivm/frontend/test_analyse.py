"""A query and its tree have the same rows, on random tables with nulls and copies."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.algebra.expressions import build_column
from arctic_runtime.ivm.algebra.refusal import NotMaintained
from arctic_runtime.ivm.algebra.tree import (
    Aggregate,
    Filter,
    Join,
    Node,
    OneRow,
    Projection,
    Scan,
    SpoolScan,
    UnionAll,
    WindowColumns,
    list_columns,
    list_scans,
    walk_tree,
)
from arctic_runtime.ivm.algebra.unique import is_unique
from arctic_runtime.ivm.frontend.analyse import Analysed, analyse_query
from arctic_runtime.ivm.frontend.fresh_attributes import with_fresh_attributes
from arctic_runtime.ivm.frontend.scope import Derived, Names, Relation
from arctic_runtime.ivm.render import build_query, name_input, render_sql
from arctic_runtime.ivm.strategies.maintain import Deltas, plan_maintenance
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from benchmarks.tpch_models import load_tpch
from tests.unit.ivm.analysed_queries import QUERIES, REFUSALS, RELATIONS, VIEWS, random_rows
from tests.unit.ivm.duck import CATALOG, SCHEMA, alias, connect, fetch, load, rows

SEEDS = range(2, 12)


def _spread(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Makes a table known under the name by which a plan reads its newest image."""
    source = TableName(CATALOG, SCHEMA, name)
    alias(con, name_input(source, "new"), source)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with _loaded(1) as con:
        yield con


@contextmanager
def _loaded(seed: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with random tables, and the views that queries read."""
    with connect() as con:
        for name, content in random_rows(random.Random(seed)).items():
            load(con, TableName(CATALOG, SCHEMA, name), RELATIONS[f"lake.raw.{name}"].columns, content)
            _spread(con, name)
        con.execute("create view paid as select id, customer, amount from orders where state = 'paid'")
        con.execute("create view named(item, cost) as select id, price from items")
        con.execute("create view over_views as select p.id, n.cost from paid p, named n where p.id = n.item")
        yield con


def _analyse(sql: str) -> Analysed:
    return analyse_query(sql, RELATIONS, VIEWS, CATALOG, SCHEMA)


def _render_rows(analysis: Analysed) -> str:
    """The tree's rows as the user sees them: columns in their order, and those shown twice twice."""
    picked = [exp.alias_(build_column(made), f"c{place}") for place, (_, made) in enumerate(analysis.outputs)]
    return exp.select(*picked).from_(build_query(analysis.tree).subquery("t")).sql(dialect="spark")


@pytest.mark.parametrize(
    "sql", [pytest.param(sql, marks=[pytest.mark.slow] * (place % 4 > 0)) for place, sql in enumerate(QUERIES)]
)
def test_a_tree_has_the_rows_of_its_query(sql: str, con: duckdb.DuckDBPyConnection) -> None:
    analysis = _analyse(sql)
    assert rows(con, _render_rows(analysis)) == rows(con, sql)


PIVOTS = (
    (
        "select * from (select customer, state, amount from orders) pivot (sum(amount) for state in ('paid', 'open'))",
        "select customer, sum(amount) filter (where state = 'paid') as paid, "
        "sum(amount) filter (where state = 'open') as open from orders group by customer",
    ),
    (
        "select * from (select customer, state from orders) pivot (count(*) for state in ('paid' as p, 'void'))",
        "select customer, nullif(p, 0) as p, nullif(v, 0) as v from (select customer, "
        "count_if(state = 'paid') as p, count_if(state = 'void') as v from orders group by customer)",
    ),
    (
        "select * from (select state, amount from orders where amount > 7) pivot (max(amount) as m, count(amount) as n "
        "for state in ('paid'))",
        "select max(amount) filter (where state = 'paid') as m, case when count(*) filter (where state = 'paid') > 0 "
        "then count(amount) filter (where state = 'paid') end as n from orders where amount > 7",
    ),
    (
        "select u.v, o.id, u.n from orders o join (select * from (select id, customer, amount from orders) "
        "unpivot (v for n in (customer as c, amount))) u on u.id = o.customer",
        "select u.v, o.id, u.n from orders o join (select id, 'c' as n, customer as v from orders "
        "where customer is not null union all select id, 'amount', amount from orders where amount is not null) u "
        "on u.id = o.customer",
    ),
    (
        "select id, v, n from orders unpivot include nulls (v for n in (customer, amount))",
        "select id, customer as v, 'customer' as n from orders union all select id, amount, 'amount' from orders",
    ),
)


@pytest.mark.parametrize(("sql", "same"), PIVOTS)
def test_a_pivot_has_the_rows_of_the_query_that_writes_it_out(
    sql: str, same: str, con: duckdb.DuckDBPyConnection
) -> None:
    assert rows(con, _render_rows(_analyse(sql))) == rows(con, same)


def test_a_row_is_known_by_its_key_and_the_name_of_its_column() -> None:
    analysis = _analyse("select id, n, v from orders unpivot (v for n in (customer, amount))")
    assert is_unique(analysis.tree, [made for name, made in analysis.outputs if name in ("id", "n")])
    assert not is_unique(analysis.tree, [made for name, made in analysis.outputs if name == "id"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_trees_have_the_rows_of_their_queries_for_any_contents_of_tables(seed: int) -> None:
    with _loaded(seed) as con:
        for sql in QUERIES:
            assert rows(con, _render_rows(_analyse(sql))) == rows(con, sql), sql


def test_a_tree_for_another_place_is_the_same_under_names_of_its_own() -> None:
    for sql in QUERIES:
        analysis = _analyse(sql)
        names = Names(
            dict(analysis.types), {scan.key[0] for scan in list_scans(analysis.tree) if scan.key}, count(10_000)
        )
        other = with_fresh_attributes(Derived(analysis.tree, analysis.outputs), names)
        old, new = (build_query(tree).sql(dialect="spark") for tree in (analysis.tree, other.node))
        assert _numbered(new) == _numbered(old), sql
        pairs = dict(zip(_NAMES.findall(old), _NAMES.findall(new), strict=True))
        assert not pairs.keys() & set(pairs.values()), sql
        assert other.fields == tuple((name, pairs[made]) for name, made in analysis.outputs), sql
        assert [names.types.get(new) for new in pairs.values()] == [analysis.types.get(old) for old in pairs], sql
        assert [old in names.never_null for old in pairs] == [new in names.never_null for new in pairs.values()], sql
        assert [scan.key for scan in list_scans(other.node)] == [
            scan.key and tuple(pairs[part] for part in scan.key) for scan in list_scans(analysis.tree)
        ], sql


_NAMES = re.compile(r"`([^`]*#\d+)`")


def _numbered(text: str) -> str:
    """A text with its columns numbered as they come."""
    names: dict[str, str] = {}
    return _NAMES.sub(lambda name: names.setdefault(name[1], f"{name[1].rpartition('#')[0]}#{len(names)}"), text)


@pytest.mark.parametrize(("sql", "reason"), REFUSALS)
def test_what_no_rule_covers_is_refused(sql: str, reason: str) -> None:
    loops = {"lake.raw.loops": "select * from other", "lake.raw.other": "select * from loops"}
    with pytest.raises(NotMaintained) as refused:
        analyse_query(sql, RELATIONS, {**VIEWS, **loops}, CATALOG, SCHEMA)
    assert refused.value.reason == reason


def test_columns_that_nobody_reads_are_left_out_and_keys_stay() -> None:
    analysis = _analyse("select o.amount from orders o join items i on o.id = i.line where o.customer = 1")
    read = {scan.source.name: [field for _, field in scan.fields] for scan in list_scans(analysis.tree)}
    assert read == {"orders": ["id", "customer", "amount"], "items": ["line"]}


def test_a_key_is_named_as_in_the_tree() -> None:
    (scan,) = list_scans(_analyse("select amount from orders").tree)
    assert scan.key == tuple(name for name, field in scan.fields if field == "id")


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 5])
def test_every_source_and_every_projection_keeps_a_column(every: int) -> None:
    for sql in QUERIES[::every]:
        for node in (node for plan in _plans(_analyse(sql).tree) for node in walk_tree(plan)):
            assert list_columns(node) or not isinstance(node, Scan | Projection | UnionAll), (sql, node)


def _plans(tree: Node) -> Iterator[Node]:
    """A tree, and what its maintenance executes whatever changes and whatever its key is."""
    yield tree
    for source in {scan.source for scan in list_scans(tree)}:
        for key in (list_columns(tree)[:1], list_columns(tree)):
            with suppress(NotMaintained):
                plan = plan_maintenance(tree, key, frozenset({source}))
                yield from [plan.changes] if isinstance(plan, Deltas) else [plan.affected, plan.new]


@pytest.mark.parametrize(
    "node",
    [
        OneRow(),
        Filter(OneRow(), exp.true()),
        Aggregate(OneRow(), (), ()),
        Projection(OneRow(), ()),
        SpoolScan("rows_at_hand", ()),
        Scan(TableName(CATALOG, SCHEMA, "settings"), ()),
    ],
)
def test_rows_without_columns_are_still_rows(node: Node, con: duckdb.DuckDBPyConnection) -> None:
    con.execute("create or replace temp view rows_at_hand as select 1 as one")
    assert sum(rows(con, render_sql(node)).values()) == 1


def test_columns_of_values_are_numbered_where_they_have_no_names() -> None:
    analysis = _analyse("select * from values (1, 'a'), (2, null)")
    assert [name for name, _ in analysis.outputs] == ["col1", "col2"]


def test_no_name_is_that_of_two_columns() -> None:
    sql = "with t as (select id, amount + 1 as b from orders) select x.b, y.b as c from t x join t y on x.id = y.id"
    analysis = _analyse(sql)
    names = [name for scan in list_scans(analysis.tree) for name, _ in scan.fields]
    assert len(names) == len(set(names))
    assert [name for name, _ in analysis.outputs] == ["b", "c"]


def test_a_view_completes_names_by_its_own_levels() -> None:
    relations = {"other.place.t": Relation((Column("a", "int"),)), "lake.raw.t": Relation((Column("b", "int"),))}
    query = analyse_query(
        "select * from other.place.v", relations, {"other.place.v": "select * from t"}, CATALOG, SCHEMA
    )
    assert [str(scan.source) for scan in list_scans(query.tree)] == ["other.place.t"]
    assert [name for name, _ in query.outputs] == ["a"]


def test_a_view_hides_no_named_query_and_sees_none() -> None:
    query = analyse_query(
        "with orders as (select id from items) select p.id from paid p", RELATIONS, VIEWS, CATALOG, SCHEMA
    )
    assert [scan.source.name for scan in list_scans(query.tree)] == ["orders"]


def test_names_are_found_in_any_case_and_keep_the_spelling_of_the_table() -> None:
    (scan,) = list_scans(_analyse("select ID from LAKE.RAW.ORDERS").tree)
    assert scan.source == TableName("lake", "raw", "orders")


def test_fields_of_structs_are_reached_through_their_column() -> None:
    relations = {"lake.raw.t": Relation((Column("s", "struct<a:struct<b:int>>"), Column("t", "int")))}
    query = analyse_query("select s.a.b, t.s.a as c, t from t", relations, {}, CATALOG, SCHEMA)
    assert [name for name, _ in query.outputs] == ["b", "c", "t"]
    assert len(list_scans(query.tree)[0].fields) == 2


def test_every_partition_is_a_window_of_its_own() -> None:
    sql = (
        "select sum(amount) over (partition by customer, state) as a, max(id) over (partition by state, customer) as b,"
        " count(*) over () as c from orders"
    )
    windows = [node for node in walk_tree(_analyse(sql).tree) if isinstance(node, WindowColumns)]
    assert sorted(len(node.partition) for node in windows) == [0, 2]


def test_commas_become_joins_under_their_conditions() -> None:
    sql = "select name from customers c, items i, orders o where o.id = i.id and c.customer = o.customer and price > 1"
    joins = [node for node in walk_tree(_analyse(sql).tree) if isinstance(node, Join)]
    assert [isinstance(join.on, exp.EQ) for join in joins] == [True, True]


def test_one_aggregate_asked_for_twice_is_computed_once() -> None:
    analysis = _analyse("select sum(amount) as a, sum(orders.amount) + 1 as b from orders having sum(amount) > 0")
    (aggregate,) = [node for node in walk_tree(analysis.tree) if isinstance(node, Aggregate)]
    assert len(aggregate.aggregates) == 1


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("select id, x from orders lateral view stack(2, id, amount) s as x", "LATERAL VIEW STACK(2,"),
        ("select id, x from orders lateral view inline_outer(pairs) s as x, y", "LATERAL VIEW OUTER INLINE("),
        ("select explode_outer(tags) as x from orders", "LATERAL VIEW OUTER EXPLODE("),
        ("select posexplode_outer(tags) as (p, x) from orders", "LATERAL VIEW OUTER POSEXPLODE("),
        ("select stack(2, id, amount) as (x) from orders", "LATERAL VIEW STACK(2,"),
        ("select date_trunc('MM', made) as m from orders", "DATE_TRUNC('MM',"),
        ("select dateadd(day, 1, made) as m from orders", "DATEADD(day, 1,"),
        (
            "select percentile_cont(0.5) within group (order by id) as m from orders",
            "PERCENTILE_CONT(0.5) WITHIN GROUP",
        ),
        ("select array(id, amount)[0] as m from orders", "ARRAY(`id"),
        ("select listagg(amount) as m from orders", "LISTAGG(`amount#2`) "),
        ("select percentile(amount, 0.5, id) as m from orders", "PERCENTILE(`amount#2`, 0.5, `id#0`)"),
        ("select max_by(amount, id) as m from orders", "MAX_BY(`amount#2`, `id#0`)"),
        ("select max(struct(amount, o.id)).id as m from orders o", "STRUCT(`amount#2` AS `amount`, `id#0` AS `id`)"),
        ("select array((amount, (id))) as m from orders", "ARRAY(STRUCT(`amount#2` AS `amount`, `id#0` AS `id`))"),
        ("select ((id, id + 1), (customer)) as m from orders", "STRUCT(`id#0` AS `id`, `id#0` + 1), `customer#1` AS"),
        ("select id from orders where ((id, amount)) in ((1, 2))", "((`id#0`, `amount#2`)) IN ((1, 2))"),
        ("select first(amount, true) as m from orders", "IGNORE NULLS"),
    ],
)
def test_functions_are_written_back_as_they_were(sql: str, kept: str) -> None:
    orders = RELATIONS["lake.raw.orders"]
    more = (Column("pairs", "array<struct<a:int,b:int>>"), Column("made", "date"))
    relations = {"lake.raw.orders": Relation((*orders.columns, *more), orders.key)}
    assert kept in render_sql(analyse_query(sql, relations, {}, CATALOG, SCHEMA).tree)


@pytest.fixture(scope="module")
def tpch() -> Iterator[tuple[duckdb.DuckDBPyConnection, tuple[str, ...]]]:
    with connect() as con:
        queries = load_tpch(con, 0.01)
        for (name,) in con.execute("select table_name from information_schema.tables").fetchall():
            _spread(con, name)
        yield con, queries


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, 23))
def test_a_tree_has_the_rows_of_its_query_in_tpch(
    number: int, tpch: tuple[duckdb.DuckDBPyConnection, tuple[str, ...]]
) -> None:
    con, queries = tpch
    parsed = sqlglot.parse_one(queries[number - 1], dialect="duckdb")
    parsed.set("limit", None)
    query = analyse_query(parsed.sql(dialect="spark"), _tpch_relations(con), {}, CATALOG, SCHEMA)
    con.execute("pragma enable_optimizer")
    expected = fetch(con, parsed.sql(dialect="duckdb"))
    con.execute("pragma disable_optimizer")
    assert rows(con, _render_rows(query)) == expected


def _tpch_relations(con: duckdb.DuckDBPyConnection) -> dict[str, Relation]:
    """What the standard says of its tables: types, and that nothing is null."""
    columns: dict[str, list[Column]] = {}
    listed = con.execute("select table_name, column_name, data_type from information_schema.columns").fetchall()
    for table, name, of_type in listed:
        columns.setdefault(table, []).append(Column(name, exp.DataType.build(of_type, dialect="duckdb").sql("spark")))
    return {
        f"{CATALOG}.{SCHEMA}.{table}": Relation(tuple(own), not_null=tuple(part.name for part in own))
        for table, own in columns.items()
    }
