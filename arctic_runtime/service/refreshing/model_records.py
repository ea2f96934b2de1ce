"""A follower's record of each model between passes, and the decisions that follow from it.

A record may be lost, since a model without a record is simply planned once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import ServiceThresholds, UpkeepThresholds

Heads = Mapping[TableName, str]
"""Current metadata file of each table and view; relations that do not exist are left out."""

News = Literal["reads", "own", "none"]
"""Changes since a model was up to date: of a relation that it reads, only of its own tables (`own`), or none."""


@dataclass(frozen=True)
class FollowedTables:
    """The relations whose current version shows whether a model is up to date: those that it reads, and its own."""

    reads: frozenset[TableName]
    own: frozenset[TableName]


@dataclass(frozen=True)
class Record:
    """Known state of a followed model. Times are seconds of a monotonic clock."""

    seen: Heads | None = None
    """Metadata files with which the model was last up to date; None before its first success."""

    refreshed_at: float | None = None
    """Time at which the last successful refresh began; None before the first."""

    complete_at: float | None = None
    """Begin of the last refresh for which all upstream tables were up to date too; None before the first."""

    is_recomputed: bool = False
    """True if the model may have another result whenever it is computed, as with `current_date`."""

    renew_at: float | None = None
    """Time from which on the model may have another result because its query reads the clock; None for never."""

    failures: int = 0
    """Number of failures in a row."""

    retry_at: float = 0.0
    """Time before which a failed model is not tried again."""

    def find_news(self, tables: FollowedTables, heads: Heads, now: float, lag_seconds: float) -> News:
        """Returns the kind of change that a refresh at the time `now` would process; "none" if there is none.

        `heads` are the current metadata files. A model that `is_recomputed` counts as changed once per `lag_seconds`.
        """
        if self.seen is None or _has_moved(tables.reads, self.seen, heads):
            return "reads"
        if self.renew_at is not None and now >= self.renew_at and not self.is_delayed(now, lag_seconds):
            return "reads"
        if self.is_recomputed and lag_seconds > 0 and not self.is_delayed(now, lag_seconds):
            return "reads"
        return "own" if _has_moved(tables.own, self.seen, heads) else "none"

    def is_delayed(self, now: float, lag_seconds: float) -> bool:
        """Whether the last refresh is less than `lag_seconds` ago, so that the model need not be refreshed yet."""
        return self.refreshed_at is not None and now < self.refreshed_at + lag_seconds

    def is_paused(self, now: float) -> bool:
        """Whether the model's last refresh failed, and the pause before the next attempt is not over."""
        return self.failures > 0 and now < self.retry_at

    def is_due(self, now: float, lag_seconds: float) -> bool:
        """Whether `lag_seconds` have passed since the model's last complete refresh (`complete_at`), or it has none."""
        return self.complete_at is None or now >= self.complete_at + lag_seconds

    def confirm_fresh(self, seen: Heads, is_recomputed: bool, renew_at: float | None = None) -> Record:
        """Returns the record after a check that the model is up to date with the metadata files `seen`."""
        return Record(seen, self.refreshed_at, self.complete_at, is_recomputed, renew_at)

    def record_success(
        self, seen: Heads, began: float, is_recomputed: bool, is_complete: bool, renew_at: float | None = None
    ) -> Record:
        """Returns the record after a successful refresh; `is_complete` is whether all upstreams were up to date."""
        return Record(seen, began, began if is_complete else self.complete_at, is_recomputed, renew_at)

    def record_failure(self, now: float, thresholds: ServiceThresholds) -> Record:
        """Returns the record after a failure; each failure in a row doubles the pause before a retry, up to a limit."""
        return replace(
            self, failures=self.failures + 1, retry_at=now + compute_retry_pause(self.failures + 1, thresholds)
        )


def compute_retry_pause(failures: int, thresholds: ServiceThresholds | UpkeepThresholds) -> float:
    """Number of seconds to wait for the next attempt after `failures` consecutive failures."""
    doublings = min(failures - 1, thresholds.retry_doublings)
    return thresholds.retry_seconds * float(2**doublings)


def compute_source_pause(failures: int, thresholds: ServiceThresholds) -> float:
    """Number of seconds to wait until a source is read again after `failures` consecutive failures.

    The longest pause is shorter than that of a model, since what is waited for is a server.
    """
    return min(compute_retry_pause(failures, thresholds), thresholds.source_retry_seconds)


def compute_look_pause(took_seconds: float, thresholds: ServiceThresholds) -> float:
    """Number of seconds between a check for new versions that took so long and the next one.

    The checks take only a share of the time; but a check during which the machine slept does not delay the next one.
    """
    return min(took_seconds / thresholds.look_share - took_seconds, thresholds.look_pause_seconds)


def _has_moved(relations: Collection[TableName], seen: Heads, heads: Heads) -> bool:
    return any(seen.get(relation) != heads.get(relation) for relation in relations)
