"""The interface to source database servers for tasks other than reading the stream, and its classes by their names."""

from __future__ import annotations

import pkgutil
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.database_kinds import get_database_kind
from arctic_runtime.ingest.formats.event_format import NumberedColumns, SourceColumn
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import LogOrder, Position, Source
from arctic_runtime.ingest.transports.transport import CatalogTable
from arctic_runtime.thresholds import DebeziumThresholds


class ConnectionLost(SourceError):
    """Raised if the server can't be reached, or ended the connection; it may become available again."""


class SourceServer(Protocol):
    """A source database server of one kind, such as PostgreSQL.

    Methods raise SourceError with a text for people, and ConnectionLost if the server may become available again.
    """

    @property
    def order(self) -> LogOrder:
        """The order of events in the server's log."""

    @property
    def gives_signs_of_life(self) -> bool:
        """Whether the server regularly sends messages to an idle reader, so that silence means a lost connection."""

    def check_server(self, position: Position | None) -> None:
        """Raises SourceError for anything that would make Debezium fail or lose changes; changes nothing at the server.

        `position` is None for a source that was never ingested.
        """

    def prepare_server(self, position: Position) -> None:
        """Checks the server, and prepares it for reading from `position` on."""

    def publish_tables(self, tables: Collection[str]) -> None:
        """Makes the server send the future changes of `tables` to the stream too."""

    def withdraw_tables(self) -> None:
        """Makes the server stop sending changes of tables that are no longer read, if ingestion may do so."""

    def commit_marker(self) -> None:
        """Commits a transaction that changes no table, so that a stream that reads it has read all earlier ones."""

    def get_stream_start(self, first: Source) -> Source:
        """Returns the offset at which the stream begins after a snapshot.

        `first` is the offset of the first record in the batch that ends the snapshot.
        """

    def identify_log(self) -> Mapping[str, str] | None:
        """Returns what tells the server's log from the logs of others; None if the server has no such thing.

        `check_server` compares it with that of a position (`Position.log`).
        """

    def get_log_end(self) -> Any:
        """Returns the current end of the server's log, in a form of the server's kind, for `has_reached`."""

    def push_log_end(self) -> None:
        """Makes the server send the end of its log to the stream, even if no table changes."""

    def has_reached(self, position: Position, end: Any) -> bool:
        """Whether everything that was committed before the log end `end` is read at `position`."""

    def list_catalog(self) -> list[CatalogTable]:
        """Returns the tables of the database that the user can read, except system tables."""

    def find_unsent(self, tables: Collection[str], streamed: Collection[str]) -> Mapping[str, SourceError | None]:
        """Returns those of `tables` whose changes the log does not have for the stream; see `LoadsTables`."""

    def estimate_rows(self) -> Mapping[str, int]:
        """Returns the number of rows of each table, named with its schema, as the server's statistics estimate it."""

    def find_unreadable(self, tables: Collection[str]) -> Mapping[str, str]:
        """Maps those of `tables` that can't be read exactly to the reasons, as texts for people."""

    def get_primary_key(self, schema: str, table: str) -> tuple[str, ...]:
        """Returns the columns of a table's primary key, in order; empty if it has none."""

    def list_columns(
        self, schema: str, table: str, columns: Sequence[SourceColumn], history: str | None
    ) -> NumberedColumns:
        """Returns `columns` of events with their numbers in the source, and their values in rows older than the column.

        A column that can't be identified gets no number. `history` are the definitions of tables over time, if Debezium
        stores them; else None.
        """

    def explain_failure(self, error: Any, reason: str) -> SourceError:
        """Builds the error that says why Debezium stopped.

        The cause is the Java exception `error`, or the text `reason` if `error` is None.
        """

    def build_properties(self) -> Mapping[str, str]:
        """Returns the properties of Debezium's engine that depend on the server's kind or its tables."""

    def close_connection(self) -> None:
        """Closes the JDBC connection for queries."""


def connect_server(connection: DebeziumConnection, thresholds: DebeziumThresholds) -> SourceServer:
    """Creates the SourceServer for a connection's kind of database; raises ConfigError for an unknown connector."""
    server_class = pkgutil.resolve_name(f"{__package__}.{get_database_kind(connection.connector).server}")
    server: SourceServer = server_class(connection, thresholds)
    return server


def create_log_order(connector: str) -> LogOrder:
    """Creates the LogOrder of a kind of databases; raises ConfigError for an unknown connector."""
    order: LogOrder = pkgutil.resolve_name(f"{__package__}.{get_database_kind(connector).log_order}")()
    return order
