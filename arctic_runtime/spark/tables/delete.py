"""Deletes the rows of a table that match rows of a DataFrame, by deletion vectors instead of rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name
from arctic_runtime.spark.tables.commit import perform_statement
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.frames import name_key_column

TARGET = "__arctic_t"
"""Alias of the table in a DELETE statement.

Without it, a column with the same name as the table would hide the table's name in a subquery."""


def build_key_conditions(key: Sequence[str]) -> list[Sql]:
    """Builds the conditions, one per key column, by which rows of a table match rows of a DataFrame of keys.

    The table has the alias TARGET; the columns of the DataFrame are named as by `as_key`.
    """
    return [
        fill_statement("{c} = {k}", c=quote_name(TARGET, part), k=quote_name(name_key_column(i)))
        for i, part in enumerate(key)
    ]


@dataclass(frozen=True)
class RowMatch:
    """The rows to delete from a table: those that match a row of `sought` by all conditions `on`.

    The conditions refer to the table by its alias TARGET. `where` has conditions that all rows to delete meet, so that
    Iceberg can skip files.
    """

    sought: DataFrame
    on: Sequence[Sql]
    where: Sequence[Sql] = ()


def delete_matching(effect_name: str, context: Context, branch: Sequence[str], match: RowMatch) -> None:
    """Deletes the rows of a branch that `match` describes, by one DELETE statement."""
    view = f"arctic_delete_{context.token}"
    exists = fill_statement(
        "EXISTS (SELECT 1 FROM {view} WHERE {on})",
        view=quote_name(view),
        on=join_parts(match.on, " AND ") if match.on else Sql("true"),
    )
    delete = fill_statement(
        "DELETE FROM {table} AS {target} WHERE {conditions}",
        table=quote_name(*branch),
        target=quote_name(TARGET),
        conditions=join_parts([*match.where, exists], " AND "),
    )
    match.sought.createOrReplaceTempView(view)
    try:
        perform_statement(effect_name, context.spark, delete)
    finally:
        context.spark.catalog.dropTempView(view)
