"""The interface of transports: they return batches of change events after a position, in the order of their source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from arctic_runtime.ingest.formats.event_format import SourceSchema
from arctic_runtime.model.columns import OWN_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PAYLOAD, ORIGIN, ARRIVAL = (f"{OWN_PREFIX}{own}" for own in ("payload", "origin", "arrival"))
"""Columns of events that transports return, by names that no column of a source has. PAYLOAD is the JSON of an event as
text or bytes. ORIGIN is its place in the source as text for people (an offset, a file and line, an LSN); null if the
JSON itself contains it. ARRIVAL is the place of the event in its batch, as bigint: higher is later."""


@dataclass(frozen=True)
class TableEvents:
    """The events of one table in a batch, with the columns PAYLOAD, ORIGIN and ARRIVAL.

    `events` is the Arrow table, or if Spark reads them, a function that returns a DataFrame for a session: tables are
    written in parallel, each in its own session. `table` is its name in the source (`public.orders`). `schema` is None
    if the transport does not know it. If a table's schema changed within a batch, the batch has several of these for
    it, the older first.
    """

    table: str
    schema: SourceSchema | None
    events: pa.Table | Callable[[SparkSession], DataFrame]


@dataclass(frozen=True)
class Batch:
    """Events up to a position of the source.

    `position` is a text from which the transport can continue after the events, and `count` their number. A batch
    without events advances the position (a heartbeat). `is_snapshot` says that the events are rows of a snapshot that
    is not finished after the batch. `progress` is what `open_at` takes to continue after the batch, None if that is the
    position.

    `caught_up` is a time at which the source had nothing after the position, None if the transport does not know one; a
    source without events reports one about every minute, by an empty batch. `behind` is the number of events that the
    source still had after the batch at the last request, None if the transport does not know it. `comes_again` says
    that the position is before that of earlier batches, and that events after it are returned again. A table without
    events in a snapshot is in the batch that ends it, if its schema is known. `failure` is the reason why the source
    can't be read, empty if it can.
    """

    tables: tuple[TableEvents, ...]
    position: str
    count: int
    is_snapshot: bool = False
    progress: str | None = None
    caught_up: datetime | None = None
    behind: int | None = None
    comes_again: bool = False
    failure: str = ""


class Transport(Protocol):
    """A connection to a source of change events.

    A position is saved in tables before it is acknowledged: events that were not acknowledged may be returned again
    after `open_at`. `initial` is the position before all events, from which the source begins with a snapshot if it has
    such. Methods raise SourceError if the source can't be reached, refuses, or no longer has the events after a
    position.
    """

    initial: str

    def check_source(self, position: str | None) -> None:
        """Raises SourceError if `open_at` would fail or lose events; changes nothing at the source.

        `position` is None for a source that was never ingested. It is then an error if the source already has objects
        with this source's names, such as a replication slot.
        """

    def open_at(self, position: str) -> None:
        """Connects to the source, so that `read_batches` continues after a position."""

    def begins_with_snapshot(self, position: str) -> bool:
        """Whether `open_at` at a position begins with a snapshot of all rows, in place of the events up to it."""

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        """Yields batches as they arrive, until `close_source` is called.

        With `until_drained`, it ends when the source has no more events.
        """

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        """Returns the events of a batch that come after a position, which may be before, in or after the batch.

        After a process died, tables get events that they already have. Rows of a snapshot are never left out.
        """

    def acknowledge_batch(self, batch: Batch) -> None:
        """Acknowledges everything up to the end of a batch to the source, since it is saved."""

    def close_source(self) -> None:
        """Closes the connection; can be called at any time, also twice."""


@dataclass(frozen=True, order=True)
class CatalogTable:
    """A table of a database: its schema and name, and the columns of its primary key in order, empty without one."""

    schema: str
    name: str
    key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The table's name as it is in events, with its schema."""
        return f"{self.schema}.{self.name}"


class TableLoad(Protocol):
    """The load of some tables alongside a stream: the rows of a snapshot, then the changes since the snapshot.

    It is used by one thread; `finish_load` and `close_source` may be called by others.
    """

    def read_batches(self) -> Generator[Batch]:
        """Yields the rows of a snapshot, then a batch with the position of these rows, then the later changes.

        The batch with the position is the first one whose `is_snapshot` is False; it has rows, too. Ends after
        `finish_load` and everything it waits for. A batch with `comes_again` has no events: the load restarts. Raises
        SourceError if a table does not exist.
        """

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        """Like `Transport.select_after`."""

    def acknowledge_batch(self, batch: Batch) -> None:
        """Like `Transport.acknowledge_batch`."""

    def finish_load(self) -> None:
        """Ends `read_batches` when it has returned everything that was committed at the source before this call."""

    def close_source(self) -> None:
        """Ends `read_batches` at once; can be called at any time, also twice."""


@runtime_checkable
class LoadsTables(Protocol):
    """A transport of a database: it lists all tables there, and loads some alongside the stream of the others."""

    def list_catalog(self) -> list[CatalogTable]:
        """The tables of the database that the user can read, except those of the server itself."""

    def follow_tables(self, tables: Collection[str]) -> None:
        """Sets the tables of the stream, by their names in the source; effective at the next `open_at`."""

    def load_tables(self, tables: Collection[str], position: str) -> TableLoad:
        """Creates the load of tables that the stream does not have; `position` is the stream's current position.

        From this call on, the source keeps the log that the load needs. Raises SourceError if it can't.
        """

    def join_tables(self, tables: Collection[str], position: str, end: Batch) -> str:
        """Returns the position from which the next `open_at` reads `tables` as well; `end` is their load's last batch.

        The stream was closed at `position` before the load was asked to finish. Each table leaves out the events that
        it already has, by its own position.
        """

    def pause_reading(self) -> None:
        """Ends `read_batches` before the next batch, until `close_source`; can be called by another thread."""
