"""Data classes for the freshness of a table: the time up to which it has all changes of its sources.

Sources are direct or indirect: the table may read them through other models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Literal

from arctic_runtime.model.run_summary import RunSummary
from arctic_runtime.model.sources.ingestion import ChangeSource, Failure, LoadProgress, SourceProgress, time_of
from arctic_runtime.model.state import Commit
from arctic_runtime.model.version import Version

FreshnessState = Literal["fresh", "delayed", "behind", "held"]
"""State of a table relative to its sources.

`fresh`: the table has all known changes of its sources. `delayed`: it lacks a change, but for no longer than the
allowed lag. `behind`: it lacks a change for longer, or ingestion of a source fails. `held`: ingestion of this table
alone is suspended.
"""


@dataclass(frozen=True)
class OriginStatus:
    """Status of ingestion for one ingested table of a source."""

    source: str
    """Name of the source."""

    as_of: datetime | None = None
    """Time up to which the table has all changes; None if it is not known, as before the first load is complete."""

    failure: Failure | None = None
    """Reason for which ingestion of the whole source fails; it stays until a batch succeeds."""

    wait: Failure | None = None
    """Reason for which this table alone is not ingested."""

    ingested_by: str = ""
    """The process that ingests the source."""

    ingested_until: datetime | None = None
    """Time at which that process counts as ended, unless it renews its lease."""

    trigger_seconds: float = 0.0
    """Seconds between the begins of two batches."""

    load: LoadProgress | None = None
    """Progress of the table's load; None if no load is under way."""

    def is_ingested(self, now: datetime) -> bool:
        """Whether a process holds the lease to ingest the source at the time `now`."""
        return self.ingested_until is not None and self.ingested_until > now


def to_origin_status(
    source: ChangeSource, table: str, known: SourceProgress, commits: Iterable[Commit]
) -> OriginStatus:
    """Builds the status of ingestion for the table whose name in the source is `table`.

    `known` is the progress of the whole source. The table's own `commits` may contain newer changes, which count.
    """
    times = (RunSummary.decode(commit.summary).source_time_ms for commit in commits)
    own = max((time_of(at) for at in times if at is not None), default=None)
    progress = known.progress.get_table_progress(table, own)
    return OriginStatus(
        source.name,
        progress.as_of,
        progress.failure,
        known.progress.waits.get(table),
        ingested_by=known.ingested_by,
        ingested_until=known.ingested_until,
        trigger_seconds=source.trigger_seconds,
        load=known.progress.loading.get(table),
    )


@dataclass(frozen=True)
class NoRefreshReason:
    """Reason for which a model is not refreshed, in words that follow the model's name, and the advised action."""

    reason: str
    action: str


@dataclass(frozen=True)
class TableFacts:
    """Facts about a table from which its freshness is computed."""

    log: str
    """UUID of the table that receives the commits: the change table of a model, or the table itself."""

    commits: tuple[Commit, ...] = ()
    """The commits that added rows, and those of runs, oldest first."""

    offsets: Mapping[str, Version] | None = None
    """Versions up to which the newest run has read other tables, by their names; None if no model writes the table."""

    origin: OriginStatus | None = None
    """Status of ingestion of an ingested table; None for other tables."""

    target_lag_seconds: float = 0.0
    """Seconds that the model's rows may be older than those of its upstreams."""

    no_refresh: NoRefreshReason | None = None
    """Reason for which no process refreshes a model; None if no such reason is known."""

    expired_until: int = 0
    """Sequence number up to which commits may have expired, so that `commits` lacks some; 0 if none has."""

    @cached_property
    def with_rows(self) -> tuple[Commit, ...]:
        """Commits that added rows, oldest first."""
        return tuple(commit for commit in self.commits if commit.rows)

    def list_unread_commits(self, offset: Version | None) -> tuple[Commit, ...]:
        """Returns the commits that added rows after `offset`, the version up to which a reader has read the table.

        Empty without an offset, and if `offset` is one of a table that was dropped and created again.
        """
        if offset is None or offset.table != self.log:
            return ()
        return tuple(commit for commit in self.with_rows if commit.version.sequence > offset.sequence)


@dataclass(frozen=True)
class Freshness:
    """Freshness of a table: it has all changes of its sources up to the time `as_of`; None if the time is not known."""

    state: FreshnessState
    as_of: datetime | None
    """Time up to which the table has all changes of its sources; None if it is not known."""

    source: str = ""
    """Source in the project, or table, whose changes are missing; empty for a fresh table."""

    since: datetime | None = None
    """Time since which changes are missing; None if it is not known, or for a fresh table."""

    reason: str = ""
    """Cause of the missing changes; empty for a fresh table."""

    action: str = ""
    """Advised action against the cause; empty if there is none."""

    allowed_lag_seconds: float = field(default=0.0)
    """Seconds that the table may lag: its own `target_lag`, plus the largest allowed lag of its upstreams."""

    def describe_freshness(self, now: datetime) -> str:
        """Describes the freshness for users in one line; the age of the data is relative to `now`."""
        shown = "it is not known as of when it shows the source"
        if self.as_of is not None:
            age = max(0.0, (now - self.as_of).total_seconds())
            shown = f"shows the source as of {self.as_of.isoformat(' ', 'seconds')}, {age:,.0f} s ago"
        if not self.reason:
            return f"{self.state}: {shown}"
        since = "" if self.since is None else f" since {self.since.isoformat(' ', 'seconds')}"
        action = f"; what to do: {self.action}" if self.action else ""
        return f"{self.state}{since}: {shown}: {self.reason}{action}"
