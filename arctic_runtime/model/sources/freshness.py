"""Data classes for the freshness of a table, relative to the sources from which its rows come, directly or not."""

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
"""`fresh`: the table shows all known changes of its sources. `delayed`: a change waits, within the allowed lag.
`behind`: a change waits longer, or ingestion of a source fails. `held`: ingestion of this table alone waits."""


@dataclass(frozen=True)
class OriginStatus:
    """Status of the source of an ingested table, for that table.

    The table has all changes up to the time `as_of`; None if it is not known, such as before the first load is
    complete. `failure` is why ingestion of the source fails, until a batch succeeds. `wait` is why this table alone is
    not ingested. The process `ingested_by` ingests the source; it counts as ended at `ingested_until` unless it renews
    its lease. Batches are `trigger_seconds` apart.
    """

    source: str
    as_of: datetime | None = None
    failure: Failure | None = None
    wait: Failure | None = None
    ingested_by: str = ""
    ingested_until: datetime | None = None
    trigger_seconds: float = 0.0

    def is_ingested(self, now: datetime) -> bool:
        """Whether a process ingests the source at the time `now`."""
        return self.ingested_until is not None and self.ingested_until > now


def to_origin_status(
    source: ChangeSource, table: str, known: SourceProgress, commits: Iterable[Commit]
) -> OriginStatus:
    """Builds the status of a source for one of its tables, whose name in the source is `table`.

    `known` is the progress of the source. The table's own `commits` may contain newer changes.
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
class Halt:
    """Reason why a model is not refreshed, as words that continue a sentence after its name, and advice what to do."""

    reason: str
    action: str


@dataclass(frozen=True)
class TableFacts:
    """Facts about a table from which its freshness is computed.

    `log` is the UUID of the table that receives the commits. `commits` are those with rows and those of runs, oldest
    first. `offsets` are the versions up to which the newest run has read other tables, by their names; None for a table
    that no run of a model wrote. `origin` is the status of an ingested table's source. `halt` is why nobody refreshes a
    model, if that is known.
    """

    log: str
    commits: tuple[Commit, ...] = ()
    offsets: Mapping[str, Version] | None = None
    origin: OriginStatus | None = None
    target_lag_seconds: float = 0.0
    halt: Halt | None = None

    @cached_property
    def with_rows(self) -> tuple[Commit, ...]:
        """The commits that added rows."""
        return tuple(commit for commit in self.commits if commit.rows)

    def list_unread_commits(self, offset: Version | None) -> tuple[Commit, ...]:
        """Returns the commits with rows after `offset`, the version up to which a reader has read.

        Empty without an offset, or if the table was created again since.
        """
        if offset is None or offset.table != self.log:
            return ()
        return tuple(commit for commit in self.with_rows if commit.version.sequence > offset.sequence)


@dataclass(frozen=True)
class Freshness:
    """Freshness of a table: it has all changes of its sources up to the time `as_of`; None if that time is not known.

    If it is not `fresh`, it lacks changes of `source`, a source in the project or a table, since the time `since`.
    `reason` is the cause, and `action` the advice what to do. The table may be `allowed_lag_seconds` old: its own
    `target_lag`, plus the largest allowed lag of its upstream tables.
    """

    state: FreshnessState
    as_of: datetime | None
    source: str = ""
    since: datetime | None = None
    reason: str = ""
    action: str = ""
    allowed_lag_seconds: float = field(default=0.0)

    def describe_freshness(self, now: datetime) -> str:
        """Describes the freshness for people in one line; `now` is used for the age."""
        shown = "it is not known as of when it shows the source"
        if self.as_of is not None:
            age = max(0.0, (now - self.as_of).total_seconds())
            shown = f"shows the source as of {self.as_of.isoformat(' ', 'seconds')}, {age:,.0f} s ago"
        if not self.reason:
            return f"{self.state}: {shown}"
        since = "" if self.since is None else f" since {self.since.isoformat(' ', 'seconds')}"
        action = f"; what to do: {self.action}" if self.action else ""
        return f"{self.state}{since}: {shown}: {self.reason}{action}"
