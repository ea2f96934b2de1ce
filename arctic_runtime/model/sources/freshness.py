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
from arctic_runtime.model.sources.ingestion import ChangeSource, Failure, SourceProgress, time_of
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
    """Status of ingestion for one ingested table of a source.

    The table has all changes up to the time `as_of`; None if the time is not known, as before the first load is
    complete. `failure` is the reason for which ingestion of the whole source fails; it stays until a batch succeeds.
    `wait` is the reason for which this table alone is not ingested. The process `ingested_by` ingests the source; it
    counts as ended at `ingested_until` unless it renews its lease. Batches are `trigger_seconds` apart.
    """

    source: str
    as_of: datetime | None = None
    failure: Failure | None = None
    wait: Failure | None = None
    ingested_by: str = ""
    ingested_until: datetime | None = None
    trigger_seconds: float = 0.0

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
    progress = known.progress.get_table_progress(table).advance_to([own], None)
    return OriginStatus(
        source.name,
        progress.as_of,
        progress.failure,
        known.progress.waits.get(table),
        ingested_by=known.ingested_by,
        ingested_until=known.ingested_until,
        trigger_seconds=source.trigger_seconds,
    )


@dataclass(frozen=True)
class NoRefreshReason:
    """Reason for which a model is not refreshed, in words that follow the model's name, and the advised action."""

    reason: str
    action: str


@dataclass(frozen=True)
class TableFacts:
    """Facts about a table from which its freshness is computed.

    `log` is the UUID of the table that receives the commits: the change table of a model, or the table itself.
    `commits` are those that added rows and those of runs, oldest first. `offsets` are the versions up to which the
    newest run has read other tables, by their names; None for a table that no run of a model wrote. `origin` is the
    status of ingestion of an ingested table. `no_refresh` is the reason for which no process refreshes a model; None if
    no such reason is known.
    """

    log: str
    commits: tuple[Commit, ...] = ()
    offsets: Mapping[str, Version] | None = None
    origin: OriginStatus | None = None
    target_lag_seconds: float = 0.0
    no_refresh: NoRefreshReason | None = None

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
    """Freshness of a table: it has all changes of its sources up to the time `as_of`; None if the time is not known.

    A table that is not `fresh` lacks changes of `source`, a source in the project or a table, since the time `since`.
    `reason` is the cause of this, and `action` is the advised action. The table may lag by `allowed_lag_seconds`: its
    own `target_lag`, plus the largest allowed lag of its upstream tables.
    """

    state: FreshnessState
    as_of: datetime | None
    source: str = ""
    since: datetime | None = None
    reason: str = ""
    action: str = ""
    allowed_lag_seconds: float = field(default=0.0)

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
