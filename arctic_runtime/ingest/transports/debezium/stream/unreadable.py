"""Finds the table whose value or definition ended Debezium's engine."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import describe_parser_error, list_causes
from arctic_runtime.ingest.transports.debezium.mysql_statements import UNREADABLE
from arctic_runtime.ingest.transports.transport import UnreadableTables

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
