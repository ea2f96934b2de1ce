"""Stores the keys of rows that are being forgotten, in an internal table for each table, until all rows are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.effects import retry_on_conflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN_KEYS_KIND, KIND
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.tables.commit import perform_statement, replace_rows
from arctic_runtime.spark.tables.internal import InternalTable, create_internal_table
from arctic_runtime.spark.tables.rows.frames import read_table

if TYPE_CHECKING:
    from pyiceberg.table import Table


def has_keys(reader: CatalogReader, table: TableName) -> bool:
    """Whether `table` has an internal table with keys of rows that are being forgotten."""
    return _find_keys(reader, table) is not None


def _find_keys(reader: CatalogReader, table: TableName) -> Table | None:
    internal = find_table(reader, table.forget_keys_name)
    return internal if internal is not None and internal.properties.get(KIND) == FORGOTTEN_KEYS_KIND else None


def read_keys(spark: SparkSession, table: TableName) -> DataFrame:
    """Reads the keys to forget that are stored for `table`, without duplicates; columns are named as by `as_key`."""
    return spark.table(quote_name(*table.forget_keys_name.parts))


def keep_keys(spark: SparkSession, reader: CatalogReader, table: TableName, keys: DataFrame) -> None:
    """Adds `keys` to the keys to forget that are stored for `table`, in one commit.

    Creates the internal table if needed. Keys that another request adds at the same time stay.
    """
    retry_on_conflict(lambda: _add_keys(spark, reader, table, keys), reader.thresholds.commits.attempts)


def _add_keys(spark: SparkSession, reader: CatalogReader, table: TableName, keys: DataFrame) -> None:
    stored, place = _find_keys(reader, table), table.forget_keys_name
    head = stored.current_snapshot() if stored is not None else None
    if head is None:
        internal = InternalTable(place, FORGOTTEN_KEYS_KIND)
        create_internal_table("forget.keys", reader, internal, keys.distinct().coalesce(1))
        return
    rows = keys.unionByName(read_table(spark, place, head.snapshot_id)).distinct().coalesce(1)
    replace_rows("forget.keys", rows, place, head.snapshot_id, f"write {place}")


def drop_with_files(spark: SparkSession, table: TableName) -> None:
    """Drops a table and deletes its files; does nothing if there is no such table."""
    perform_statement(
        "forget.drop", spark, fill_statement("DROP TABLE IF EXISTS {of} PURGE", of=quote_name(*table.parts))
    )
