"""The events that a run reads."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.spark.events.profile import Profile


@dataclass(frozen=True)
class EventWindow:
    """Checked events with their profile, and the summary of the `last` run; None if all events are read again."""

    events: DataFrame
    profile: Profile
    last: RunSummary | None
