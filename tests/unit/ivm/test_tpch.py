"""The queries of TPC-H, kept up with five batches of changes by the rules alone.

A batch inserts orders with their lines, deletes others, and updates rows of every table that TPC-H would ever update;
foreign keys move too. Queries without groups of their own have one row, and say so unless totals are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.frontend.analyse import analyse_query
from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.ivm.strategies.maintain import Facts
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from benchmarks import tpch_models
from benchmarks.tpch_models import KEYS, load_tpch
from tests.unit.ivm.duck import CATALOG, SCHEMA, connect
from tests.unit.ivm.kept import Kept, compute, differing, follow, keep_old, make_images

pytestmark = pytest.mark.slow

RESULT_KEYS = {**tpch_models.RESULT_KEYS, 23: "l_orderkey l_linenumber"}
"""What identifies a row of each query's result, LINES among them; all others have one row."""

REFUSED = {
    6: "ONE_ROW",
    14: "ONE_ROW",
    17: "ONE_ROW",
    19: "ONE_ROW",
}
"""Queries with one row."""

ADDED_UP = frozenset({1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 19, 21, 22})
"""Queries that follow from totals; with these kept, those of one row are no longer refused."""

LINES = (
    "select l_orderkey, l_linenumber, l_quantity * ps_supplycost as cost, o_orderdate, c_name, n_name, p_name"
    " from lineitem join orders on l_orderkey = o_orderkey left join customer on c_custkey = o_custkey"
    " left join nation on n_nationkey = c_nationkey join part on p_partkey = l_partkey"
    " left join partsupp on ps_partkey = l_partkey and ps_suppkey = l_suppkey"
    " where p_size > 10 and not exists (select 1 from supplier where s_suppkey = l_suppkey and s_acctbal < 0)"
)
"""One query more, without groups, for which changes are joined."""

CHANGES = (
    (
        "orders",
        "create or replace temp table born as select o_orderkey as k, o_orderkey + 1000000 * {batch} as n "
        "from orders where hash(o_orderkey, {batch}) % 97 = 0 and o_orderkey < 1000000",
    ),
    (
        "orders",
        "insert into orders select orders.* replace (n as o_orderkey) from orders join born on k = o_orderkey",
    ),
    (
        "lineitem",
        "insert into lineitem select lineitem.* replace (n as l_orderkey) from lineitem join born on k = l_orderkey",
    ),
    (
        "orders",
        "create or replace temp table dead as select o_orderkey as k from orders where hash(o_orderkey, "
        "{batch}) % 89 = 1",
    ),
    (
        "orders",
        "delete from orders where o_orderkey in (select k from dead)",
    ),
    (
        "lineitem",
        "delete from lineitem where l_orderkey in (select k from dead)",
    ),
    (
        "orders",
        "update orders set o_custkey = 1 + hash(o_custkey, {batch}) % 1500, o_orderstatus = 'F', o_orderdate "
        "= o_orderdate + 31, o_orderpriority = '1-URGENT' where hash(o_orderkey, {batch}) % 71 = 2",
    ),
    (
        "lineitem",
        "update lineitem set l_quantity = l_quantity + 40, l_receiptdate = l_receiptdate + 9 * "
        "(hash(l_comment) % 3)::int, l_shipmode = 'MAIL', l_returnflag = 'R', l_discount = 0.06, l_suppkey = "
        "1 + hash(l_suppkey, {batch}) % 100 where hash(l_orderkey, l_linenumber, {batch}) % 61 = 3",
    ),
    (
        "lineitem",
        "update lineitem set l_quantity = 5, l_shipmode = 'AIR', l_shipinstruct = 'DELIVER IN PERSON' where "
        "hash(l_orderkey, l_linenumber, {batch}) % 67 = 8",
    ),
    (
        "customer",
        "update customer set c_nationkey = hash(c_custkey, {batch}) % 25, c_mktsegment = 'BUILDING', "
        "c_acctbal = c_acctbal * -1 where hash(c_custkey, {batch}) % 53 = 4",
    ),
    (
        "part",
        "update part set p_brand = 'Brand#23', p_container = 'MED BOX', p_size = 15, p_type = 'STANDARD "
        "BRASS', p_name = 'forest green' where hash(p_partkey, {batch}) % 59 = 5",
    ),
    (
        "part",
        "update part set p_brand = 'Brand#12', p_container = 'SM BOX', p_size = 3, p_type = 'ECONOMY ANODIZED"
        " STEEL' where hash(p_partkey, {batch}) % 41 = 9",
    ),
    (
        "supplier",
        "update supplier set s_nationkey = hash(s_suppkey, {batch}) % 25, s_comment = 'Customer Complaints' "
        "where hash(s_suppkey, {batch}) % 17 = 6",
    ),
    (
        "partsupp",
        "update partsupp set ps_availqty = ps_availqty * 2, ps_supplycost = ps_supplycost - 1 where "
        "hash(ps_partkey, ps_suppkey, {batch}) % 47 = 7",
    ),
)
"""The table that a statement needs to be changed, and the statement."""

LITTLE = frozenset(TableName(CATALOG, SCHEMA, table) for table in ("supplier", "nation", "region"))
"""Tables that are read as a whole beside totals."""

EVERYTHING = frozenset(KEYS) - {"nation", "region"}

BATCHES = (
    EVERYTHING,
    EVERYTHING,
    frozenset({"orders", "lineitem"}),
    frozenset({"customer", "supplier"}),
    frozenset({"part", "partsupp"}),
)
"""The tables that each batch changes."""


MACROS = (
    "create macro average_of(total, number) as (sign(total)::int * ((2 * abs((total::decimal(30, 2) * "
    "100::decimal(3, 0))::hugeint * 10000) + number) // (2 * number)))::decimal(24, 0) * 0.000001::decimal(6, 6)",
    "create macro quotient_of(total, number) as ((total::decimal(30, 6) * 1000000::decimal(7, 0))::hugeint "
    "// number::hugeint)::decimal(24, 0) * 0.000001::decimal(6, 6)",
)
"""Spark's average of amounts of money, and the one quotient that is taken of these to compute it from totals.

DuckDB would make floating point of either.
"""


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as con:
        con.execute("pragma enable_optimizer")
        for macro in MACROS:
            con.execute(macro)
        yield con


@pytest.mark.parametrize("few_rows", [False, True])
def test_every_result_is_that_of_its_query_after_each_batch(con: duckdb.DuckDBPyConnection, few_rows: bool) -> None:
    queries = enumerate((*load_tpch(con, 0.01), LINES), start=1)
    kept = [_kept(con, number, sql, few_rows) for number, sql in queries]
    shown: dict[int, list[str]] = {one.number: [] for one in kept}
    moved: Counter[int] = Counter()
    for batch, tables in enumerate(BATCHES, start=1):
        changed = _change(con, batch, tables)
        for one in kept:
            moved[one.number] += differing(con, one)
            shown[one.number].append(follow(con, one, changed))
            assert differing(con, one) == 0, (one.number, batch)
    lines = (
        f"{''.join(f'{text:>23}' for text in value)} {moved[number]:>9} rows moved" for number, value in shown.items()
    )
    print("", *(f"Q{number:<3}{line}" for number, line in zip(shown, lines, strict=True)), sep="\n")
    assert all(moved[one.number] for one in kept)
    added_up = ADDED_UP if few_rows else frozenset()
    refused = {number: reason for number, reason in REFUSED.items() if number not in added_up}
    assert {number for number, value in shown.items() if value[0].startswith("totals")} == added_up
    assert {number: value[0] for number, value in shown.items() if value[0].isupper()} == refused
    assert all(shown[number][1].startswith(value[0].split()[0]) for number, value in shown.items())
    assert {text for reasons in shown.values() for text in reasons if text.isupper()} == {
        *refused.values(),
        "NOTHING_NEW",
    }


def _kept(con: duckdb.DuckDBPyConnection, number: int, text: str, few_rows: bool) -> Kept:
    parsed = sqlglot.parse_one(text, dialect="duckdb")
    parsed.set("limit", None)
    analysed = analyse_query(parsed.sql(dialect="spark"), _relations(con), {}, CATALOG, SCHEMA)
    if few_rows and number in ADDED_UP:
        _average_exactly(parsed)
    tables = frozenset(TableName(CATALOG, SCHEMA, table) for table in KEYS)
    filter_sources = dict.fromkeys(tables, tables) if few_rows else {}
    facts = Facts(types=analysed.types, few_rows=few_rows, filter_sources=filter_sources, few_row_sources=LITTLE)
    outputs = dict(analysed.outputs)
    key = tuple(outputs[name] for name in RESULT_KEYS.get(number, "").split())
    query = Kept(number, parsed.sql(dialect="duckdb"), analysed, facts, key)
    compute(con, query)
    return query


def _average_exactly(parsed: exp.Expr) -> None:
    for call in list(parsed.find_all(exp.Avg)):
        value = call.this
        parts = [exp.Sum(this=value), exp.Count(this=value.copy())]
        call.replace(exp.Anonymous(this="average_of", expressions=parts))


def _relations(con: duckdb.DuckDBPyConnection) -> dict[str, Relation]:
    """What the standard says of its tables: types, keys, and that nothing is null."""
    refused = {}
    for table, key in KEYS.items():
        listed = con.execute(f"select column_name, column_type from (describe {table})").fetchall()
        own = tuple(Column(name, exp.DataType.build(kind, dialect="duckdb").sql("spark")) for name, kind in listed)
        names = tuple(part.name for part in own)
        refused[f"{CATALOG}.{SCHEMA}.{table}"] = Relation(own, tuple(key.split()), names)
    return refused


def _change(con: duckdb.DuckDBPyConnection, batch: int, tables: frozenset[str]) -> frozenset[TableName]:
    """Changes the tables, and makes the images by which trees read them."""
    keep_old(con, KEYS)
    for table, statement in CHANGES:
        if table in tables:
            con.execute(statement.format(batch=batch))
    changed = make_images(con, KEYS)
    assert {table.name for table in changed} == tables
    return changed
