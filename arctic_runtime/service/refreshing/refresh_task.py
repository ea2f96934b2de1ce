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
    """A model to refresh, and the versions of sources that all models of its pass read (`pins`).

    Without `has_news`, none of the model's upstreams has changed since the model was up to date. The model is then not
    recomputed for a reason that recurs each time, such as `current_date`. `is_known` is whether a refresh in this
    process has succeeded, and none has failed since. Without `with_upkeep`, the refresh does no upkeep of files,
    because the service does it under its budget.
    """

    followed: FollowedModel
    pins: PinnedSnapshots
    has_news: bool
    is_known: bool
    with_upkeep: bool = True


@dataclass(frozen=True)
class Done:
    """Result of a successful refresh; `is_recomputed` is whether every run computes the model's query in full."""

    refreshed: Refreshed
    is_recomputed: bool = False


RefreshModel = Callable[[Task], Done]
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
    """Result of a model in a pass, which began at `began` and took `seconds`.

    `error` is the reason why the refresh failed, `error_details` the parts of that error, and `retry_seconds` the pause
    before the next attempt. A model is skipped if the upstream model `held_by` failed.
    """

    followed: FollowedModel
    status: Status
    began: datetime
    seconds: float = 0.0
    done: Done | None = None
    error: str = ""
    retry_seconds: float | None = None
    held_by: TableName | None = None
    thread: str = field(default="")
    error_details: Mapping[str, str] = field(default_factory=dict)
