"""Makes Debezium's connectors convert no defaults of columns.

Events contain all values, and a default that Debezium does not understand would be logged, or stop the reading.
"""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.java_methods import InsertedCode

_BINLOG = "io.debezium.connector.binlog.jdbc"
_POSTGRESQL = "io.debezium.connector.postgresql.connection"


def _remove_defaults(converter: str, neighbour: str) -> InsertedCode:
    return InsertedCode(converter, neighbour, "parseDefaultValue", "{ return java.util.Optional.empty(); }", "body")


NO_MYSQL_DEFAULTS = (_remove_defaults(f"{_BINLOG}.BinlogDefaultValueConverter", f"{_BINLOG}.ConnectionConfiguration"),)
NO_POSTGRESQL_DEFAULTS = (_remove_defaults(f"{_POSTGRESQL}.PostgresDefaultValueConverter", f"{_POSTGRESQL}.Lsn"),)
