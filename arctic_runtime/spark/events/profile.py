"""Counts the events of a run and their flaws, in one pass over them."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from arctic_runtime.errors import DataError
from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.shape import Shape
from arctic_runtime.model.table import Model
from arctic_runtime.spark.events import flows, partial_columns, retract, truncate
from arctic_runtime.spark.history import event_versions
from arctic_runtime.spark.tables.rows import marks
from arctic_runtime.spark.tables.rows.frames import combine_any, format_examples, to_column


@dataclass(frozen=True)
class EventProfile:
    """Counts of the events that a run reads, and their lowest and highest values of `sequence_by`.

    Such values are texts as `marks` writes them; None if there are no such events. An event is late if its value is
    below the high watermark: the highest value that earlier runs have read.
    """

    events: int
    """Number of events."""

    null_keys: int
    """Number of events with a null in the key."""

    null_sequences: int
    """Number of events without a value of `sequence_by`."""

    late: int
    """Number of events below the high watermark of earlier runs, which may be late for their key."""

    oldest: str | None
    """Lowest value of all events."""

    oldest_late: str | None
    """Lowest value of the late events."""

    high_watermark: str | None
    """Highest value of all events that this run and earlier ones read."""

    truncations: int = 0
    """Number of events that empty the table."""

    truncated: str | None = None
    """Highest value of these events."""

    retracted: int = 0
    """Number of events that take back an earlier row of the source."""

    unknown_before: int = 0
    """Number of events that report a change of a row whose earlier state is unknown."""

    unknown_columns: int = 0
    """Number of events with unknown names in `columns_to_update`."""

    needing_earlier: int = 0
    """Number of events that can be applied only together with events of earlier runs.

    This and the following counts are for tables with history, computed by `earlier_events`.
    """

    oldest_needing_earlier: str | None = None
    """Lowest value of `sequence_by` of these events."""

    oldest_time_needing_earlier: str | None = None
    """Lowest value of `valid_time` of these events."""

    newest_valid_time: str | None = None
    """Highest value of `valid_time` of all events that this run and earlier ones read."""


def profile_events(model: Model, events: DataFrame, shape: Shape, last: RunSummary | None) -> EventProfile:
    """Counts the events that a run reads, and those with flaws such as a null key, in one Spark job.

    `last` is the summary of the last run, whose high watermark decides which events may be late; None if there is none.
    """
    config, seq_type = model.config, shape.sequence_type
    high_watermark = last.high_watermark if last else None
    sequence = to_column(config.sequence_by).cast(seq_type) if config.sequence_by else F.lit(0)
    mark = F.lit(None).cast(seq_type) if high_watermark is None else marks.read_latest(high_watermark, seq_type)
    row = events.agg(
        F.count(F.lit(1)).alias("events"),
        F.count_if(_lacks_key(model, events)).alias("null_keys"),
        F.count_if(flows.lacks_flow(model) if config.sequence_groups else sequence.isNull()).alias("null_sequences"),
        F.count_if(sequence < mark).alias("late"),
        marks.write_sequence_text(F.min(sequence), seq_type).alias("oldest"),
        marks.write_sequence_text(F.min(F.when(sequence < mark, sequence)), seq_type).alias("oldest_late"),
        marks.write_sequence_text(F.greatest(F.max(sequence), mark), seq_type).alias("high_watermark"),
        *truncate.count_truncations(model, events, sequence, seq_type),
        *retract.count_retractions(events),
        *partial_columns.count_unknown(model, events),
        *event_versions.count_needing_earlier(model, shape, last),
    ).collect()[0]
    return EventProfile(**row.asDict())


def check_profile(model: Model, events: DataFrame, profile: EventProfile) -> None:
    """Raises DataError, with example rows, if events have a null in key or `sequence_by`, or name unknown columns."""
    if profile.null_keys:
        rows = events.where(_lacks_key(model, events)).limit(3).collect()
        raise DataError(
            f"{model.table}: {profile.null_keys} of {profile.events} events have a null in the primary key "
            f"({', '.join(model.config.entity_key)}); nothing was written.\n"
            f"{format_examples(rows)}",
            fix="filter them out in the query, or repair them at their source",
        )
    if profile.unknown_columns:
        partial_columns.raise_unknown(model, events, profile.unknown_columns)
    if profile.null_sequences and model.config.sequence_groups:
        flows.raise_without_flow(model, events, profile.null_sequences)
    if profile.null_sequences:
        assert model.config.sequence_by is not None
        rows = events.where(to_column(model.config.sequence_by).isNull()).limit(3).collect()
        raise DataError(
            f"{model.table}: {profile.null_sequences} of {profile.events} events have a null in `sequence_by` "
            f"({model.config.sequence_by}), so their order is unknown; nothing was written.\n"
            f"{format_examples(rows)}",
            fix="filter them out in the query, or order by a column that is never null",
        )


def _lacks_key(model: Model, events: DataFrame) -> Expression:
    """Builds the condition that an event has a null in the key and is not one that empties the table."""
    is_null = combine_any([to_column(part).isNull() for part in model.config.entity_key])
    return is_null & ~truncate.is_truncation(model, events)
