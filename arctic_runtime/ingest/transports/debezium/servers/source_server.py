"""The interface of source databases: what an ingestion needs of the server besides the stream of its changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import SourceColumn
from arctic_runtime.ingest.transports.debezium.position import LogOrder, Position, Source
from arctic_runtime.ingest.transports.transport import CatalogTable


class ConnectionLost(SourceError):
    """Raised if the server can't be reached, or ended the connection; it may become available again."""


class SourceServer(Protocol):
    """A source database server of one kind.

    Methods raise SourceError with a text for people, and ConnectionLost if the server may become available again.
    """

    @property
    def order(self) -> LogOrder:
        """The order of events in its log."""

    @property
    def gives_signs_of_life(self) -> bool:
        """Whether the server regularly sends something to a waiting reader, so that silence means a lost connection."""

    def check_server(self, position: Position | None) -> None:
        """Checks everything that would make Debezium fail or lose changes. Changes nothing.

        `position` is None for a source that was never ingested.
        """

    def prepare_server(self, position: Position) -> None:
        """Checks the server, and prepares it for reading from `position` on."""

    def publish_tables(self, tables: Collection[str]) -> None:
        """Adds tables to the stream's log, so that it contains all later changes of them too."""

    def withdraw_tables(self) -> None:
        """Removes tables that are no longer read from the stream's log, if ingestion may do that."""

    def commit_marker(self) -> None:
        """Commits a transaction that changes no table: when the stream reaches it, it has all earlier transactions."""

    def get_stream_start(self, first: Source) -> Source:
        """Returns the position at which the stream begins after a snapshot.

        `first` is the offset of a record of the snapshot's end.
        """

    def get_log_end(self) -> Any:
        """Returns the current end of the log."""

    def push_log_end(self) -> None:
        """Makes the stream reach the end of the log, even if nothing else is written."""

    def has_reached(self, position: Position, end: Any) -> bool:
        """Returns whether a position is at or past the log end `end`, so that all that was committed before is read."""

    def list_catalog(self) -> list[CatalogTable]:
        """The tables of the database that the user can read, except those of the server itself."""

    def get_primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        """The columns of a table's primary key, in order; empty if it has none."""

    def list_columns(
        self, schema: str, table: str, columns: Sequence[SourceColumn], history: str | None
    ) -> tuple[SourceColumn, ...]:
        """Adds to the columns of events their numbers, and their values in rows that are older than the column.

        `history` are the definitions of tables over time, if Debezium stores them.
        """

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        """Explains why Debezium stopped: by the Java exception `error`, or by the text `reason` if there is none."""

    def build_properties(self) -> Mapping[str, str]:
        """The properties of Debezium that depend on the server."""

    def close_connection(self) -> None:
        """Closes the connection."""
