"""Memory of a follower about a model between passes, and the decisions from it.

All of it may be lost: a model that nothing is known of is planned once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.thresholds import ServiceThresholds, UpkeepThresholds

Heads = Mapping[TableName, str]
"""Where tables and views stand: each one's metadata file. A relation that does not exist has none."""

News = Literal["reads", "own", "none"]
"""What moved since a model was up to date: something that it reads, only its own tables, or neither."""


@dataclass(frozen=True)
class FollowedTables:
    """The relations whose heads tell whether a model is up to date."""

    reads: frozenset[TableName]
    own: frozenset[TableName]


@dataclass(frozen=True)
class Record:
    """Known state of a model. Times are seconds of a clock that only goes forward.

    `seen` are the heads with which it was up to date, None before that. `refreshed_at` is when its last refresh that
    succeeded began, and `complete_at` when the last one did after which no table above was older. A model that
    `is_recomputed` has another result whenever it is computed, as by `current_date`.
    """

    seen: Heads | None = None
    refreshed_at: float | None = None
    complete_at: float | None = None
    is_recomputed: bool = False
    failures: int = 0
    retry_at: float = 0.0

    def find_news(self, tables: FollowedTables, heads: Heads, now: float, lag_seconds: float) -> News:
        """Kind of news that a refresh would find.

        The clock is news for a model that is recomputed, as often as its lag says.
        """
        if self.seen is None or _has_moved(tables.reads, self.seen, heads):
            return "reads"
        if self.is_recomputed and lag_seconds > 0 and not self.is_delayed(now, lag_seconds):
            return "reads"
        return "own" if _has_moved(tables.own, self.seen, heads) else "none"

    def is_delayed(self, now: float, lag_seconds: float) -> bool:
        """Whether its rows may still be as old as they are."""
        return self.refreshed_at is not None and now < self.refreshed_at + lag_seconds

    def is_paused(self, now: float) -> bool:
        """Whether its last refresh failed, and it is not yet time to try again."""
        return self.failures > 0 and now < self.retry_at

    def is_due(self, now: float, lag_seconds: float) -> bool:
        """Whether its rows have been older than some table's for so long."""
        return self.complete_at is None or now >= self.complete_at + lag_seconds

    def confirm_fresh(self, seen: Heads, is_recomputed: bool) -> Record:
        """After a look without news, which found that the model is up to date."""
        return Record(seen, self.refreshed_at, self.complete_at, is_recomputed)

    def record_success(self, seen: Heads, began: float, is_recomputed: bool, is_complete: bool) -> Record:
        """After a refresh; it `is_complete` where no table above the model was older than the pass."""
        return Record(seen, began, began if is_complete else self.complete_at, is_recomputed)

    def record_failure(self, now: float, thresholds: ServiceThresholds) -> Record:
        """After a failure; each one in a row doubles the pause before the next attempt, up to a limit."""
        return replace(self, failures=self.failures + 1, retry_at=now + pause_after(self.failures + 1, thresholds))


def pause_after(failures: int, thresholds: ServiceThresholds | UpkeepThresholds) -> float:
    """Seconds until the next attempt after so many failures in a row."""
    doublings = min(failures - 1, thresholds.retry_doublings)
    return thresholds.retry_seconds * float(2**doublings)


def _has_moved(relations: Collection[TableName], seen: Heads, heads: Heads) -> bool:
    return any(seen.get(relation) != heads.get(relation) for relation in relations)
