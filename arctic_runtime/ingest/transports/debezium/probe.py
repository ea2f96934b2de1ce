"""Probes a source database: whether it answers a query, by a connection of its own with short time limits."""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import explain_java_errors
from arctic_runtime.ingest.transports.debezium.servers.source_database import SourceDatabase
from arctic_runtime.thresholds import DebeziumThresholds


class DebeziumProbe:
    """A `Probe` of a database; a connection that was lost is opened again, with the password that counts then."""

    def __init__(self, connection: DebeziumConnection, limits: DebeziumThresholds) -> None:
        self._connection = connection
        self._database = SourceDatabase(connection, limits.heap_bytes, limits.probe_timeout_seconds)

    def check_answer(self) -> None:
        with explain_java_errors(self._connection):
            self._database.fetch_one("select 1")

    def close_probe(self) -> None:
        self._database.close_connection()
