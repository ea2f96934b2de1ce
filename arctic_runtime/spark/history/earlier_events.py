"""Selects events of earlier runs that a run must read again, since stored versions do not suffice to apply new events.

A new event needs earlier events if it is not later than all events that were read before:

- Its `sequence_by` value is lower: an earlier event, which changed nothing when it was read, may open a version that
  begins after the new event.
- Its `sequence_by` value is equal to the newest one: it replaces that event and undoes its effect. But values that were
  updated in place, and versions that were deleted, are no longer stored.
- Its `valid_time` is lower: an earlier delete, which had nothing to delete when it was read, ends the version that the
  new event opens.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model, ModelConfig
from arctic_runtime.spark.history.versions import find_place_type
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import Keys, as_key, combine_all, match_key, to_column

_PLACE = "__arctic_place"


def needs_all_events(config: ModelConfig) -> bool:
    """Whether a version may depend on all events of its key.

    This is so if columns are updated in place (`track`), or if a delete removes versions (no `keep_deleted`).
    """
    return bool(config.track) or not config.keep_deleted


def needs_earlier_events(model: Model, shape: Shape, last: RunSummary | None) -> Expression:
    """Builds the condition that an event can be applied only together with events of its key that earlier runs read.

    It is false if there was no `last` run.
    """
    if last is None or last.high_watermark is None:
        return F.lit(False)
    sequence, mark = _sequence(model), marks.read_latest(last.high_watermark, shape.sequence_type)
    needs_earlier = sequence <= mark if needs_all_events(model.config) else sequence < mark
    return needs_earlier | _is_late_in_time(model, shape, last)


def _is_late_in_time(model: Model, shape: Shape, last: RunSummary) -> Expression:
    """Builds the condition that an event's valid time is before the newest one that earlier runs have read.

    It is true if the newest one is not known, and false for tables without `valid_time` or `delete_when`.
    """
    config = model.config
    if config.valid_time is None or config.delete_when is None:
        return F.lit(False)
    if last.newest_valid_time is None:
        return F.lit(True)
    return to_column(config.valid_time) < marks.read_latest(last.newest_valid_time, find_place_type(shape))


def count_needing_earlier(model: Model, shape: Shape, last: RunSummary | None) -> list[Expression]:
    """Builds aggregates over a run's events: about events that need earlier ones, and about valid times.

    Their names are those of the last fields of `Profile`. The list is empty for tables without history.
    """
    config = model.config
    if not config.has_history:
        return []
    needs_earlier, sequence = needs_earlier_events(model, shape, last), _sequence(model).cast(shape.sequence_type)
    oldest = F.min(F.when(needs_earlier, sequence))
    aggregates = [
        F.count_if(needs_earlier).alias("needing_earlier"),
        marks.write_sequence_text(oldest, shape.sequence_type).alias("oldest_needing_earlier"),
    ]
    if config.valid_time is None:
        return aggregates
    kind = find_place_type(shape)
    time = to_column(config.valid_time).cast(kind)
    return [
        *aggregates,
        marks.write_sequence_text(F.min(F.when(needs_earlier, time)), kind).alias("oldest_time_needing_earlier"),
        marks.write_sequence_text(_compute_newest(F.max(time), last, kind), kind).alias("newest_valid_time"),
    ]


def _compute_newest(newest: Expression, last: RunSummary | None, kind: str) -> Expression:
    """Builds the newest valid time of all runs, from that of this run (`newest`) and the summary of the `last` run.

    It is null if the summary does not have it, since an earlier run did not record it; then it is null until a full
    refresh.
    """
    if last is None:
        return newest
    if last.newest_valid_time is None:
        return F.lit(None).cast(kind)
    return F.greatest(newest, marks.read_latest(last.newest_valid_time, kind))


def select_placed(model: Model, earlier: DataFrame) -> DataFrame:
    """Selects the events in `earlier` without a null in `sequence_by` or `valid_time`, whose order is known."""
    places = [name for name in (model.config.sequence_by, model.config.valid_time) if name is not None]
    return earlier.where(combine_all([to_column(place).isNotNull() for place in places]))


def select_keys_needing_earlier(model: Model, events: DataFrame, shape: Shape, last: RunSummary) -> DataFrame:
    """Returns the distinct keys of `events` that can be applied only together with events of earlier runs."""
    key = [to_column(part) for part in model.config.entity_key]
    return events.where(needs_earlier_events(model, shape, last)).select(*key).distinct()


def select_overtaken_keys(
    model: Model, events: DataFrame, earlier: DataFrame, keys: Keys, oldest: Expression
) -> DataFrame:
    """Returns the distinct keys of `events` that are not later than all `earlier` events of their key.

    `oldest` is the lowest `sequence_by` value of events that need earlier ones; `earlier` is read only from there on,
    so that files with older events are skipped.
    """
    key = model.config.entity_key
    later = earlier.where(_sequence(model) >= oldest)
    newest = keys.select_rows(later, key).groupBy(*as_key(key)).agg(F.max(_sequence(model)).alias(_PLACE))
    matched = events.join(newest, match_key(events, key)).where(_sequence(model) <= F.col(_PLACE))
    return matched.select(*[to_column(part) for part in key]).distinct()


def select_later(
    model: Model, earlier: DataFrame, keys: Keys, oldest: Expression, oldest_time: Expression | None
) -> DataFrame:
    """Selects the `earlier` events of `keys` with a higher `sequence_by` value than `oldest`.

    Also selects those with a later valid time than `oldest_time`, unless that is None.
    """
    is_later = _sequence(model) > oldest
    if oldest_time is not None and model.config.delete_when is not None:
        assert model.config.valid_time is not None
        is_later |= to_column(model.config.valid_time) > oldest_time
    return keys.select_rows(earlier, model.config.entity_key).where(is_later)


def _sequence(model: Model) -> Expression:
    assert model.config.sequence_by is not None
    return to_column(model.config.sequence_by)
