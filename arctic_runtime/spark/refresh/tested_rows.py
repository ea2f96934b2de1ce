"""Selects the rows that a test looks at if it passed at an earlier version of its table."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from arctic_runtime.ivm.row_tests import RowTest
from arctic_runtime.model.columns import ACTION, strip_change_columns
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Window
from arctic_runtime.spark.engine.statement import quote_name
from arctic_runtime.spark.tables.rows.frames import (
    as_key,
    conform_frame,
    match_key,
    read_appended_rows,
    select_newest_changes,
)
from arctic_runtime.thresholds import PruningThresholds


def select_tested_rows(
    spark: SparkSession,
    test: RowTest,
    states: Mapping[TableName, SourceState],
    windows: Mapping[TableName, Window],
    thresholds: PruningThresholds,
) -> dict[TableName, DataFrame]:
    """Returns, for each table of a test, the rows that the test reads in place of all rows.

    `states` are the tables as the test sees them, and `windows` their changes since the test passed.
    """
    state, window = states[test.table], windows[test.table]
    assert state.key
    is_few = state.are_few_in(window, thresholds.broadcast_keys)
    newest = _select_newest(spark, state, window)
    alive = conform_frame(newest.where(F.col(ACTION) != "delete"), strip_change_columns(state.columns))
    keys = _build_hint(newest.select(*as_key(state.key)), is_few)
    stored = spark.table(quote_name(*test.table.parts))
    if test.looks == "stored":
        return {test.table: stored.join(keys, match_key(stored, state.key), "left_semi")}
    if test.parent is None:
        return {test.table: alive}
    other, changes = states[test.parent], windows[test.parent]
    assert other.key
    rows = alive
    if not changes.is_empty:
        deleted = _select_newest(spark, other, changes).where(F.col(ACTION) == "delete").select(*as_key(other.key))
        lost = _build_hint(deleted, other.are_few_in(changes, thresholds.broadcast_keys))
        orphans = stored.join(lost, match_key(stored, [test.column]), "left_semi")
        unchanged = orphans.join(keys, match_key(orphans, state.key), "left_anti")
        rows = alive.unionAll(conform_frame(unchanged, strip_change_columns(state.columns)))
    references = _build_hint(rows.select(*as_key([test.column])), is_few and changes.is_empty)
    partners = spark.table(quote_name(*test.parent.parts))
    return {test.table: rows, test.parent: partners.join(references, match_key(partners, other.key), "left_semi")}


def _select_newest(spark: SparkSession, state: SourceState, window: Window) -> DataFrame:
    """Returns the newest change row of each key with changes in a window."""
    assert state.key
    changes = read_appended_rows(spark, state, window)
    return select_newest_changes(changes, state.key, state.count_commits_in(window))


def _build_hint(keys: DataFrame, is_few: bool) -> DataFrame:
    return keys.hint("broadcast") if is_few else keys
