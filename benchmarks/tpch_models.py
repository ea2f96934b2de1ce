"""TPC-H as models: its tables, which follow change events, and its queries over them in Spark's dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_tpch
import sqlglot
from sqlglot import exp

from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.spark.engine.statement import fill_statement, join_parts
from arctic_runtime.spark.engine.statement import quote_name as quoted

KEYS = {
    "region": "r_regionkey",
    "nation": "n_nationkey",
    "supplier": "s_suppkey",
    "customer": "c_custkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey ps_suppkey",
    "orders": "o_orderkey",
    "lineitem": "l_orderkey l_linenumber",
}
"""What identifies a row of each table."""

RESULT_KEYS = {
    1: "l_returnflag l_linestatus",
    2: "s_name p_partkey",
    3: "l_orderkey",
    4: "o_orderpriority",
    5: "n_name",
    7: "supp_nation cust_nation l_year",
    8: "o_year",
    9: "nation o_year",
    10: "c_custkey",
    11: "ps_partkey",
    12: "l_shipmode",
    13: "c_count",
    15: "s_suppkey",
    16: "p_brand p_type p_size",
    18: "o_orderkey",
    20: "s_name",
    21: "s_name",
    22: "cntrycode",
}
"""What identifies a row of each query's result; all others have one row."""

Name = Callable[[str], TableName]
"""The full name of a table."""


@dataclass(frozen=True)
class Question:
    """One of the queries, without order and limit, and each column of its answer with a name.

    `here` is for the DuckDB that holds the tables, `spark` for Spark. DuckDB divides decimals as doubles, so `here`
    makes decimals of quotients and averages again, in the types that Spark has for them; all other types agree.
    `key` identifies a row of the answer, and is empty where there is one row. `read` are the tables that it asks.
    """

    number: int
    here: str
    spark: str
    key: tuple[str, ...]
    read: frozenset[str]

    def model(self, name: Name, **config: Any) -> Model:
        """The answer as a table that is kept; `config` is what a user would write."""
        table = name(f"q{self.number}")
        return Model(table, self.spark, read_configuration({"primary_key": list(self.key), **config}, table.name))


def load_tpch(con: duckdb.DuckDBPyConnection, scale: float) -> tuple[str, ...]:
    """Makes the tables of TPC-H in the current schema and returns its queries, in DuckDB's own dialect."""
    (extension,) = Path(duckdb_extension_tpch.__file__).parent.rglob("tpch.duckdb_extension")
    con.load_extension(str(extension))
    con.execute("call dbgen(sf = ?)", [scale])
    return tuple(query for (query,) in con.execute("select query from tpch_queries() order by query_nr").fetchall())


def questions(texts: Sequence[str], name: Name) -> Iterator[Question]:
    """The queries as DuckDB's extension tells them, in their order, over tables called `name`."""
    for number, text in enumerate(texts, start=1):
        parsed = sqlglot.parse_one(text, dialect="duckdb")
        assert isinstance(parsed, exp.Select)
        parsed.set("limit", None)
        parsed.set("order", None)
        parsed.set("expressions", [named(shown, place) for place, shown in enumerate(parsed.expressions)])
        here = parsed.transform(_in_decimals).sql(dialect="duckdb")
        read = [table for table in parsed.find_all(exp.Table) if table.name in KEYS]
        names = frozenset(table.name for table in read)
        for table in read:
            for part, own in zip(("catalog", "db", "this"), name(table.name).parts, strict=True):
                table.set(part, exp.to_identifier(own, quoted=True))
        key = tuple(RESULT_KEYS.get(number, "").split())
        yield Question(number, here, parsed.sql(dialect="spark"), key, names)


def keyed_table(name: Name, table: str, columns: Sequence[str], **config: Any) -> Model:
    """A table of TPC-H as its events make it; as the standard has it, nothing in it is null."""
    declared = {
        "primary_key": KEYS[table].split(),
        "input": "changes",
        "sequence_by": "lsn",
        "delete_when": "op = 'd'",
        "exclude_columns": ["op", "lsn"],
        **config,
    }
    view = quoted(format_changes_view(name(events_of(table))))
    sql = fill_statement("select {columns}, op, lsn from {view}", columns=join_parts(map(quoted, columns)), view=view)
    return Model(name(table), sql, read_configuration(declared, table), not_null=tuple(columns))


def events_of(table: str) -> str:
    """What the landing table of a table's change events is called: all its columns, `op` and `lsn`."""
    return f"{table}_events"


def columns_of(con: duckdb.DuckDBPyConnection, table: str) -> tuple[str, ...]:
    """The names of a table's columns."""
    return tuple(con.table(table).columns)


def write_inserts(con: duckdb.DuckDBPyConnection, table: str, file: Path) -> None:
    """All rows of a table as events in a Parquet file, with the types that DuckDB has them in."""
    con.table(table).project("*, 'c' as op, 0::bigint as lsn").write_parquet(str(file))


def write_events(con: duckdb.DuckDBPyConnection, query: str, file: Path) -> None:
    """The events that a query gives, in a Parquet file."""
    con.sql(query).write_parquet(str(file))


def named(shown: exp.Expr, place: int) -> exp.Expr:
    """What a query shows at a place, with a name."""
    return shown if shown.output_name else exp.alias_(shown, f"column_{place}")


def _in_decimals(node: exp.Expr) -> exp.Expr:
    kinds: dict[type[exp.Expr], str] = {exp.Avg: "decimal(19, 6)", exp.Div: "decimal(38, 6)"}
    kind = kinds.get(type(node))
    return exp.cast(node, kind) if kind else node
