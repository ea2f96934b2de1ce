"""Bitemporal tables: a version is valid from a time in its event, and recorded from the time of the run that read it.

The versions whose recording has not ended are the current state of the table; a run applies its events to these. If a
version changes, its recording ends at the time of the run, and the recording of the new version begins. The replaced
version stays in the table.
"""

from __future__ import annotations

import datetime
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import (
    ACTION,
    IS_CURRENT,
    RECORDED_FROM,
    RECORDED_TO,
    SEQUENCE,
    TIMESTAMP,
    VALID_FROM,
    VALID_TO,
)
from arctic_runtime.model.shape import Shape, is_named
from arctic_runtime.model.state import Commit
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.changes.diff import diff_states, emit_image_changes, pair_images_by_key
from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_name, quote_number, quote_text
from arctic_runtime.spark.history.versions import build_differ, choose_value, set_columns
from arctic_runtime.spark.tables.rows.frames import format_examples, hide_constant, to_column

_CLOSE, _OPEN = "close", "open"
_MILLISECOND = datetime.timedelta(milliseconds=1)


def select_recorded(rows: DataFrame) -> DataFrame:
    """Selects the versions whose recording has not ended, which are the current state of the table."""
    return rows.where(to_column(RECORDED_TO).isNull())


def find_record_time(now: datetime.datetime, last: Commit | None) -> datetime.datetime:
    """Returns the time at which a run records versions: `now`, or just after the last commit if the clock went back."""
    if last is None:
        return now
    committed = datetime.datetime.fromtimestamp(last.at_ms / 1000, datetime.timezone.utc)
    return max(now, committed + _MILLISECOND)


def check_valid_times(model: Model, events: DataFrame) -> None:
    """Raises DataError, with examples, if events have a null in the column `valid_time`."""
    assert model.config.valid_time is not None
    rows = events.where(to_column(model.config.valid_time).isNull()).limit(3).collect()
    if rows:
        raise DataError(
            f"{model.table}: events have a null in `valid_time` ({model.config.valid_time}); nothing was written.\n"
            f"{format_examples(rows)}",
            fix="filter them out in the query, or give them a time",
        )


def record_versions(images: DataFrame, shape: Shape, config: ModelConfig, time: datetime.datetime) -> DataFrame:
    """Builds the change rows that record new versions from `time` on, and end the recording of replaced versions.

    `images` pairs each version as it is after this run (a0…) with the recorded one of the same valid time (b0…).
    """
    places = {kept.name.lower(): i for i, kept in enumerate(shape.columns)}
    known = [
        i for i, column in enumerate(shape.columns) if not is_named(column.name, (*config.primary_key, RECORDED_TO))
    ]
    compared = [i for i in known if i != places[IS_CURRENT]]
    moves = images.withColumn("move", F.explode(F.expr(_choose_moves(shape, compared))))
    is_close = fill_statement("move = {close}", close=quote_text(_CLOSE))
    micros = quote_number(round(time.timestamp() * 1_000_000))
    at = hide_constant(fill_statement("timestamp_micros({micros})", micros=micros), quote_name("move"))
    values = {
        **{
            f"a{i}": choose_value(is_close, quote_name(f"b{i}"), quote_name(f"a{i}")) for i in range(len(shape.columns))
        },
        f"a{places[RECORDED_FROM]}": choose_value(is_close, quote_name(f"b{places[RECORDED_FROM]}"), at),
        f"a{places[RECORDED_TO]}": choose_value(is_close, at, Sql("NULL")),
        f"a{places[IS_CURRENT]}": fill_statement(
            "NOT ({close}) AND {end} IS NULL", close=is_close, end=quote_name(f"a{places[VALID_TO]}")
        ),
        "has_after": Sql("true"),
        "has_before": is_close,
        "flaw": choose_value(is_close, Sql("NULL"), quote_name("flaw")),
    }
    return emit_image_changes(set_columns(moves, values), shape)


def _choose_moves(shape: Shape, compared: list[int]) -> Sql:
    return fill_statement(
        "CASE WHEN flaw IS NOT NULL OR (has_after AND NOT has_before) THEN array({open}) "
        "WHEN has_before AND NOT has_after THEN array({close}) "
        "WHEN has_after AND {differs} THEN array({close}, {open}) END",
        open=quote_text(_OPEN),
        close=quote_text(_CLOSE),
        differs=build_differ(shape, compared, lambda i: quote_name(f"a{i}"), lambda i: quote_name(f"b{i}")),
    )


def pair_versions(versions: DataFrame, old: DataFrame | None, shape: Shape, model: Model) -> DataFrame:
    """Pairs `versions`, computed from all events, with the recorded versions in `old` that have the same valid time.

    The result is the argument `images` of `record_versions`. None for `old` means that no versions are recorded.
    """
    by_valid_time = replace(shape, key=(*model.config.entity_key, VALID_FROM))
    return pair_images_by_key(versions, None if old is None else select_recorded(old), by_valid_time, keyed=True)


def find_differences(versions: DataFrame, table: DataFrame | None, shape: Shape, config: ModelConfig) -> DataFrame:
    """Computes the change rows that would turn the recorded versions in `table` into `versions`, the right ones.

    The column `missing_change` has the action, such as `insert`.
    """
    kept = tuple(column for column in shape.columns if not is_named(column.name, (RECORDED_FROM, RECORDED_TO)))
    plain = replace(shape, columns=kept, key=(*config.entity_key, VALID_FROM))
    changes = diff_states(versions, None if table is None else select_recorded(table), plain)
    return changes.drop(TIMESTAMP, SEQUENCE).withColumnRenamed(ACTION, "missing_change")


def find_overlaps(rows: DataFrame, config: ModelConfig) -> DataFrame:
    """Selects invalid versions: those with the same valid time whose recordings overlap or end before they begin.

    Also selects versions whose flag `_is_current` contradicts the ends of their valid time and recording.
    """
    later = Over.partitionBy(*map(to_column, (*config.entity_key, VALID_FROM))).orderBy(to_column(RECORDED_FROM))
    start, end, following = (
        to_column(RECORDED_FROM),
        to_column(RECORDED_TO),
        F.lead(to_column(RECORDED_FROM)).over(later),
    )
    is_current = to_column(VALID_TO).isNull() & end.isNull()
    broken = (end <= start) | (following < end) | (end.isNull() & following.isNotNull())
    broken = F.coalesce(broken, F.lit(False)) | ~to_column(IS_CURRENT).eqNullSafe(is_current)
    return rows.withColumn("__arctic_broken", broken).where("__arctic_broken").drop("__arctic_broken")
