"""The data that the steps from a batch of events to a table pass to each other, and positions that commits store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.fold import NOTHING_KEPT, EventCounts, KeptForReplay
from arctic_runtime.model.run_summary import RunSummary, find_last_run
from arctic_runtime.model.sources.ingestion import to_millis
from arctic_runtime.model.state import TableState
from arctic_runtime.model.step import Mode, Reason
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


EventsAfter = Callable[[TableEvents, str], TableEvents]
"""Function that returns those of a table's events that come after a position: `Transport.select_after`."""


@dataclass(frozen=True)
class TableResult:
    """Result of a batch for one table.

    `read` = `applied` + `replayed` + `dead`.
    """

    table: str
    """Name of the table in the source."""

    rows: dict[str, int]
    """Number of change rows by action."""

    read: int
    """Number of events in the batch."""

    applied: int
    """Number of events that were applied."""

    replayed: int
    """Number of events that the table already had."""

    dead: int
    """Number of events that could not be applied, and became dead letters."""

    newest: datetime | None
    """Time of the newest change; None if no event has one."""

    wait: str = ""
    """Reason for which no later events can be applied to the table until it is loaded again; empty if they can."""

    is_reloaded: bool = False
    """Whether ingestion itself loads the table again; if False, a table with a `wait` waits for a user."""

    @property
    def folded(self) -> int:
        return self.applied - sum(self.rows.values())


@dataclass(frozen=True)
class WriteMode:
    """Options for writing the events of a batch.

    `after` selects the events after a position, to leave out those that a table has. If `includes_snapshot_rows` is
    False, rows of a snapshot are left out, since they were stored apart. If `is_load`, rows of a snapshot are inserted
    as they arrive, and if `is_partial`, more of them follow after the batch, so that the commits store no time of the
    source. `shown` is the time at the source whose state the tables have before the batch, None if it is not
    known. `has_dead_letters` is whether the source had dead letters before the batch.
    """

    after: EventsAfter
    includes_snapshot_rows: bool = True
    is_load: bool = False
    is_partial: bool = False
    shown: datetime | None = None
    has_dead_letters: bool = False


@dataclass(frozen=True)
class EventPart:
    """Events of one table and one schema in a batch; `before` are the table's earlier events in the same batch.

    `position` is the position of the batch; None if more events of the table follow in the batch.
    """

    events: TableEvents
    position: str | None
    before: tuple[TableEvents, ...] = ()


@dataclass(frozen=True)
class NewEvents:
    """Events of a part that its table lacks, with counts by which `find_end` computes the table's next position."""

    events: DataFrame
    start: SourcePosition
    """Source position of the table."""

    preceding: int
    """Number of the table's events after `start.position` and before these events."""

    ahead: int = 0
    """Number of events after the part that the table already has."""

    replayed: int = 0
    """Number of events in the part that the table already has."""

    def find_end(self, position: str | None) -> SourcePosition:
        """Returns the table's source position after these events.

        `position` is that of the batch, which ends with these events; None if more events of the table follow in the
        batch.
        """
        if position is not None:
            return SourcePosition(position, self.ahead)
        return SourcePosition(self.start.position, self.preceding + self.events.count())


@dataclass(frozen=True)
class DecodedBatch:
    """Events that a table does not have yet, decoded and counted, with the table's state before the events.

    The table has the source position `start` before and `end` after the events. `times` are what the commit stores.
    `kept` says what change rows keep for a later replay of dead letters.
    """

    state: TableState
    schema: SourceSchema
    events: DataFrame
    counts: EventCounts
    start: SourcePosition
    end: SourcePosition
    times: SourceTimes
    kept: KeptForReplay = NOTHING_KEPT


@dataclass(frozen=True)
class DeadLetters:
    """Decoded events of a table, with the dead letters among them.

    `version_before` is the version of the change table just before the events, None if there was none. `schema` is that
    of the events if their transport knew it. `truncated_at` is the ARRIVAL of the last event that truncates the table,
    None if there is none; dead letters before that event are no longer needed.
    """

    decoded: DataFrame
    version_before: Version | None
    schema: SourceSchema | None
    truncated_at: int | None = None


KeepDeadLetters = Callable[[DeadLetters], None]
"""Function that saves dead letters before the other events of their batch are committed.

It drops dead letters from before a truncate.
"""
