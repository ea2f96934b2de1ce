"""The change events that one run reads."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.spark.events.profile import EventProfile


@dataclass(frozen=True)
class EventWindow:
    """The change events that one run reads, and facts about them."""

    events: DataFrame
    """The events, as rows of the model's query; those that an overwrite or a truncation makes void are left out."""

    profile: EventProfile
    """Counts of the events, and their lowest and highest values of `sequence_by`."""

    last: RunSummary | None
    """Record of the last run; None in a first run or a full refresh, which read all events."""
