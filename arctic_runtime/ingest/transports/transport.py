"""The interface of transports: they return batches of change events after a position, in the order of their source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from arctic_runtime.errors import ArcticError, SourceError
from arctic_runtime.ingest.formats.event_format import Path, SourceSchema
from arctic_runtime.model.columns import OWN_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, SparkSession


PAYLOAD, ORIGIN, ARRIVAL = (f"{OWN_PREFIX}{own}" for own in ("payload", "origin", "arrival"))
"""Columns of events that transports return; their names have a prefix that no column of a source has.

PAYLOAD is the JSON of an event as text or bytes. ORIGIN is its position in the source as text for people (an offset, a
file and line, an LSN); null if the JSON itself contains it. ARRIVAL is a bigint that orders the events of a batch:
higher is later.
"""

MESSAGE, FAULT = (f"{OWN_PREFIX}{own}" for own in ("message", "fault"))
"""Further columns of events that are not JSON at their source. MESSAGE has their bytes, of which PAYLOAD was made, and
which dead letters keep. FAULT is the reason why PAYLOAD can't be an event, for those without the format's `proof`."""


@dataclass(frozen=True)
class TableEvents:
    """The events of one table in a batch, with the columns PAYLOAD, ORIGIN and ARRIVAL.

    `events` is the Arrow table, or if Spark reads them, a function that returns a DataFrame for a session: tables are
    written in parallel, each in its own session. `table` is the table's name in the source (`public.orders`). `schema`
    is None if the transport does not know it. If a table's schema changed within a batch, the batch has several
    TableEvents of the table, those with the older schema first. `unreadable` is the error for a table whose columns the
    transport can't read exactly; its events can't be applied.
    """

    table: str
    schema: SourceSchema | None
    events: pa.Table | Callable[[SparkSession], DataFrame]
    unreadable: ArcticError | None = None


class UnreadableTables(SourceError):
    """Raised if tables stop the reading of all tables; `reasons` maps their names in the source to texts for people."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__("\n".join(reasons.values()))
        self.reasons = dict(reasons)


@dataclass(frozen=True)
class Batch:
    """Events up to a position of the source.

    `position` is a text from which the transport can continue after the events, and `count` their number. A batch
    without events only advances the position (a heartbeat). `is_snapshot` is True if the events are rows of a snapshot
    that is not finished after the batch. `progress` is the text by which `open_at` continues after the batch, None if
    that is the position.

    `caught_up` is a time at which the source had nothing after the position, None if the transport does not know one; a
    source without events reports one about every minute, by an empty batch. `behind` is the number of events that the
    source still had after the batch at the last request, None if the transport does not know it. `is_rewound` is True
    if the position is before that of earlier batches, so that the events after it are returned again. A table without
    events in a snapshot is in the batch that ends the snapshot, if its schema is known. `failure` is the reason why the
    source can't be read, empty if it can.
    """

    tables: tuple[TableEvents, ...]
    position: str
    count: int
    is_snapshot: bool = False
    progress: str | None = None
    caught_up: datetime | None = None
    behind: int | None = None
    is_rewound: bool = False
    failure: str = ""


class Transport(Protocol):
    """A connection to a source of change events.

    A position is saved in tables before it is acknowledged: events that were not acknowledged may be returned again
    after `open_at`. `initial` is the position before all events, from which the source begins with a snapshot if the
    transport supports snapshots. Methods raise SourceError if the source can't be reached, refuses, or no longer has
    the events after a position.
    """

    initial: str

    def check_source(self, position: str | None) -> None:
        """Raises SourceError if `open_at` would fail or lose events; changes nothing at the source.

        `position` is None for a source that was never ingested. Then it is an error too if the source already has
        objects with the names that this source would use, such as its replication slot.
        """

    def open_at(self, position: str) -> None:
        """Connects to the source, so that `read_batches` continues after a position."""

    def begins_with_snapshot(self, position: str) -> bool:
        """Whether `open_at` at `position` begins with a snapshot of all rows rather than with events."""

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        """Yields batches as they arrive, until `close_source` is called.

        With `until_drained`, the iterator also ends when the source has no more events. Raises UnreadableTables if it
        could go on without some tables.
        """

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        """Returns those events of a batch that come after a position, which may be before, in or after the batch.

        This is needed after a process died: a table then gets events that it already has. Rows of a snapshot are never
        left out.
        """

    def acknowledge_batch(self, batch: Batch) -> None:
        """Acknowledges to the source all events up to the end of a batch, since the batch is saved."""

    def close_source(self) -> None:
        """Closes the connection; can be called at any time and by another thread, also twice."""


@dataclass(frozen=True, order=True)
class CatalogTable:
    """A table of a database: its schema and name, and the columns of its primary key in order, empty if it has none."""

    schema: str
    name: str
    key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The table's name with its schema, as transports name tables in events."""
        return f"{self.schema}.{self.name}"


class TableGone(SourceError):
    """The error for a table that does not exist at the source, or no longer."""


class TableLoad(Protocol):
    """The load of some tables alongside a stream: the rows of a snapshot, then the changes since the snapshot.

    It is used by one thread; `finish_load` and `close_source` may be called by others.
    """

    def read_batches(self) -> Generator[Batch]:
        """Yields the rows of a snapshot, then a batch with the position of these rows, then the later changes.

        The batch with the position is the first one whose `is_snapshot` is False; it has rows, too. The iterator ends
        when everything is returned that `finish_load` waits for. A batch with `is_rewound` has no events, and means
        that the load starts again, without the tables that are `unreadable` in the batch. Raises SourceError if a table
        does not exist.
        """

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        """Like `Transport.select_after`."""

    def acknowledge_batch(self, batch: Batch) -> None:
        """Like `Transport.acknowledge_batch`."""

    def finish_load(self) -> None:
        """Ends `read_batches` when it has returned everything that was committed at the source before this call."""

    def close_source(self) -> None:
        """Ends `read_batches` at once; can be called at any time, also twice."""


class Probe(Protocol):
    """A connection to a source besides that of its transport, for one thread."""

    def check_answer(self) -> None:
        """Raises SourceError if the source does not answer within a few seconds, or refuses."""

    def close_probe(self) -> None:
        """Closes the connection."""


@runtime_checkable
class ProbesSource(Protocol):
    """A transport whose source can be probed while a batch is written."""

    @property
    def probe_seconds(self) -> float:
        """Pause between two probes."""

    def open_probe(self) -> Probe:
        """Creates a probe, which connects at its first check."""


@runtime_checkable
class LoadsTables(Protocol):
    """A transport of a database, which lists all tables, and loads some of them alongside the stream of the others."""

    def list_catalog(self) -> list[CatalogTable]:
        """Returns the tables of the database that the user can read, except system tables."""

    def estimate_rows(self, tables: Collection[str]) -> Mapping[str, int]:
        """Returns the source's estimates of the rows of `tables`; a table of which it has none is left out."""

    def find_unsent(self, tables: Collection[str], streamed: Collection[str]) -> Mapping[str, SourceError | None]:
        """Returns those of `tables` whose changes the source does not send to the stream, each with the error.

        The error is TableGone for a table that is not there, and None for a table that `load_tables` makes the source
        send. Those of `streamed` that are loaded already are read even if the user may not see them any more.
        """

    def find_unreadable(self, tables: Collection[str]) -> Mapping[str, str]:
        """Maps those of `tables` that can't be read exactly to the reasons, as texts for people."""

    def follow_tables(self, tables: Collection[str]) -> None:
        """Sets the tables of the stream, by their names in the source; effective at the next `open_at`."""

    def load_tables(self, tables: Collection[str], position: str) -> TableLoad:
        """Creates the load of tables that the stream does not have; `position` is the stream's current position.

        From this call on, the source keeps the log that the load needs. Raises SourceError if the tables can't be
        loaded.
        """

    def join_tables(self, tables: Collection[str], position: str, end: Batch) -> str:
        """Returns the position from which the next `open_at` reads `tables` as well; `end` is their load's last batch.

        The stream has to be closed at `position` before the load is finished. From the returned position, events may be
        returned again; each table then leaves out the events that it already has, by its own position.
        """

    def pause_reading(self) -> None:
        """Ends `read_batches` before the next batch, until `close_source`; can be called by another thread."""


def extract_payload_part(path: Path) -> Expression:
    """Builds the expression for the part of PAYLOAD at `path`, as text or JSON.

    Null if there is no such part, or if PAYLOAD is not JSON.
    """
    from pyspark.sql import functions as F

    return F.get_json_object(F.col(PAYLOAD).cast("string"), "$" + "".join(f"['{name}']" for name in path))


def extract_schema_parts(paths: Sequence[Path]) -> Expression:
    """Builds the expression for the parts of PAYLOAD at `paths`, which describe an event's schema, as one JSON text.

    Null if PAYLOAD has none of these parts.
    """
    from pyspark.sql import functions as F

    parts = F.to_json(F.struct(*map(extract_payload_part, paths)))
    return F.when(parts != F.lit("{}"), parts)
