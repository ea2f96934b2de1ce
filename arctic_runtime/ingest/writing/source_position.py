"""The position of a table in its source, and the notes about it that each commit stores."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.sources.ingestion import to_millis
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import Mode, Reason


@dataclass(frozen=True)
class SourcePosition:
    """Which events of its source a table has: all up to `position`, and `events` of its events after that."""

    position: str | None = None
    events: int = 0


def read_position(state: TableState) -> SourcePosition:
    """Reads the position that is stored in a table's newest commit."""
    last = find_last_run(state.log)
    return SourcePosition(last.position, int(last.position_events or 0)) if last else SourcePosition()


@dataclass(frozen=True)
class SourceTimes:
    """Times at the source for a commit, None if they are not known.

    `newest` is the time of its newest change. `shown_before` is the time as of which the table showed the source
    before.
    """

    newest: datetime | None = None
    shown_before: datetime | None = None


@dataclass(frozen=True)
class CommitNote:
    """Notes of a commit to an ingested table: its position in the source, its reason, and times at the source.

    `dead_letters` are the ids of the dead letters that the commit applies; None for other commits.
    """

    position: SourcePosition
    reason: Reason = "CHANGES"
    mode: Mode = "incremental"
    times: SourceTimes = field(default_factory=SourceTimes)
    dead_letters: str | None = None

    def complete(self, is_first: bool) -> CommitNote:
        """Returns the notes with the mode and reason of a first commit, if it is the table's first (`is_first`)."""
        mode: Mode = "create" if is_first and self.mode == "incremental" else self.mode
        return replace(self, mode=mode, reason="FIRST_RUN" if is_first and self.reason == "CHANGES" else self.reason)

    def to_run_summary(self, run: str) -> RunSummary:
        """Converts the notes to the summary of a run, which the commit stores."""
        newest, before = (None if at is None else to_millis(at) for at in (self.times.newest, self.times.shown_before))
        return RunSummary(
            run=run,
            mode=self.mode,
            reason=self.reason,
            position=self.position.position,
            position_events=str(self.position.events) if self.position.events else None,
            source_time_ms=newest,
            shown_before_ms=before,
            letters=self.dead_letters,
        )
