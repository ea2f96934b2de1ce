"""Spark's SQL executed in DuckDB, so that a rewritten query and the one it came from are compared on real rows.

Tables live in catalog `lake`, schema `raw`, which is also the current one. The optimizer is off: rewritten queries
are unusual enough to meet its bugs, and none of them is to be mistaken for one of ours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName

CATALOG = "lake"
SCHEMA = "raw"


def connect() -> duckdb.DuckDBPyConnection:
    """An empty database with a current schema `lake.raw`, one thread and no optimizer."""
    con = duckdb.connect()
    con.execute("set threads = 1")
    con.execute("attach ':memory:' as lake")
    con.execute("create schema lake.raw")
    con.execute("use lake.raw")
    con.execute("create macro raise_error(message) as error(message)")
    con.execute("pragma disable_optimizer")
    return con


def load(
    con: duckdb.DuckDBPyConnection, name: TableName | str, columns: Sequence[Column], rows: Iterable[Sequence[Any]]
) -> None:
    """Makes or replaces a table; a plain `name` is one in the current schema, whatever characters it has."""
    table = _table(name)
    fields = [
        exp.ColumnDef(
            this=exp.to_identifier(column.name, quoted=True), kind=exp.DataType.build(column.type, dialect="spark")
        )
        for column in columns
    ]
    created = exp.Create(this=exp.Schema(this=table, expressions=fields), kind="TABLE", replace=True)
    con.execute(created.sql(dialect="duckdb"))
    tuples = [tuple(row) for row in rows]
    if tuples:
        one = exp.Tuple(expressions=[exp.Placeholder() for _ in columns])
        insert = exp.insert(exp.Values(expressions=[one.copy() for _ in tuples]), table)
        con.execute(insert.sql(dialect="duckdb"), [value for row in tuples for value in row])


def alias(con: duckdb.DuckDBPyConnection, name: str, table: TableName | str) -> None:
    """Makes or replaces a view in the current schema with the rows of a table."""
    created = exp.Create(this=_table(name), kind="VIEW", replace=True, expression=exp.select("*").from_(_table(table)))
    con.execute(created.sql(dialect="duckdb"))


def rows(con: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[Any, ...]]:
    """The rows of a query in Spark's dialect as a bag; numbers are equal by value, and a NaN equals itself."""
    return fetch(con, in_duckdb(sql))


def fetch(con: duckdb.DuckDBPyConnection, sql: str) -> Counter[tuple[Any, ...]]:
    """The rows of a query in DuckDB's dialect as a bag."""
    return Counter(tuple(_comparable(value) for value in row) for row in con.execute(sql).fetchall())


def in_duckdb(sql: str) -> str:
    """A query of Spark's as DuckDB reads it."""
    transform = sqlglot.parse_one(sql, dialect="spark").transform(_keep_outer).transform(_drop_empty_groups)
    return transform.sql(dialect="duckdb")


def _keep_outer(node: exp.Expr) -> exp.Expr:
    """Turns each `lateral view outer explode` into a left join, as sqlglot forgets the `outer`."""
    if not isinstance(node, exp.Select):
        return node
    for lateral in [lateral_join for lateral_join in node.args.get("laterals") or [] if lateral_join.args.get("outer")]:
        (name,) = lateral.args["alias"].columns
        made = exp.select(exp.alias_(exp.Explode(this=lateral.this.this), name)).subquery()
        joined = exp.Lateral(this=made, alias=exp.TableAlias(this=lateral.args["alias"].this))
        lateral.pop()
        node.append("joins", exp.Join(this=joined, side="LEFT", on=exp.true()))
    return node


def _drop_empty_groups(node: exp.Expr) -> exp.Expr:
    """Leaves out the grand total of no rows, which Spark does not have, and writes suffixes as DuckDB knows them."""
    group = node.args.get("group") if isinstance(node, exp.Select) else None
    if group is None or not group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        return node
    for suffix in (exp.Rollup, exp.Cube):
        if group.args.get(suffix.key):
            group.set(suffix.key, None)
            group.set("expressions", [suffix(expressions=group.expressions)])
    for call in [grouping for grouping in node.find_all(exp.GroupingId) if not grouping.expressions]:
        call.set("expressions", list({part.sql(): part.copy() for part in group.find_all(exp.Column)}.values()))
    there = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    return node.having(there)


def _table(name: TableName | str) -> exp.Table:
    parts = name.parts if isinstance(name, TableName) else (None, None, name)
    catalog, schema, table = (part and exp.to_identifier(part, quoted=True) for part in parts)
    return exp.Table(this=table, db=schema, catalog=catalog)


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, Decimal) and value.is_nan():
        return "NaN"
    if isinstance(value, dict):
        return tuple(sorted((str(key), _comparable(part)) for key, part in value.items()))
    if isinstance(value, list):
        return tuple(_comparable(part) for part in value)
    return value
