"""One refresh of a followed model: the request and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from arctic_runtime.catalog.pinned_snapshots import PinnedSnapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.operations.refreshing import Refreshed
from arctic_runtime.service.refreshing.source_relations import FollowedModel


@dataclass(frozen=True)
class Task:
    """A model to refresh, as one task of a pass: a round of refreshes that all read the same versions of sources."""

    followed: FollowedModel
    pins: PinnedSnapshots
    """The versions of sources that all models of the pass read."""

    has_news: bool
    """False if none of the model's upstreams has changed since the model was up to date.

    The model is then not recomputed for a reason that recurs each time, such as `current_date`.
    """

    is_known: bool
    """Whether a refresh in this process has succeeded, and none has failed since."""

    with_upkeep: bool = True
    """False if compaction and expiry of the table are left to the service, which does them under its budget."""


@dataclass(frozen=True)
class RefreshResult:
    """Result of a successful refresh; `is_recomputed` is whether every run computes the model's query in full.

    `renewal_seconds` is the time after which the result may differ because the query reads the clock, else None.
    """

    refreshed: Refreshed
    is_recomputed: bool = False
    renewal_seconds: float | None = None


RefreshModel = Callable[[Task], RefreshResult]
"""Function that refreshes a model in the calling thread.

Raises CommitConflict after a lost commit race, and any other error if the refresh fails.
"""


@dataclass(frozen=True)
class RefreshWorkers:
    """Configuration of the refresh threads.

    `refresh` refreshes a model, `threads` is the number of threads, and each thread calls `prepare` when it starts.
    """

    refresh: RefreshModel
    threads: int
    prepare: Callable[[], None] = lambda: None


Status = Literal["refreshed", "unchanged", "failed", "conflict", "skipped"]


@dataclass(frozen=True)
class Report:
    """Result of a model in a pass."""

    followed: FollowedModel
    status: Status
    began: datetime
    """Time at which the refresh began."""

    seconds: float = 0.0
    """Duration of the refresh."""

    done: RefreshResult | None = None
    """Result of a successful refresh; None for other ones."""

    error: str = ""
    """Reason for which the refresh failed; empty if it did not."""

    retry_seconds: float | None = None
    """Pause before the next attempt; None if the refresh did not fail."""

    held_by: TableName | None = None
    """Failed upstream model, because of which this model was skipped; None if it was not."""

    thread: str = field(default="")
    """Name of the thread that refreshed the model."""

    error_details: Mapping[str, str] = field(default_factory=dict)
    """Parts of the error, by name."""
