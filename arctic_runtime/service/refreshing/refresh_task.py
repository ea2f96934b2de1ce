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
    """A model to refresh, and the versions of sources that all models of its pass read.

    Without news nothing that it reads has moved since it was up to date; then it is not recomputed only because its
    result is another one each time. A model is known once a refresh here has succeeded and none has failed since.
    Without upkeep a service does it, under its budget.
    """

    followed: FollowedModel
    pins: PinnedSnapshots
    has_news: bool
    is_known: bool
    with_upkeep: bool = True


@dataclass(frozen=True)
class Done:
    """A refresh that succeeded; `is_recomputed` tells of a model that is computed in full each time."""

    refreshed: Refreshed
    is_recomputed: bool = False


RefreshModel = Callable[[Task], Done]
"""Refreshes a model in the calling thread; raises CommitConflict after a lost race, and whatever else went wrong."""


@dataclass(frozen=True)
class RefreshWorkers:
    """Threads that refresh models, as many at a time, each made ready by `prepare`."""

    refresh: RefreshModel
    threads: int
    prepare: Callable[[], None] = lambda: None


Status = Literal["refreshed", "unchanged", "failed", "conflict", "skipped"]


@dataclass(frozen=True)
class Report:
    """Result of a model in a pass.

    `error` is why it failed, `error_details` the known parts of that error, and `retry_seconds` the pause before the
    next attempt. A model is skipped where one above it failed, which is `held_by`.
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
