"""A warehouse that a benchmark fills and throws away."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName, format_changes_view
from arctic_runtime.model.table import Model
from arctic_runtime.plan.config.configure import read_configuration
from arctic_runtime.profile import Profile
from arctic_runtime.refresh_planner import Outcome
from arctic_runtime.spark.engine.session import SparkEnvironment
from arctic_runtime.spark.engine.statement import fill_statement, join_parts
from arctic_runtime.spark.engine.statement import quote_name as quoted
from arctic_runtime.spark.refresh.run import Refresh
from benchmarks.rows import COLUMNS, images, mostly_updates, scattered

NAMESPACE = "bench"
EVENTS = TableName("lake", NAMESPACE, "events")


@dataclass(frozen=True)
class Lake:
    """A session, and the catalog it writes to; `events` is the landing table, and has changes to keys below `rows`."""

    spark: SparkSession
    reader: CatalogReader
    rows: int
    events: TableName = EVENTS

    def run(self, model: Model) -> Outcome:
        return Refresh.from_model(model, self.reader, lambda: self.spark).run_refresh()

    def fill_events(self) -> None:
        """The landing table of change events, with one insert per row: six columns, `op` and `lsn`."""
        rows = self.spark.range(self.rows).select(*images(F.col("id"), 0), F.lit("c").alias("op"), _lsn(0))
        rows.writeTo(quoted(*self.events.parts)).using("iceberg").create()

    def append_changes(self, fraction: float, turn: int, first: int = 0) -> None:
        """Changes to a part of the keys from `first` on, scattered all over them: nine updates to one delete of ten."""
        changed = self.spark.range(first, self.rows).where(scattered(fraction, turn))
        rows = changed.select(*images(F.col("id"), turn), mostly_updates(turn).alias("op"), _lsn(turn))
        rows.writeTo(quoted(*self.events.parts)).append()

    def replace(self, table: str, query: str) -> None:
        """What a model materialized as a table does in each run."""
        made = TableName("lake", NAMESPACE, table)
        self.spark.sql(query).writeTo(quoted(*made.parts)).using("iceberg").createOrReplace()


@contextlib.contextmanager
def lake(rows: int, settings: Mapping[str, str] | None = None) -> Iterator[Lake]:
    """An embedded warehouse in a temporary directory, with 6 GB for Spark."""
    with tempfile.TemporaryDirectory(prefix="dbt-arctic-bench-") as folder:
        wanted = {"spark.driver.memory": "6g", **(settings or {})}
        profile = Profile.for_embedded(Path(folder), master="local[2]", settings=wanted)
        environment = SparkEnvironment(profile)
        spark = environment.new_session()
        reader = CatalogReader(profile)
        reader.create_namespace(NAMESPACE)
        try:
            yield Lake(spark, reader, rows)
        finally:
            environment.stop_spark()


def events_model(name: str, events: TableName = EVENTS, **config: Any) -> Model:
    """A keyed table over the events; `config` is what a user would write."""
    view = format_changes_view(events)
    declared = {
        "primary_key": "id",
        "input": "changes",
        "sequence_by": "lsn",
        "delete_when": "op = 'd'",
        "exclude_columns": ["op", "lsn"],
        **config,
    }
    sql = fill_statement(
        "select {columns}, op, lsn from {view}", columns=join_parts(map(quoted, COLUMNS)), view=quoted(view)
    )
    return Model(TableName("lake", NAMESPACE, name), sql, read_configuration(declared, name))


def query_model(name: str, sql: str, key: Any, **config: Any) -> Model:
    """A table that a query says; `config` is what a user would write."""
    return Model(TableName("lake", NAMESPACE, name), sql, read_configuration({"primary_key": key, **config}, name))


def differing(one: DataFrame, other: DataFrame) -> int:
    """How many rows one has and the other has not, and the other way round."""
    return int(one.exceptAll(other).unionAll(other.exceptAll(one)).count())


def _lsn(turn: int) -> Any:
    return (F.col("id") + F.lit(turn * 10**12)).alias("lsn")
