"""Deletes rows of a table by deletion vectors: those that match a DataFrame, or change rows that were replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.files.expiry import CompactChangelog, format_ages
from arctic_runtime.model.properties import COMPACTED_UNTIL
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_name
from arctic_runtime.spark.tables.commit import build_summary_settings, perform_statement, set_properties, swap_in
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, as_key, name_key_column, read_table

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


_NEWEST, _LAST, _TOP = "__arctic_newest", "__arctic_last", "__arctic_top"


def compact_changelog(step: CompactChangelog, context: Context) -> None:
    """Deletes change rows that a newer change row of their key has replaced, up to a version, in one commit.

    Before that, sets the property COMPACTED_UNTIL to this version, up to which rows may be missing; a reader that has
    not read up to it raises an error. Raises CommitConflict if the change table has changed.
    """
    set_properties("changelog_compaction.mark", context.spark, step.table, {COMPACTED_UNTIL: format_ages([step.until])})
    swap_in(context.attempt, step.table, step.expected, lambda on: _delete_change_rows(step, context, on))


def _delete_change_rows(step: CompactChangelog, context: Context, branch: tuple[str, ...]) -> None:
    spark, key = context.spark, context.model.config.primary_key
    place = F.col(COMMIT_ORDER)
    old = read_table(spark, step.table, step.expected).where(place <= step.until.sequence)
    newest = old.groupBy(*as_key(key)).agg(
        F.max(place).alias(_NEWEST),
        F.min(place).alias("__arctic_oldest"),
        F.max_by(SEQUENCE, place).alias(_LAST),
        F.max(SEQUENCE).alias(_TOP),
    )
    older = [fill_statement("{place} < {newest}", place=quote_name(TARGET, COMMIT_ORDER), newest=quote_name(_NEWEST))]
    if context.model.config.sequence_by is not None:
        # Rows of a restore have no place in the order of events; change rows with the place are kept for late events.
        is_told = "(coalesce({last} = {top}, false) OR coalesce({own} < {top}, true))"
        older.append(
            fill_statement(is_told, last=quote_name(_LAST), top=quote_name(_TOP), own=quote_name(TARGET, SEQUENCE))
        )
    replaced = newest.where(F.col(_NEWEST) > F.col("__arctic_oldest"))
    with override_settings(spark, build_summary_settings({COMPACTED_UNTIL: format_ages([step.until])})):
        match = RowMatch(replaced, [*build_key_conditions(key), *older])
        delete_matching("changelog_compaction.delete", context, branch, match)
