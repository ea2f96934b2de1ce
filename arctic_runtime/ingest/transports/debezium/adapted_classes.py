"""Changes methods of Debezium's Java classes before Java loads them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass

from arctic_runtime.ingest.transports.debezium.jvm import get_class_loader, load_java_class

_LOCK = threading.Lock()
_ADAPTED: set[str] = set()
"""Names of the classes that are adapted already; Java defines a class only once."""


@dataclass(frozen=True)
class AdaptedMethod:
    """A method of a Java class, with Java code for its begin (`first`) or its end (`last`).

    In the code `$1` is the first argument, and at the end `$_` the result. `neighbour` is another class in the same
    package, which Java needs to define the changed class. `opened` is a further class, whose private constructor the
    code calls.
    """

    java_class: str
    method: str
    neighbour: str
    first: str = ""
    last: str = ""
    opened: str = ""


def adapt_methods(methods: Collection[AdaptedMethod]) -> None:
    """Adapts methods of Java classes, each in a class of its own and once in a process.

    Has to be called before Java loads the classes. These are looked up in the JARs of the JVM, whichever thread asks:
    javassist's default pool would look them up by the class loader of the first thread that uses it, and a Python
    thread has none.
    """
    with _LOCK:
        new = [method for method in methods if method.java_class not in _ADAPTED]
        if not new:
            return
        handles = load_java_class("java.lang.invoke.MethodHandles")
        loader = get_class_loader()
        pool = load_java_class("javassist.ClassPool")(False)
        pool.appendClassPath(load_java_class("javassist.LoaderClassPath")(loader))
        for adapted in new:
            neighbour = load_java_class("java.lang.Class").forName(adapted.neighbour, False, loader)
            lookup = handles.privateLookupIn(neighbour, handles.lookup())
            if adapted.opened:
                opened = pool.get(adapted.opened)
                for constructor in opened.getDeclaredConstructors():
                    constructor.setModifiers(load_java_class("javassist.Modifier").PUBLIC)
                lookup.defineClass(opened.toBytecode())
            changed = pool.get(adapted.java_class)
            method = changed.getDeclaredMethod(adapted.method)
            if adapted.first:
                method.insertBefore(adapted.first)
            if adapted.last:
                method.insertAfter(adapted.last)
            lookup.defineClass(changed.toBytecode())
            _ADAPTED.add(adapted.java_class)
