"""Inserts code into methods of Debezium's Java classes before Java loads these classes.

For all databases, the connectors then convert no defaults of columns: events contain all values, and a default that
Debezium does not understand would be logged, or stop the reading.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

from typing_extensions import assert_never

from arctic_runtime.ingest.transports.debezium.jvm import get_class_loader, load_java_class

_LOCK = threading.Lock()
_DEFINED: set[str] = set()
"""Names of the classes that are changed already; Java defines a class only once."""


@dataclass(frozen=True)
class InsertedCode:
    """Java code for a method of a class: at its begin, at each of its ends, or in place of its whole body.

    In the code, `$1` is the first argument and `$_` the result. `neighbour` is another class in the same package that
    does not extend the changed class; Java needs it to define the changed class. `opened` is a further class of the
    package, whose private constructor the code calls.
    """

    java_class: str
    neighbour: str
    method: str
    code: str
    place: Literal["begin", "end", "body"] = "begin"
    opened: str = ""


def insert_code(insertions: Iterable[InsertedCode]) -> None:
    """Changes the classes of `insertions`, once in a process; has to be called before Java loads one of them.

    Insertions into one class have to follow each other, and those into a class come before those into its subclasses.
    The classes are looked up in the JARs of the JVM, whichever thread asks: javassist's default pool would look them up
    by the class loader of the first thread that uses it, and a Python thread has none.
    """
    with _LOCK:
        pool = load_java_class("javassist.ClassPool")(False)
        pool.appendClassPath(load_java_class("javassist.LoaderClassPath")(get_class_loader()))
        for name, insertions_of_class in groupby(insertions, attrgetter("java_class")):
            if name not in _DEFINED:
                _define_class(pool, pool.get(name), list(insertions_of_class))
                _DEFINED.add(name)


def _define_class(pool: Any, changed: Any, insertions: list[InsertedCode]) -> None:
    handles = load_java_class("java.lang.invoke.MethodHandles")
    neighbour = load_java_class("java.lang.Class").forName(insertions[0].neighbour, False, get_class_loader())
    lookup = handles.privateLookupIn(neighbour, handles.lookup())
    for opened in filter(None, [insertion.opened for insertion in insertions]):
        java_class = pool.get(opened)
        for constructor in java_class.getDeclaredConstructors():
            constructor.setModifiers(load_java_class("javassist.Modifier").PUBLIC)
        lookup.defineClass(java_class.toBytecode())
    for insertion in insertions:
        method = changed.getDeclaredMethod(insertion.method)
        match insertion.place:
            case "begin":
                method.insertBefore(insertion.code)
            case "end":
                method.insertAfter(insertion.code)
            case "body":
                method.setBody(insertion.code)
            case _:
                assert_never(insertion.place)
    lookup.defineClass(changed.toBytecode())


_BINLOG = "io.debezium.connector.binlog.jdbc"
_POSTGRESQL = "io.debezium.connector.postgresql.connection"


def _remove_defaults(converter: str, neighbour: str) -> InsertedCode:
    return InsertedCode(converter, neighbour, "parseDefaultValue", "{ return java.util.Optional.empty(); }", "body")


NO_MYSQL_DEFAULTS = (_remove_defaults(f"{_BINLOG}.BinlogDefaultValueConverter", f"{_BINLOG}.ConnectionConfiguration"),)
NO_POSTGRESQL_DEFAULTS = (_remove_defaults(f"{_POSTGRESQL}.PostgresDefaultValueConverter", f"{_POSTGRESQL}.Lsn"),)
