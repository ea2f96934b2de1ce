"""Searches for texts with a time but no date, such as `10:15`, which Spark converts to times of the current day."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession

from arctic_runtime.ivm.frontend.day_texts import TIME_ALONE, is_text
from arctic_runtime.model.state import SourceState
from arctic_runtime.model.version import Window
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.window_rows import is_appended
from arctic_runtime.spark.refresh.from_query.images import read_rows_at
from arctic_runtime.spark.tables.rows.frames import read_appended_rows, to_column
from arctic_runtime.thresholds import PruningThresholds


def find_day_texts(
    spark: SparkSession,
    upstreams: Upstreams,
    windows: Mapping[str, Window],
    follows: bool,
    thresholds: PruningThresholds,
) -> str | None:
    """Returns an explanation if an upstream has times without a date in text that the query converts to timestamps.

    The explanation names the first such upstream and its columns; it is None if there is none. An incremental run
    (`follows`) searches only changed rows, since earlier runs have searched the others. Runs one Spark job for each
    upstream with text columns that the query converts.
    """
    for name, state in upstreams.states.items():
        asked = (
            [column for column in state.columns if column.name.lower() in upstreams.reads.day_columns] if state else []
        )
        asked = [column for column in asked if is_text(column.type)]
        if state is None or not asked:
            continue
        rows = _read_source_rows(spark, state, windows.get(name) if follows else None, thresholds)
        is_any = reduce(or_, [to_column(column.name).cast("string").rlike(TIME_ALONE) for column in asked])
        if rows.where(is_any).limit(1).count():
            return f"{name} has times without a date in {' or '.join(column.name for column in asked)}"
    return None


def _read_source_rows(
    spark: SparkSession, source: SourceState, window: Window | None, thresholds: PruningThresholds
) -> DataFrame:
    if window is None or window.start is None:
        return read_rows_at(spark, source, source.version if window is None else window.end, thresholds)
    if source.kind == "changes" or is_appended(source, window):
        return read_appended_rows(spark, source, window)
    return read_rows_at(spark, source, window.end, thresholds)
