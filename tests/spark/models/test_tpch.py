"""The queries of TPC-H as tables that are kept, through two batches of changes, next to two other opinions.

Spark says after each batch what a query gives, DuckDB at the end; `verify` says whether change rows add up to tables.
The unit suite goes through more batches. Queries that read none of the tables that a batch changes stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from arctic_runtime.model.table import Model
from arctic_runtime.spark.engine.statement import quote_name as quoted
from benchmarks.tpch_models import (
    KEYS,
    columns_of,
    events_of,
    keyed_table,
    load_tpch,
    questions,
    write_events,
    write_inserts,
)
from tests.spark.warehouse import Warehouse
from tests.unit.ivm.duck import connect, fetch
from tests.unit.ivm.test_tpch import ADDED_UP, CHANGES, EVERYTHING, REFUSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2

pytestmark = pytest.mark.slow

SCALE = 0.01
BATCHES = (EVERYTHING, frozenset({"orders", "lineitem"}))
"""The tables that each batch changes."""

FULL = frozenset(REFUSED) - ADDED_UP
"""Queries that may be computed in full each time; all others are to follow what changed."""


@dataclass(frozen=True)
class Shop:
    """The tables of TPC-H twice: in DuckDB, where they change, and as keyed tables, which are told."""

    lake: Warehouse
    con: duckdb.DuckDBPyConnection
    folder: Path

    def load(self) -> None:
        for table in KEYS:
            file = self.folder / f"{table}.parquet"
            write_inserts(self.con, table, file)
            self._events(table, file).using("iceberg").create()
            self._follow(table)

    def change(self, batch: int) -> frozenset[str]:
        """Changes tables in DuckDB, and tells the keyed ones which rows differ; returns which tables it were."""
        changed = BATCHES[batch - 1]
        for table in changed:
            self.con.execute(f"create or replace temp table old_{table} as from {table}")
        for table, statement in CHANGES:
            if table in changed:
                self.con.execute(statement.format(batch=batch))
        for table in sorted(changed):
            file = self.folder / f"{table}_{batch}.parquet"
            write_events(self.con, _differences(table, batch), file)
            self._events(table, file).append()
            self._follow(table)
        return changed

    def _events(self, table: str, file: Path) -> DataFrameWriterV2:
        return self.lake.spark.read.parquet(str(file)).writeTo(self.lake.sql_name(events_of(table)))

    def _follow(self, table: str) -> None:
        merge = "on_read" if table in ("orders", "lineitem") else "on_write"
        self.lake.run(keyed_table(self.lake.table, table, columns_of(self.con, table), merge=merge))


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect() as con:
        con.execute("pragma enable_optimizer")
        yield con


def test_every_answer_is_that_of_spark_after_each_batch_and_of_duckdb_at_the_end(
    lake: Warehouse, con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    asked = tuple(questions(load_tpch(con, SCALE), lake.table))
    shop = Shop(lake, con, tmp_path)
    shop.load()
    models = {one: one.model(lake.table, refresh="incremental" if one.number in FULL else "strict") for one in asked}
    for model in models.values():
        assert lake.run(model).mode == "create"
    moved: Counter[int] = Counter()
    for batch, _ in enumerate(BATCHES, start=1):
        changed = shop.change(batch)
        for one, model in models.items():
            outcome = lake.run(model)
            print(f"batch {batch}, Q{one.number}: {outcome.mode} {outcome.reason} {dict(outcome.rows)}", flush=True)
            moved[one.number] += sum(outcome.rows.values())
            assert _bag(_kept(lake, model)) == _bag(lake.spark.sql(one.spark)), (one.number, batch)
            if one.number not in FULL:
                assert outcome.mode == ("incremental" if one.read & changed else "unchanged"), (one.number, batch)
    assert all(moved[one.number] for one in asked)
    for one, model in models.items():
        assert lake.broken(model) == [], one.number
        assert _bag(_kept(lake, model)) == fetch(con, one.here), one.number


def _kept(lake: Warehouse, model: Model) -> DataFrame:
    return lake.spark.table(quoted(*model.table.parts))


def _bag(rows: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in rows.collect())


def _differences(table: str, batch: int) -> str:
    """The rows that a table has and had not, and those whose keys it has no longer, as events."""
    keys = ", ".join(KEYS[table].split())
    came = f"select *, 'u' as op, {batch}::bigint as lsn from (from {table} except all from old_{table})"
    return f"{came} union all select *, 'd', {batch} from old_{table} anti join {table} using ({keys})"
