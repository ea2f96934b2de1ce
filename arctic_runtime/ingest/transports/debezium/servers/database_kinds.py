"""The kinds of databases that can be ingested, by the names of their connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from arctic_runtime.errors import ConfigError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.servers.mysql import MySQL
from arctic_runtime.ingest.transports.debezium.servers.postgresql import PostgreSQL
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer
from arctic_runtime.suggestions import suggest_nearest
from arctic_runtime.thresholds import DebeziumThresholds

SERVERS: Mapping[str, Callable[[DebeziumConnection, DebeziumThresholds], SourceServer]] = {
    "postgresql": PostgreSQL,
    "mysql": MySQL,
    "mariadb": MySQL,
}


def connect_server(connection: DebeziumConnection, thresholds: DebeziumThresholds) -> SourceServer:
    """Creates the SourceServer for a connection's kind of database; raises ConfigError for an unknown connector."""
    make = SERVERS.get(connection.connector)
    if make is None:
        raise ConfigError(
            f"connector {connection.connector!r} is unknown{suggest_nearest(connection.connector, SERVERS)}; "
            f"expected {', '.join(SERVERS)}"
        )
    return make(connection, thresholds)
