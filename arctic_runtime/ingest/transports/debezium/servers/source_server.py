"""The interface of databases: what an ingestion asks of the server beside the stream of its changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import SourceColumn
from arctic_runtime.ingest.transports.debezium.position import LogOrder, Position, Source
from arctic_runtime.ingest.transports.transport import CatalogTable


class ConnectionLost(SourceError):
    """The server can't be reached, or ended the connection: it may come back."""


class SourceServer(Protocol):
    """A server of one kind. Methods raise SourceError in plain words, and ConnectionLost where it may come back."""

    @property
    def order(self) -> LogOrder:
        """The order of events in its log."""

    @property
    def gives_signs_of_life(self) -> bool:
        """Whether it sends something to a reader that waits, so that a silent one has lost it."""

    def check_server(self, position: Position | None) -> None:
        """Checks all that Debezium would fail of, or worse, go on without. Changes nothing.

        None stands for a source that was never ingested.
        """

    def prepare_server(self, position: Position) -> None:
        """Checks, and makes the server ready to continue after a position."""

    def publish_tables(self, tables: Collection[str]) -> None:
        """Has the log of the stream bring all later changes of tables, besides those that it brings already."""

    def withdraw_tables(self) -> None:
        """Has the log of the stream leave out tables that are not read any more, if that is up to ingestion."""

    def commit_marker(self) -> None:
        """Commits a transaction that changes no table, so that the stream is known to be past all before it."""

    def get_stream_start(self, first: Source) -> Source:
        """Position at which the stream begins after a snapshot; `first` is the offset of a record of its end."""

    def get_log_end(self) -> Any:
        """End of the log now."""

    def push_log_end(self) -> None:
        """Makes the stream reach the end of the log if nothing else is written."""

    def has_reached(self, position: Position, end: Any) -> bool:
        """Whether a position is behind all that was committed before the log ended at `end`."""

    def list_catalog(self) -> list[CatalogTable]:
        """The tables of the database that can be read, but for those of the server itself."""

    def get_primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        """The columns of a table's primary key, in order; none if it has none."""

    def list_columns(
        self, schema: str, table: str, columns: Sequence[SourceColumn], history: str | None
    ) -> tuple[SourceColumn, ...]:
        """The columns of events with their numbers, and with what rows have in them that are older than a column.

        `history` are the definitions of tables over time, if Debezium keeps them.
        """

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        """Why Debezium stopped, in plain words: a Java exception, and a text if there is none."""

    def build_properties(self) -> Mapping[str, str]:
        """Properties of Debezium that depend on the server."""

    def close_connection(self) -> None:
        """Ends the connection."""
