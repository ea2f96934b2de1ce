"""How far a table is in its source, and as of when it shows it, as its commits say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from arctic_runtime.model.ingestion import to_millis
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.state import TableState


@dataclass(frozen=True)
class Place:
    """Up to where a table has the events of its source: a position, and how many of its events after that."""

    position: str | None = None
    events: int = 0


def place_of(state: TableState) -> Place:
    last = find_last_run(state.log)
    return Place(last.position, int(last.position_events or 0)) if last else Place()


@dataclass(frozen=True)
class SourceTimes:
    """Times of a commit at its source: of its newest change, and as of when the table showed the source before it."""

    newest: datetime | None = None
    shown_before: datetime | None = None

    def note(self) -> RunSummary:
        """The part of a commit's record that keeps them."""
        newest, before = (None if at is None else to_millis(at) for at in (self.newest, self.shown_before))
        return RunSummary(source_time_ms=newest, shown_before_ms=before)
