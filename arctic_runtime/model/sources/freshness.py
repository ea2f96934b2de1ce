"""The record of how fresh a table is, measured at the sources from which its rows come through all layers."""

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
"""`fresh`: the table shows its sources within its allowed lag. `delayed`: a change waits, as `target_lag` allows.
`behind`: it shows them later than that, or ingestion of a source fails. `held`: ingestion of this table alone waits."""


@dataclass(frozen=True)
class OriginStatus:
    """State of an ingested table's source, as of that table.

    `as_of` is as of when the table shows its source; None if that is not known, as before its first load is complete.
    `failure` is why ingestion of the source fails, until a batch succeeds, and `wait` why this table alone waits.
    `ingested_until` is until when the process `ingested_by` may be silent. Batches are `trigger_seconds` apart.
    """

    source: str
    as_of: datetime | None = None
    failure: Failure | None = None
    wait: Failure | None = None
    ingested_by: str = ""
    ingested_until: datetime | None = None
    trigger_seconds: float = 0.0

    def is_ingested(self, now: datetime) -> bool:
        """Whether a process ingests the source."""
        return self.ingested_until is not None and self.ingested_until > now


def to_origin_status(
    source: ChangeSource, table: str, known: SourceProgress, commits: Iterable[Commit]
) -> OriginStatus:
    """State of a source as of one of its tables, by its name there: its own commits may be further."""
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
    """Why a model is not refreshed, in words that follow its name, and what to do."""

    reason: str
    action: str


@dataclass(frozen=True)
class TableFacts:
    """A table as its commits tell it: those with rows and those of runs, oldest first.

    `log` is the id of the table that commits go to. `offsets` is what the newest run has read of other tables, by their
    names; None for a table that no run of a model made. `origin` is the source of an ingested table. `halt` is why
    nobody refreshes a model, if that is known.
    """

    log: str
    commits: tuple[Commit, ...] = ()
    offsets: Mapping[str, Version] | None = None
    origin: OriginStatus | None = None
    target_lag_seconds: float = 0.0
    halt: Halt | None = None

    @cached_property
    def with_rows(self) -> tuple[Commit, ...]:
        """The commits that brought rows."""
        return tuple(commit for commit in self.commits if commit.rows)

    def list_unread_commits(self, offset: Version | None) -> tuple[Commit, ...]:
        """The commits with rows that a reader has not read; none of a table that was recreated since."""
        if offset is None or offset.table != self.log:
            return ()
        return tuple(commit for commit in self.with_rows if commit.version.sequence > offset.sequence)


@dataclass(frozen=True)
class Freshness:
    """Freshness of a table: it shows all that was changed at its sources up to `as_of`; None if that is not known.

    If it is not `fresh`, `source` is what it is late for, a source in the project or a table, `since` is since when,
    `reason` is why, and `action` what to do. It may be `allowed_lag_seconds` old: its own `target_lag`, after the
    largest of those of the tables above it.
    """

    state: FreshnessState
    as_of: datetime | None
    source: str = ""
    since: datetime | None = None
    reason: str = ""
    action: str = ""
    allowed_lag_seconds: float = field(default=0.0)

    def describe_freshness(self, now: datetime) -> str:
        """A line for people."""
        shown = "it is not known as of when it shows the source"
        if self.as_of is not None:
            age = max(0.0, (now - self.as_of).total_seconds())
            shown = f"shows the source as of {self.as_of.isoformat(' ', 'seconds')}, {age:,.0f} s ago"
        if not self.reason:
            return f"{self.state}: {shown}"
        since = "" if self.since is None else f" since {self.since.isoformat(' ', 'seconds')}"
        action = f"; what to do: {self.action}" if self.action else ""
        return f"{self.state}{since}: {shown}: {self.reason}{action}"
