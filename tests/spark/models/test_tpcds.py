"""The queries of TPC-DS as tables that are kept, through two batches of changes, next to the queries themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from arctic_runtime.ivm.frontend.scope import Relation
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.spark.engine.statement import Sql, alias_as, fill_statement, join_parts, quote_text
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.tpcds_models import load_tpcds, queries
from tests.conftest import COUNTED
from tests.spark.warehouse import Warehouse
from tests.unit.ivm.duck import connect
from tests.unit.ivm.test_tpcds import shuffle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.slow

SCALE = 0.01
BATCHES = (
    {"store_sales", "store_returns", "catalog_sales", "web_sales"},
    {"item", "customer", "date_dim", "catalog_returns"},
    {"store_sales"},
    {"customer_address", "customer_demographics", "inventory"},
    {"web_sales", "web_returns", "item"},
)
FEW_BATCHES = 2
"""So many of them change what all queries read."""

ON_REQUEST = (22, 45, 67, 86)
"""Queries with rollups, and with subqueries of one value or below OR; so few rows cost less to compute in full."""

COPIES = frozenset({2, 53, 59, 63, 77, 79})
"""Queries that show rows more than once, or without what tells them apart: their tables count them."""

ONE_ROW = frozenset({9, 13, 16, 28, 32, 38, 48, 61, 87, 88, 90, 92, 94, 95, 96, 97})
"""Queries whose result always has one row, which needs no key."""

NO_VALUE = {"string": quote_text(""), "int": Sql("-1"), "bigint": Sql("-1"), "date": Sql("date'1900-01-01'")}
"""What stands for null in a key, by type; decimals have -1 too."""

Bag = Counter[tuple[Any, ...]]


@dataclass
class Stores:
    """The tables of TPC-DS twice: in DuckDB, where they change, and as keyed tables that follow their events."""

    lake: Warehouse
    con: duckdb.DuckDBPyConnection
    folder: Path
    relations: dict[str, Relation] = field(default_factory=dict)

    def load(self) -> None:
        self.relations = {name.rpartition(".")[2]: relation for name, relation in load_tpcds(self.con, SCALE).items()}
        for table in self.relations:
            self._append(table, f"select *, 'c' as op, 0::bigint as lsn from {table}", 0)

    def change(self, batch: int) -> None:
        for table in sorted(BATCHES[batch - 1]):
            keys = ", ".join(self.relations[table].key or ())
            self.con.execute(f"create or replace temp table old_{table} as from {table}")
            shuffle(self.con, batch, table, self.relations[table])
            came = f"select *, 'u' as op, {batch}::bigint as lsn from (from {table} except all from old_{table})"
            went = f"select *, 'd', {batch} from old_{table} anti join {table} using ({keys})"
            self._append(table, f"{came} union all {went}", batch)

    def _append(self, table: str, events: str, batch: int) -> None:
        file = self.folder / f"{table}_{batch}.parquet"
        self.con.sql(events).write_parquet(str(file))
        writer = self.lake.spark.read.parquet(str(file)).writeTo(self.lake.sql_name(f"{table}_events"))
        (writer.append if batch else writer.using("iceberg").create)()
        self.lake.run(self._keyed(table))

    def _keyed(self, table: str) -> Model:
        relation = self.relations[table]
        columns = join_parts(quoted(column.name) for column in relation.columns)
        view = quoted(format_changes_view(self.lake.table(f"{table}_events")))
        config = {
            "primary_key": list(relation.key or ()),
            "input": "changes",
            "sequence_by": "lsn",
            "delete_when": "op = 'd'",
            "exclude_columns": ["op", "lsn"],
        }
        sql = fill_statement("select {columns}, op, lsn from {view}", columns=columns, view=view)
        return Model(self.lake.table(table), sql, read_configuration(config, table))


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as con:
        con.execute("pragma enable_optimizer")
        yield con


def test_every_table_is_what_spark_says_after_each_batch(
    lake: Warehouse, con: duckdb.DuckDBPyConnection, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    stores = Stores(lake, con, tmp_path)
    stores.load()
    models = {one.number: _model(lake, one.number, one.spark, stores) for one in queries(con)}
    for number, model in models.items():
        assert lake.run(model).mode == "create"
        _check(lake, number, model, 0)
    followed, moved, refused = set[int](), set[int](), dict[int, str]()
    for batch in range(1, FEW_BATCHES + 1):
        stores.change(batch)
        for number, model in models.items():
            outcome = lake.run(model)
            print(f"batch {batch}, Q{number}: {outcome.mode} {outcome.reason} {dict(outcome.rows)}", flush=True)
            moved |= {number} if sum(outcome.rows.values()) else set()
            if outcome.mode == "incremental":
                followed.add(number)
            elif outcome.mode == "full":
                refused[number] = outcome.reason
            _check(lake, number, model, batch)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(refused.values()).items()))
    record_property(
        COUNTED,
        f"{len(models)} queries of TPC-DS compared after {FEW_BATCHES} batches: {len(followed)} followed, "
        f"{len(moved)} moved, {len(refused)} computed in full ({reasons})",
    )
    assert len(followed) > 20
    assert len(moved) > 40


def test_queries_that_follow_on_request_are_what_spark_says_after_five_batches(
    lake: Warehouse, con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    stores = Stores(lake, con, tmp_path)
    stores.load()
    asked = {
        one.number: _model(lake, one.number, one.spark, stores) for one in queries(con) if one.number in ON_REQUEST
    }
    models = {
        name: replace(model, config=replace(model.config, refresh="incremental")) for name, model in asked.items()
    }
    for model in models.values():
        lake.run(model)
    followed = set[int]()
    for batch in range(1, len(BATCHES) + 1):
        stores.change(batch)
        for number, model in models.items():
            outcome = lake.run(model)
            print(f"batch {batch}, Q{number}: {outcome.mode} {outcome.reason} {dict(outcome.rows)}", flush=True)
            followed |= {number} if outcome.mode == "incremental" else set()
            _check(lake, number, model, batch)
    assert followed == {*ON_REQUEST}


def _model(lake: Warehouse, number: int, sql: str, stores: Stores) -> Model:
    """A query as a table: its columns but for sums and ratios are the key, in which nothing is null."""
    query = _qualified(sql, lake, stores)
    fields = lake.spark.sql(query).schema.fields
    kinds = {part.name: part.dataType.simpleString() for part in fields}
    is_counted = number in COPIES
    parts = [name for name, kind in kinds.items() if kind in NO_VALUE or (is_counted and kind.startswith("decimal"))]
    key = [] if number in ONE_ROW else parts
    shown = [_shown(name, kind, name in key) for name, kind in kinds.items()]
    model = fill_statement("select {shown} from ({query}) as q", shown=join_parts(shown), query=Sql(query))
    if is_counted:
        shown.append(alias_as(Sql("count(*)"), "copies"))
        model = fill_statement(
            "select {shown} from ({query}) as q group by all", shown=join_parts(shown), query=Sql(query)
        )
    table = lake.table(f"q{number}")
    return Model(table, model, read_configuration({"primary_key": key}, table.name))


def _shown(name: str, kind: str, is_key: bool) -> Sql:
    value = fill_statement("coalesce({of}, {other})", of=quoted(name), other=NO_VALUE.get(kind, Sql("-1")))
    return alias_as(value if is_key else quoted(name), name)


def _qualified(sql: str, lake: Warehouse, stores: Stores) -> str:
    """The query with the full names of its tables."""
    parsed = sqlglot.parse_one(sql, dialect="spark")
    for table in parsed.find_all(exp.Table):
        if table.name.lower() in stores.relations:
            named: TableName = lake.table(table.name.lower())
            for part, own in zip(("catalog", "db", "this"), named.parts, strict=True):
                table.set(part, exp.to_identifier(own, quoted=True))
    return parsed.sql(dialect="spark")


def _check(lake: Warehouse, number: int, model: Model, batch: int) -> None:
    kept, query = lake.spark.table(quoted(*model.table.parts)), lake.spark.sql(model.sql)
    assert _bag(kept) == _bag(query), (number, batch)


def _bag(rows: DataFrame) -> Bag:
    """Rows without the last digits of doubles, which depend on the order in which parts are added up."""
    return Counter(
        tuple(f"{value:.12g}" if isinstance(value, float) else value for value in row) for row in rows.collect()
    )
