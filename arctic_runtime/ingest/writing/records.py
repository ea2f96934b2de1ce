"""Records that flow through the pipeline from a batch of change events to one table."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.ingest.transports.transport import TableEvents
from arctic_runtime.ingest.writing.fold import Tally
from arctic_runtime.ingest.writing.source_position import SourcePosition, SourceTimes
from arctic_runtime.model.state import TableState
from arctic_runtime.model.version import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EventsAfter = Callable[[TableEvents, str], TableEvents]
"""Leaves out the events up to a position of their source: `Transport.select_after`."""


@dataclass(frozen=True)
class TableResult:
    """Result of a batch for one table: number of change rows by action, and of events by fate.

    read = applied + replayed + dead; `folded` of the applied events left no row of their own, since a later event of
    the batch replaced theirs. `newest` is the time of the newest change, None if no event has one. `wait` is the reason
    why the table took no more events of the batch, and takes none from now on; empty if it takes them.
    """

    table: str
    rows: dict[str, int]
    read: int
    applied: int
    replayed: int
    dead: int
    newest: datetime.datetime | None
    wait: str = ""

    @property
    def folded(self) -> int:
        return self.applied - sum(self.rows.values())


@dataclass(frozen=True)
class WriteMode:
    """Mode in which the events of a batch are written.

    `after` leaves out events that a table has. Without `reads`, rows of a snapshot are left out, since they were
    collected. If it `is_load`, rows of a snapshot are inserted as they come. `shown` is the time as of which the tables
    have shown their source until now, None if it is not known.
    """

    after: EventsAfter
    reads: bool = True
    is_load: bool = False
    shown: datetime.datetime | None = None


@dataclass(frozen=True)
class EventPart:
    """Events of one table and one schema in a batch, after those of `before`.

    `position` is that of the batch; None if more events of the table follow in the batch.
    """

    events: TableEvents
    position: str | None
    before: tuple[TableEvents, ...] = ()


@dataclass(frozen=True)
class NewEvents:
    """Events of a part that a table does not have yet.

    `start` is the position of the table. `preceding` is the number of events of the table after that and before these,
    and `ahead` the number of events after the part that the table has already. `replayed` is the number of events of
    the part that the table has.
    """

    events: DataFrame
    start: SourcePosition
    preceding: int
    ahead: int = 0
    replayed: int = 0

    def find_end(self, position: str | None) -> SourcePosition:
        """Returns the table's position after these events, which end a batch at `position` unless that is None."""
        if position is not None:
            return SourcePosition(position, self.ahead)
        return SourcePosition(self.start.position, self.preceding + self.events.count())


@dataclass(frozen=True)
class DecodedBatch:
    """Events that a table does not have yet, decoded and counted, and the state of the table that they follow.

    The table is at the position `start` before and at `end` after them. If it `keeps_order`, `_seq` of change rows
    keeps the order of events, by which dead letters are put in order with them.
    """

    state: TableState
    schema: SourceSchema
    events: DataFrame
    counts: Tally
    start: SourcePosition
    end: SourcePosition
    shown: datetime.datetime | None
    keeps_order: bool = False

    @property
    def times(self) -> SourceTimes:
        return SourceTimes(self.counts.newest, self.shown)


@dataclass(frozen=True)
class DeadLetters:
    """Decoded events of a table, dead letters among them.

    `version_before` is the version of the table's change table just before the events, None if there was none. `schema`
    is that of the events if their transport knew it. `truncated_at` is the arrival of the last event that truncates the
    table, after which those before it mean nothing; None if there is none.
    """

    decoded: DataFrame
    version_before: Version | None
    schema: SourceSchema | None
    truncated_at: int | None = None


KeepDeadLetters = Callable[[DeadLetters], None]
"""Keeps dead letters before the commit of the sound events of their batch, and drops those that mean nothing."""
