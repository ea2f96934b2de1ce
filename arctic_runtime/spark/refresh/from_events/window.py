"""The change events that one run reads."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.spark.events.profile import Profile


@dataclass(frozen=True)
class EventWindow:
    """The change events that a run reads, after their checks, with counts of them, and the summary of the last run.

    `last` is None if all events are read, by a first run or a full refresh.
    """

    events: DataFrame
    profile: Profile
    last: RunSummary | None
