"""The interface of transports: batches of change events, in the order of their source, from a position on."""

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
"""Columns of events as transports hand them over, by names that no column of a source has: the JSON of an event as
text or bytes, where the source has it as text for people (an offset, a file and line, an LSN; null where the JSON
itself says it), and the place of the event in its batch, as bigint: higher is later."""


@dataclass(frozen=True)
class TableEvents:
    """The events of one table in a batch, as a table with the columns PAYLOAD, ORIGIN and ARRIVAL.

    Where Spark reads them, `events` makes the table in a session: tables are written side by side, each in its own.
    `table` is its name as the source has it (`public.orders`). `schema` is None if the transport does not know it.
    A batch has several of these for a table whose schema changed meanwhile, the older first.
    """

    table: str
    schema: SourceSchema | None
    events: pa.Table | Callable[[SparkSession], DataFrame]


@dataclass(frozen=True)
class Batch:
    """Events up to a position of the source. `position` is a text from which the transport can continue after them.

    `count` is the number of events. A batch without events moves the position (a heartbeat). `is_snapshot` says that
    the events are rows of a snapshot that is still under way after the batch. `progress` is what `open` takes to go on
    after the batch, None if that is the position. `caught_up` is a time at which the source had nothing that comes
    after the position, None if the transport does not know one; a source without events tells one about every
    minute, by a batch without any. `behind` is the number of events that the source had after the batch when it was
    asked last, None if the transport does not know it. `comes_again` says that
    the position lies before that of earlier batches, and that events after it come once more. A table without events in
    a snapshot is in the batch that ends it, if its schema is known.
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

    A position is kept in tables before it is acknowledged: what was not acknowledged may come again after `open`.
    `initial` is the position before all events, from where on the source gives a snapshot where it has such. Methods
    raise SourceError if the source can't be reached, refuses, or no longer has what comes after a position.
    """

    initial: str

    def check_source(self, position: str | None) -> None:
        """Raises SourceError if `open` would fail or lose events; changes nothing at the source.

        None stands for a source that was never ingested: what others left there under this source's names, such as a
        replication slot, is not taken over then.
        """

    def open_at(self, position: str) -> None:
        """Connects, and continues after a position."""

    def begins_with_snapshot(self, position: str) -> bool:
        """Whether `open` at a position begins with a snapshot of all rows, in the place of the events up to it."""

    def read_batches(self, until_drained: bool) -> Iterator[Batch]:
        """Batches as they come; ends when `close` is called, or when nothing more is there if `until_drained`."""

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        """The events of a batch that come after a position, which may lie before, in or after the batch.

        A table that was committed just before the process died gets events that it has already; the rows of a snapshot
        are never left out.
        """

    def acknowledge_batch(self, batch: Batch) -> None:
        """Tells the source that everything up to the end of a batch is kept."""

    def close_source(self) -> None:
        """Ends the connection; can be called at any time, also twice."""


@dataclass(frozen=True, order=True)
class CatalogTable:
    """A table of a database, with its schema there, and the columns of its primary key in order: none without one."""

    schema: str
    name: str
    key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The table as events name it."""
        return f"{self.schema}.{self.name}"


class TableLoad(Protocol):
    """The load of some tables beside a stream: rows of a snapshot, then what has changed since. Used by one thread.

    `finish` and `close` may be called by others.
    """

    def read_batches(self) -> Generator[Batch]:
        """Rows of a snapshot, then a batch whose position is the one as of which they are, then changes after that.

        That batch is the first that is no `is_snapshot`; it has rows, too. Ends by itself after `finish`. A batch that
        `comes_again` has no events: the load restarts. Raises SourceError if a table is not there.
        """

    def select_after(self, events: TableEvents, position: str) -> TableEvents:
        """As `Transport.select_after`."""

    def acknowledge_batch(self, batch: Batch) -> None:
        """As `Transport.acknowledge_batch`."""

    def finish_load(self) -> None:
        """Has `batches` end when they have all that was committed at the source before this."""

    def close_source(self) -> None:
        """Ends `batches` at once; can be called at any time, also twice."""


@runtime_checkable
class LoadsTables(Protocol):
    """A transport of a database: it knows all tables there, and loads some beside the stream of the others."""

    def list_catalog(self) -> list[CatalogTable]:
        """The tables of the database that can be read, but for those of the server itself."""

    def follow_tables(self, tables: Collection[str]) -> None:
        """Has the next `open` read these tables and no others."""

    def load_tables(self, tables: Collection[str], position: str) -> TableLoad:
        """A load of tables that the stream, which stands at a position or comes from there, does not have.

        From here on, the source keeps what the load needs. Raises SourceError if it can't.
        """

    def join_tables(self, tables: Collection[str], position: str, end: Batch) -> str:
        """From where the next `open` reads tables too, whose load gave `end` as its last batch.

        The stream was closed at `position` before the load was asked to finish. The own positions of all tables exclude
        events that come again.
        """

    def pause_reading(self) -> None:
        """Ends `batches` before the next one, until `close`; can be called by another thread."""
