"""How far a table is in its source, as its newest commit says."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.run_summary import last_run
from arctic_runtime.model.state import TableState


@dataclass(frozen=True)
class Place:
    """Up to where a table has the events of its source: a position, and how many of its events after that."""

    position: str | None = None
    events: int = 0


def place_of(state: TableState) -> Place:
    last = last_run(state.log)
    return Place(last.position, int(last.position_events or 0)) if last else Place()
