"""Creates tables with their first rows: internal tables, in which this project stores data for its own use, and others.

Iceberg creates a table with rows in one commit: the catalog stages the creation, and the commit completes it. Some REST
servers refuse to stage. In their catalogs a table is created without a snapshot first, and a second commit adds the
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

from arctic_runtime.catalog.reader import CatalogReader, find_table
from arctic_runtime.catalog_kinds.capabilities import Capabilities
from arctic_runtime.effects import perform_effect
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.layout import KEPT_METADATA
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import KIND
from arctic_runtime.spark.engine.java.java_errors import SPARK, SPARK_ERRORS, is_staging_refusal
from arctic_runtime.spark.engine.statement import (
    Sql,
    fill_statement,
    join_parts,
    quote_name,
    type_name,
    write_properties,
)
from arctic_runtime.spark.tables.commit import build_summary_options, perform_statement
from arctic_runtime.spark.tables.rows.frames import list_frame_columns

_NOT_PARTITIONED = Sql("")
_NO_SUMMARY: Mapping[str, str] = {}


@dataclass(frozen=True)
class NewColumns:
    """A table to create without rows: its columns, properties and PARTITIONED BY clause, empty if not partitioned."""

    table: TableName
    columns: Sequence[Column]
    properties: Mapping[str, str]
    partitioned: Sql = _NOT_PARTITIONED


@dataclass(frozen=True)
class InternalTable:
    """An internal Iceberg table of format version 3, by its name and its table properties.

    `kind` is the value of the property that says for what the table is used; `others` are further properties.
    """

    name: TableName
    kind: str
    others: Mapping[str, str] = field(default_factory=lambda: KEPT_METADATA)

    @property
    def properties(self) -> dict[str, str]:
        return {"format-version": "3", KIND: self.kind, **self.others}


def create_internal_table(effect_name: str, reader: CatalogReader, table: InternalTable, rows: DataFrame) -> None:
    """Creates a table with `rows` in one commit; adds them to a table that has been created without a snapshot.

    Such a table is left by a process that died in a catalog that can't stage the creation of a table. Raises
    CommitConflict if another process has created the table.
    """
    writer = rows.writeTo(quote_name(*table.name.parts))
    what = f"create {table.name}"

    def create() -> None:
        new = _with_properties(writer, table)
        perform_effect(effect_name, new.create, what, SPARK)

    def create_in_two_commits() -> None:
        new = NewColumns(table.name, list_frame_columns(rows), table.properties)
        create_without_snapshot(effect_name, rows.sparkSession, new)
        perform_effect(effect_name, writer.append, what, SPARK)

    if find_table(reader, table.name) is None:
        create_staged(reader, create, create_in_two_commits)
    else:
        create_in_two_commits()


def replace_internal_table(
    effect_name: str,
    reader: CatalogReader,
    table: InternalTable,
    rows: DataFrame,
    summary: Mapping[str, str] = _NO_SUMMARY,
) -> None:
    """Creates or replaces a table with `rows` in one commit, with the entries `summary` in the commit's summary.

    If the catalog can't stage the creation of a table, a table without a snapshot is created first, and then replaced.
    Of two processes that do so, the rows of the later one stay.
    """
    writer = _with_properties(rows.writeTo(quote_name(*table.name.parts)), table)
    writer = writer.options(**build_summary_options(summary))

    def write() -> None:
        perform_effect(effect_name, writer.createOrReplace, f"write {table.name}", SPARK)

    def write_in_two_commits() -> None:
        new = NewColumns(table.name, list_frame_columns(rows), table.properties)
        create_without_snapshot(effect_name, rows.sparkSession, new)
        write()

    create_staged(reader, write, write_in_two_commits)


def _with_properties(writer: DataFrameWriterV2, table: InternalTable) -> DataFrameWriterV2:
    writer = writer.using("iceberg")
    for key, value in table.properties.items():
        writer = writer.tableProperty(key, value)
    return writer


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
