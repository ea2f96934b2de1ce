"""TPC-DS as its standard has it: tables with their keys, and 99 queries of all kinds in Spark's dialect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import duckdb_extension_tpcds
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from benchmarks.tpch_models import named

FACT_KEYS = {
    "store_sales": "ss_item_sk ss_ticket_number",
    "store_returns": "sr_item_sk sr_ticket_number",
    "catalog_sales": "cs_item_sk cs_order_number",
    "catalog_returns": "cr_item_sk cr_order_number",
    "web_sales": "ws_item_sk ws_order_number",
    "web_returns": "wr_item_sk wr_order_number",
    "inventory": "inv_date_sk inv_item_sk inv_warehouse_sk",
}
"""What identifies a row of each fact table; of all others it is the first column."""


@dataclass(frozen=True)
class Query:
    """One of the queries without order and limit, and without a column that says the same as another.

    `here` is for the DuckDB that holds the tables, `spark` for Spark.
    """

    number: int
    here: str
    spark: str


def load_tpcds(con: duckdb.DuckDBPyConnection, scale: float) -> dict[str, Relation]:
    """Makes the tables of TPC-DS in the current schema; at scale 0 they are empty. Returns them by their full names."""
    (extension,) = Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension")
    con.load_extension(str(extension))
    con.execute("call dsdgen(sf = ?)", [scale])
    execute = con.execute(
        "select table_catalog, table_schema, table_name, list(column_name order by ordinal_position), "
        "list(data_type order by ordinal_position) from information_schema.columns "
        "where table_catalog = current_database() and table_schema = current_schema() group by all order by all"
    )
    rows = execute.fetchall()
    return {str(TableName(*name)): _relation(name[-1], *columns) for name, columns in ((r[:3], r[3:]) for r in rows)}


def queries(con: duckdb.DuckDBPyConnection) -> Iterator[Query]:
    """All queries, in their order, once the tables are there."""
    for number, text in con.execute("select query_nr, query from tpcds_queries() order by query_nr").fetchall():
        parsed = sqlglot.parse_one(text, dialect="duckdb")
        assert isinstance(parsed, exp.Query)
        parsed.set("limit", None)
        parsed.set("order", None)
        if isinstance(parsed, exp.Select):
            parsed.set("expressions", _shown(parsed))
        yield Query(number, _without_empty_total(parsed).sql(dialect="duckdb"), parsed.sql(dialect="spark"))


def _relation(table: str, names: list[str], types: list[str]) -> Relation:
    own = tuple(
        Column(name, exp.DataType.build(kind, dialect="duckdb").sql("spark"))
        for name, kind in zip(names, types, strict=True)
    )
    return Relation(own, tuple(FACT_KEYS.get(table, names[0]).split()), ())


def _without_empty_total(query: exp.Query) -> exp.Query:
    """The query without the grand total of no rows, which Spark does not have."""
    copy = query.copy()
    for group in copy.find_all(exp.Group):
        if group.find(exp.Rollup, exp.Cube, exp.GroupingSets) and isinstance(group.parent, exp.Select):
            group.parent.having("count(*) > 0", copy=False)
    return copy


def _shown(select: exp.Select) -> list[exp.Expr]:
    """What a query shows, each once and with a name."""
    once = {shown.unalias(): shown for shown in reversed(select.expressions)}
    return [named(shown, place) for place, shown in enumerate(reversed(once.values()))]
