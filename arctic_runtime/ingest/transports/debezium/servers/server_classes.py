"""Finds the classes of `servers` by the names that entries of DATABASE_KINDS have."""

from __future__ import annotations

import pkgutil

from arctic_runtime.ingest.database_kinds import get_database_kind
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.position import LogOrder
from arctic_runtime.ingest.transports.debezium.servers.source_server import SourceServer
from arctic_runtime.thresholds import DebeziumThresholds


def connect_server(connection: DebeziumConnection, thresholds: DebeziumThresholds) -> SourceServer:
    """Creates the SourceServer for a connection's kind of database; raises ConfigError for an unknown connector."""
    server_class = pkgutil.resolve_name(f"{__package__}.{get_database_kind(connection.connector).server}")
    server: SourceServer = server_class(connection, thresholds)
    return server


def create_log_order(connector: str) -> LogOrder:
    """Creates the LogOrder of a kind of databases; raises ConfigError for an unknown connector."""
    order: LogOrder = pkgutil.resolve_name(f"{__package__}.{get_database_kind(connector).log_order}")()
    return order
