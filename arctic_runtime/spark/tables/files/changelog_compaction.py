"""Changelog compaction: deletes change rows that a newer change row of the same key has replaced."""

from __future__ import annotations

from pyspark.sql import functions as F

from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.files.expiry import CompactChangelog, format_ages
from arctic_runtime.model.properties import COMPACTED_UNTIL
from arctic_runtime.spark.engine.jobs import override_settings
from arctic_runtime.spark.engine.statement import fill_statement, quote_name
from arctic_runtime.spark.tables.commit import build_summary_settings, set_properties, swap_in
from arctic_runtime.spark.tables.context import Context
from arctic_runtime.spark.tables.delete import TARGET, RowMatch, build_key_conditions, delete_matching
from arctic_runtime.spark.tables.rows.frames import COMMIT_ORDER, as_key, read_table

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
