"""Creates tables together with their first rows, also in catalogs that can't stage a creation.

Iceberg creates a table with rows in one commit: the catalog stages the creation, and the commit completes it. Some REST
servers refuse to stage. In their catalogs a table is created without a snapshot first, and a second commit adds the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from arctic_runtime.catalog.reader import CatalogReader
from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.model.columns import Column
from arctic_runtime.model.names import TableName
from arctic_runtime.spark.engine.java.java_errors import SPARK_ERRORS, is_staging_refusal
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    type_name,
    write_properties,
)
from arctic_runtime.spark.tables.commit import perform_statement

_NOT_PARTITIONED = Sql("")


@dataclass(frozen=True)
class NewColumns:
    """A table to create without rows: its columns, properties and PARTITIONED BY clause, empty if not partitioned."""

    table: TableName
    columns: Sequence[Column]
    properties: Mapping[str, str]
    partitioned: Sql = _NOT_PARTITIONED


def create_staged(reader: CatalogReader, at_once: Callable[[], None], in_two_commits: Callable[[], None]) -> None:
    """Creates a table by `at_once`, or by `in_two_commits` if the catalog can't stage the creation.

    A catalog that has refused once is not asked again by the same reader.
    """
    has_staging = reader.capabilities.staged_creation
    if has_staging is not False:
        try:
            at_once()
        except SPARK_ERRORS as error:
            if has_staging or not is_staging_refusal(error):
                raise
            in_two_commits()
            reader.learn_capabilities(Capabilities(staged_creation=False))
    else:
        in_two_commits()


def create_without_snapshot(effect_name: str, spark: SparkSession, new: NewColumns) -> None:
    """Creates a table without a snapshot; does nothing if the table exists."""
    described = [
        fill_statement("{name} {kind}", name=quote_name(column.name), kind=type_name(column.type))
        for column in new.columns
    ]
    create = fill_statement(
        "CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg {partitioned}TBLPROPERTIES ({properties})",
        table=quote_name(*new.table.parts),
        columns=join_parts(described),
        partitioned=new.partitioned,
        properties=write_properties(new.properties.items()),
    )
    perform_statement(effect_name, spark, create)
