"""Plans upkeep of clones: which are dropped since nobody uses them, and which tags keep files for no clone."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

from arctic_runtime.model.clone import Clone, CloneTags, ReleaseClone
from arctic_runtime.thresholds import ExpiryThresholds


def plan_release(
    observed: Iterable[CloneTags], now_ms: int, ttl_seconds: float | None, thresholds: ExpiryThresholds
) -> tuple[ReleaseClone, ...]:
    """Plans to drop clones that nobody has used for `ttl_seconds`, and tags for clones that do not exist.

    With None for `ttl_seconds`, no clone is dropped. A tag may be older than its clone: a tag is dropped only when no
    process can still be making the clone.
    """
    return tuple(_plan_releases(observed, now_ms, ttl_seconds, thresholds))


def _plan_releases(
    observed: Iterable[CloneTags], now_ms: int, ttl_seconds: float | None, thresholds: ExpiryThresholds
) -> Iterator[ReleaseClone]:
    for seen in observed:
        if seen.clone is None:
            if now_ms - seen.tag.at_ms > 1000 * thresholds.abandoned_branch_seconds:
                yield ReleaseClone(seen.tag.clone, seen.tags, False, "there is no such clone")
        elif ttl_seconds is not None and now_ms - seen.clone.used_ms > 1000 * ttl_seconds:
            days = datetime.timedelta(milliseconds=now_ms - seen.clone.used_ms).days
            yield ReleaseClone(seen.tag.clone, seen.tags, True, f"it was not run for {days} days")


def is_use_outdated(clone: Clone, now_ms: int, thresholds: ExpiryThresholds) -> bool:
    """Whether a run without changes should note that the clone is in use."""
    return now_ms - clone.used_ms > 1000 * thresholds.noted_use_seconds
