"""The position of a table in its source, and the record of it that each commit keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.sources.ingestion import to_millis
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import Mode, Reason


@dataclass(frozen=True)
class SourcePosition:
    """The events of its source that a table has: all up to a position, and a number of its events after that."""

    position: str | None = None
    events: int = 0


def read_position(state: TableState) -> SourcePosition:
    """Returns the position that a table's newest commit keeps."""
    last = find_last_run(state.log)
    return SourcePosition(last.position, int(last.position_events or 0)) if last else SourcePosition()


@dataclass(frozen=True)
class SourceTimes:
    """Times of a commit at its source: its newest change, and the time as of which the table showed the source before.

    Both are None if they are not known.
    """

    newest: datetime | None = None
    shown_before: datetime | None = None


@dataclass(frozen=True)
class CommitNote:
    """Notes of a commit to an ingested table: its position in the source, its reason, and times at the source.

    `dead_letters` names those that the commit applies; None for other commits.
    """

    position: SourcePosition
    reason: Reason = "CHANGES"
    mode: Mode = "incremental"
    times: SourceTimes = field(default_factory=SourceTimes)
    dead_letters: str | None = None

    def complete(self, is_first: bool) -> CommitNote:
        """Returns the notes with mode and reason as those of a table's first commit, or of a later one."""
        mode: Mode = "create" if is_first and self.mode == "incremental" else self.mode
        return replace(self, mode=mode, reason="FIRST_RUN" if is_first and self.reason == "CHANGES" else self.reason)

    def to_run_summary(self, run: str) -> RunSummary:
        """Returns the notes as the record of a run."""
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
