"""The position of a table in its source, and the note that each commit stores about it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.sources.ingestion import to_millis
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import Mode, Reason


@dataclass(frozen=True)
class SourcePosition:
    """Position in the source up to which a table has all events, plus the number `events` of its events after that.

    `position` is None for a table without events. `events` is not 0 if the last commit ended within a batch.
    """

    position: str | None = None
    events: int = 0


def read_position(state: TableState) -> SourcePosition:
    """Returns the source position that a table's newest commit stores; an empty one if the table has no commit."""
    last = find_last_run(state.log)
    return SourcePosition(last.position, int(last.position_events or 0)) if last else SourcePosition()


@dataclass(frozen=True)
class SourceTimes:
    """Times at the source that a commit stores, None if unknown.

    `newest` is the time of the commit's newest change. `shown_before` is the time at the source whose state the table
    had before the commit.
    """

    newest: datetime | None = None
    shown_before: datetime | None = None


@dataclass(frozen=True)
class CommitNote:
    """Facts that a commit to an ingested table stores: its position in the source, its reason, mode, and source times.

    `dead_letters` are the ids of the dead letters that the commit applies; None for other commits.
    """

    position: SourcePosition
    reason: Reason = "CHANGES"
    mode: Mode = "incremental"
    times: SourceTimes = field(default_factory=SourceTimes)
    dead_letters: str | None = None

    def mark_first_run(self, is_first: bool) -> CommitNote:
        """Returns the note with mode `create` and reason `FIRST_RUN` if the commit is the table's first (`is_first`).

        Only the default mode and reason are replaced; others are kept.
        """
        mode: Mode = "create" if is_first and self.mode == "incremental" else self.mode
        return replace(self, mode=mode, reason="FIRST_RUN" if is_first and self.reason == "CHANGES" else self.reason)

    def to_run_summary(self, run: str) -> RunSummary:
        """Converts the note to the summary of the run with the id `run`, which the commit stores."""
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
