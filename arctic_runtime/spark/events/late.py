"""Late events: those with a lower `sequence_by` value than an event of the same key that an earlier run has read."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.columns import SEQUENCE
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.sources.declared import Declared
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import Keys, as_key, match_key, to_column

LateEvents = Literal["lose", "recompute", "recompute_by_flow", "fold"]
"""Effect of late events, which have a lower `sequence_by` value than an event of the same key of an earlier run.

- `lose`: late events are ignored, since newer events of their key were applied;
- `recompute`: if an event is late, the row of its key is computed from all events of the key;
- `recompute_by_flow`: the same, but lateness is decided by the order column of the event's flow (see `flows`);
- `fold`: late events are applied like any other event."""

_NEWEST = "__arctic_seen"


def select_maybe_late_keys(model: Model, events: DataFrame, high_watermark: str, shape: Shape) -> DataFrame:
    """Returns the distinct keys of events that may be late, since their `sequence_by` value is below `high_watermark`.

    `high_watermark` is the highest value of earlier runs, as text.
    """
    is_late = _sequence(model) < marks.read_latest(high_watermark, shape.sequence_type)
    return events.where(is_late).select(*[to_column(part) for part in model.config.entity_key]).distinct()


def find_newest_seen(model: Model, seen: DataFrame, keys: Keys, oldest_late: str, shape: Shape) -> DataFrame:
    """Computes for each of `keys` the highest `sequence_by` value that earlier runs have read.

    `seen` has keys with the values that earlier runs have read, in the column `_seq`. So that Spark can skip files,
    values up to `oldest_late`, the lowest value of a late event, are ignored; keys without higher values are left out.
    """
    later = seen.where(F.col(SEQUENCE) > marks.read_latest(oldest_late, shape.sequence_type))
    rows = keys.select_rows(later, model.config.primary_key)
    return rows.groupBy(*as_key(model.config.primary_key)).agg(F.max(SEQUENCE).alias(_NEWEST))


def drop_late(model: Model, events: DataFrame, newest: DataFrame) -> DataFrame:
    """Drops events with a lower `sequence_by` value than their key's in `newest`, the result of `find_newest_seen`."""
    key = model.config.primary_key
    matched = events.join(newest, match_key(events, key), "left")
    kept = matched.where(F.col(_NEWEST).isNull() | (_sequence(model) >= F.col(_NEWEST)))
    return kept.select(*[to_column(own) for own in events.columns])


def find_late_keys(model: Model, events: DataFrame, newest: DataFrame) -> DataFrame:
    """Returns the distinct keys of events with a lower `sequence_by` value than their key's in `newest`.

    `newest` is the result of `find_newest_seen`.
    """
    key = model.config.primary_key
    matched = events.join(newest, match_key(events, key))
    is_late = _sequence(model) < F.col(_NEWEST)
    return matched.where(is_late).select(*[to_column(part) for part in key]).distinct()


def drop_keys(model: Model, events: DataFrame, keys: DataFrame) -> DataFrame:
    """Drops the events whose key is in `keys`, a frame with the columns of the primary key."""
    key = model.config.primary_key
    return events.join(keys.select(*as_key(key)), match_key(events, key), "left_anti")


def check_all_is_kept(model: Model, upstreams: Upstreams, last: RunSummary) -> None:
    """Raises DataError if rows with late events can't be recomputed from all events of their keys.

    They can't if some rows of the table come from a restore or an overwrite, as recorded in the summary of the `last`
    run, or if an upstream no longer has all its rows.
    """
    declared = last.declared or Declared()
    trimmed = [source for source, state in upstreams.states.items() if state and state.has_lost_rows]
    reasons = {
        "it was restored": last.restored is not None,
        f"rows were declared: {declared.describe_declarations()}": bool(declared.points),
        f"{', '.join(trimmed)} no longer keeps all its rows": bool(trimmed),
    }
    broken = [reason for reason, is_so in reasons.items() if is_so]
    if broken:
        raise DataError(
            f"{model.table}: late events can't be applied: with {_describe_rules(model)} a row depends on all events "
            "of its key; nothing was written.",
            expected="the upstreams still have all events of these keys, and no other run wrote these rows",
            actual="; ".join(broken),
            fix=(
                "filter late events out in the query, or run with --full-refresh to rebuild the table from the events "
                "that the upstreams still have"
            ),
        )


def _describe_rules(model: Model) -> str:
    config = model.config
    keys = {
        "`columns_to_update`": config.columns_to_update,
        "`unavailable_value`": config.unavailable_value,
        "`merge_columns`": config.merge_columns,
    }
    return next((key for key, value in keys.items() if value), f"`on_match: {config.on_match}`")


def _sequence(model: Model) -> Expression:
    assert model.config.sequence_by is not None
    return to_column(model.config.sequence_by)
