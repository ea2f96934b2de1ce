"""Creates and writes tables without a primary key: plain Iceberg tables to which each run appends one commit."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.effects import perform_effect
from arctic_runtime.model.columns import Column
from arctic_runtime.model.files.layout import TARGET_PROPERTY
from arctic_runtime.model.properties import APPENDED_KIND, LAYOUT
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.step import CreateAppended, SetLayout
from arctic_runtime.spark.engine.java.java_errors import SPARK
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name
from arctic_runtime.spark.tables.capability_probe import require_branches
from arctic_runtime.spark.tables.commit import build_summary_options, perform_statement, set_properties, swap_in
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.create import NewTable, build_table_properties, create_table, transform_text
from arctic_runtime.spark.tables.rows.frames import conform_frame


def create_keyless_table(step: CreateAppended, context: Context) -> None:
    """Creates the table with its partitioning, and with a first snapshot without rows."""
    require_branches(context)
    config = context.model.config
    fields = [F.lit(None).cast(column.type).alias(column.name) for column in step.columns]
    target = {TARGET_PROPERTY: str(config.target_file_bytes)}
    properties = {**target, **build_table_properties(context.model, APPENDED_KIND)}
    empty = context.spark.range(0).select(*fields)
    new = NewTable(step.table, empty, properties, config.partition_by, is_empty=True)
    create_table("ingest.create_table", context, new)


def set_layout(step: SetLayout, spark: SparkSession) -> None:
    """Sets the partition fields, the write order and the properties of a table.

    The property LAYOUT is set last, so that the next process repeats this if the current one dies.
    """
    table = quote_name(*step.table.parts)
    for gone in step.drop:
        drop = fill_statement("ALTER TABLE {table} DROP PARTITION FIELD {of}", table=table, of=transform_text(gone))
        perform_statement("ingest.layout", spark, drop)
    for new in step.add:
        add = fill_statement("ALTER TABLE {table} ADD PARTITION FIELD {of}", table=table, of=transform_text(new))
        perform_statement("ingest.layout", spark, add)
    perform_statement("ingest.layout", spark, _write_order(table, step.sort_key))
    set_properties("ingest.layout", spark, step.table, {**dict(step.properties), LAYOUT: step.text})


def _write_order(table: Sql, sort_key: Sequence[str]) -> Sql:
    if not sort_key:
        return fill_statement("ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION", table=table)
    order = join_parts([quote_name(part) for part in sort_key])
    template = "ALTER TABLE {table} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY {order}"
    return fill_statement(template, table=table, order=order)


def append_rows(rows: DataFrame, summary: RunSummary, context: Context) -> None:
    """Appends rows in one commit, with `summary` as the record of the run; columns that `rows` lack are null.

    Raises CommitConflict if the table has changed since it was observed.
    """
    table = context.model.table
    spread = _distribute_rows(rows, context)

    def write_append(branch: tuple[str, ...]) -> None:
        writer = spread.writeTo(quote_name(*branch)).options(**build_summary_options(summary.encode()))
        perform_effect("ingest.append", writer.append, f"append events to {table}", SPARK)

    swap_in(context.attempt, table, _get_observed_table(context)[0], write_append)


def replace_rows(rows: DataFrame | None, summary: RunSummary, context: Context) -> None:
    """Replaces all rows of the table by `rows` in one commit; None for `rows` means no rows.

    `summary` is the record of the run in the commit. Raises CommitConflict if the table has changed since it was
    observed.
    """
    table = context.model.table
    new = rows if rows is not None else context.spark.table(quote_name(*table.parts)).limit(0)
    spread = _distribute_rows(new, context)

    def write_replace(branch: tuple[str, ...]) -> None:
        writer = spread.writeTo(quote_name(*branch)).options(**build_summary_options(summary.encode()))
        perform_effect("ingest.replace", lambda: writer.overwrite(F.lit(True)), f"replace the rows of {table}", SPARK)

    swap_in(context.attempt, table, _get_observed_table(context)[0], write_replace)


def _get_observed_table(context: Context) -> tuple[int, tuple[Column, ...]]:
    """Returns the snapshot id and the columns that the table had when it was observed."""
    table = context.state.appended
    assert table is not None
    assert table.head is not None
    return table.head.snapshot, table.columns


def _distribute_rows(rows: DataFrame, context: Context) -> DataFrame:
    """Casts rows to the table's columns, and spreads them over as many tasks as their size needs.

    For a partitioned table, Iceberg distributes them by partition instead.
    """
    whole = conform_frame(rows, _get_observed_table(context)[1])
    return whole if context.model.config.partition_by else whole.hint("rebalance")
