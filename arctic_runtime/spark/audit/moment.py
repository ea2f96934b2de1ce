"""The moment as of which an audit reads: a snapshot of each table, all of them current at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from arctic_runtime.audit.pinned_query import fold_name
from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.errors import CatalogError
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.statement import fill_statement, quote_name, quote_text

RelationState = Literal["pinned", "empty", "view", "unversioned", "missing"]


@dataclass(frozen=True)
class Moment:
    """States and snapshots of tables and views, by their names in lower case.

    A `pinned` relation is an Iceberg table that is read at its snapshot. An `empty` one is an Iceberg table without a
    snapshot. A `view` and an `unversioned` table, which is not of Iceberg, are read as they are at the time of the
    query. A `missing` relation does not exist. `is_steady` is False if no two rounds of look-ups in a row were equal,
    so that the snapshots may not have been current at the same time.
    """

    states: Mapping[TableName, RelationState]
    snapshots: Mapping[TableName, int]
    is_steady: bool = True

    def get_state(self, table: TableName) -> RelationState:
        return self.states.get(fold_name(table), "missing")


def observe_moment(spark: SparkSession, reader: CatalogReader, tables: Iterable[TableName]) -> Moment:
    """Looks up the current snapshots of all tables, in rounds, until two rounds in a row are equal.

    Equal rounds prove that all these snapshots were current at the same time. After a limited number of rounds the last
    one is returned, with `is_steady` False.
    """
    known = {fold_name(table): table for table in tables}
    before: dict[TableName, tuple[RelationState, int | None]] = {}
    for _ in range(reader.thresholds.commits.observation_rounds):
        states = {name: _observe_relation(spark, reader, table) for name, table in known.items()}
        is_steady = states == before
        if is_steady:
            break
        before = states
    snapshots = {name: snapshot for name, (_, snapshot) in before.items() if snapshot is not None}
    return Moment({name: state for name, (state, _) in before.items()}, snapshots, is_steady)


def _observe_relation(spark: SparkSession, reader: CatalogReader, table: TableName) -> tuple[RelationState, int | None]:
    if not reader.is_supported or table.catalog != reader.profile.catalog:
        return _observe_by_spark(spark, table)
    from pyiceberg.exceptions import NoSuchTableError

    try:
        snapshot = reader.load_table(table.schema, table.name).metadata.current_snapshot_id
    except NoSuchTableError:
        if not reader.lists_views:
            return _observe_by_spark(spark, table)
        kind = reader.list_relations(table.schema).get(table.name)
        return ("missing" if kind is None else "view"), None
    except CatalogError:
        return _observe_by_spark(spark, table)
    return ("empty", None) if snapshot is None else ("pinned", snapshot)


def _observe_by_spark(spark: SparkSession, table: TableName) -> tuple[RelationState, int | None]:
    """Looks up state and snapshot id of a relation by Spark, for catalogs and tables that pyiceberg can't read."""
    name = quote_name(*table.parts)
    try:
        heads = spark.sql(
            fill_statement(
                "SELECT snapshot_id FROM {name}.refs WHERE name = {main}", name=name, main=quote_text("main")
            )
        )
        rows = heads.collect()
        return ("pinned", int(rows[0]["snapshot_id"])) if rows else ("empty", None)
    except PySparkException:
        return ("unversioned" if spark.catalog.tableExists(name) else "missing"), None
