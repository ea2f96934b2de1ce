"""Stores the keys of rows that are being forgotten, in an internal table for each table, until all rows are gone."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import FORGOTTEN_KEYS_KIND, KIND
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.internal import InternalTable, write_internal_table


def has_keys(reader: CatalogReader, table: TableName) -> bool:
    """Whether `table` has an internal table with keys of rows that are being forgotten."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        internal = reader.load_table(table.forget_keys_name.schema, table.forget_keys_name.name)
    except NoSuchTableError:
        return False
    return internal.properties.get(KIND) == FORGOTTEN_KEYS_KIND


def read_keys(spark: SparkSession, table: TableName) -> DataFrame:
    """Reads the keys to forget that are stored for `table`, without duplicates; columns are named as by `as_key`."""
    return spark.table(quote_name(*table.forget_keys_name.parts))


def keep_keys(spark: SparkSession, reader: CatalogReader, table: TableName, keys: DataFrame) -> None:
    """Adds `keys` to the keys to forget that are stored for `table`, in one commit.

    Creates the internal table if needed.
    """
    if has_keys(reader, table):
        keys = keys.unionByName(read_keys(spark, table))
    place = table.forget_keys_name
    internal = InternalTable(place, FORGOTTEN_KEYS_KIND)
    write_internal_table("forget.keys", reader, internal, keys.distinct().coalesce(1))


def drop_with_files(spark: SparkSession, table: TableName) -> None:
    """Drops a table and deletes its files; does nothing if there is no such table."""
    perform_statement(
        "forget.drop", spark, fill_statement("DROP TABLE IF EXISTS {of} PURGE", of=quote_name(*table.parts))
    )
