"""The change events that one run reads."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.spark.events.profile import Profile


@dataclass(frozen=True)
class EventWindow:
    """The events of a run after their checks, with their profile; `last` is the summary of the run before.

    `last` is None if all events are read, by a first run or a full refresh.
    """

    events: DataFrame
    profile: Profile
    last: RunSummary | None
