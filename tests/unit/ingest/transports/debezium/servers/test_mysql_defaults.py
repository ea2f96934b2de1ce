"""The server's text of a default becomes the value that events of the column would have."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import SourceError
from arctic_runtime.ingest.formats.event_format import OlderRows, SourceColumn
from arctic_runtime.ingest.transports.debezium.servers.ddl_history import ColumnType, ConstantDefault
from arctic_runtime.ingest.transports.debezium.servers.mysql_defaults import compute_default
from arctic_runtime.ingest.transports.debezium.servers.source_server import ConnectionLost

LABELS = ("'a'", "'b''c'")


def compute(
    kind: ColumnType, answer: str | None, column: SourceColumn | None = None, sql: str | None = "'x'"
) -> OlderRows:
    return compute_default(lambda _: answer, ConstantDefault(sql), kind, column or SourceColumn("n", "string"))


@pytest.mark.parametrize(
    ("kind", "answer", "expected"),
    [
        (ColumnType("VARCHAR", 4), "it's", "it's"),
        (ColumnType("CHAR", 4), "a   ", "a"),
        (ColumnType("ENUM", 1, labels=LABELS), "B'C", "b'c"),
        (ColumnType("SET", 5, labels=LABELS), "b'c,a,a", "a,b'c"),
        (ColumnType("SET", 5, labels=LABELS), "", ""),
        (ColumnType("INT UNSIGNED"), "65.000", "65"),
        (ColumnType("DECIMAL", 10, 2), "-1.50", "-1.50"),
        (ColumnType("YEAR"), "24.0", "2024"),
        (ColumnType("YEAR"), "70.0", "1970"),
        (ColumnType("FLOAT"), "0.1", "0.10000000149011612"),
        (ColumnType("DOUBLE PRECISION"), "1.5e-3", "1.5e-3"),
        (ColumnType("VARBINARY", 9), "4100", "4100"),
        (ColumnType("BINARY", 3), "4100", "410000"),
        (ColumnType("DATE"), "2024-02-29", "2024-02-29"),
        (ColumnType("DATETIME", 3), "2024-02-29 12:00:00.123", "2024-02-29 12:00:00.123"),
        (ColumnType("TIME"), "-838:59:59", "-838:59:59.000000"),
        (ColumnType("TIME", 3), "12:00:00.500", "12:00:00.500000"),
    ],
)
def test_a_default_has_the_text_of_its_type(kind: ColumnType, answer: str, expected: str) -> None:
    assert compute(kind, answer) == OlderRows(True, expected)


@pytest.mark.parametrize(
    ("kind", "column", "answer", "expected"),
    [
        (ColumnType("BIT", 1), SourceColumn("n", "boolean"), "1.0", "true"),
        (ColumnType("BIT", 12), SourceColumn("n", "binary", padded_to=2), "5.0", "0500"),
        (ColumnType("BOOL"), SourceColumn("n", "boolean"), "0.0", "false"),
        (ColumnType("TINYINT", 1), SourceColumn("n", "int"), "1.0", "1"),
    ],
)
def test_bits_and_booleans_follow_the_column_of_events(
    kind: ColumnType, column: SourceColumn, answer: str, expected: str
) -> None:
    assert compute(kind, answer, column) == OlderRows(True, expected)


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        (ColumnType("VARCHAR", 3), "it's", "may hold another value than its default 'x'"),
        (ColumnType("ENUM", 1, labels=LABELS), "c", "may hold another value"),
        (ColumnType("INT"), "1.5", "may hold another value"),
        (ColumnType("YEAR"), "0", "may hold another value"),
        (ColumnType("DATE"), "0000-00-00", "may hold another value"),
        (ColumnType("DATETIME"), "2024-00-01 00:00:00", "may hold another value"),
        (ColumnType("INT"), None, "may hold another value"),
        (ColumnType("TIMESTAMP"), "2024-02-29 12:00:00", "type TIMESTAMP can't be converted"),
        (ColumnType("GEOMETRY"), "x", "type GEOMETRY can't be converted"),
    ],
)
def test_a_default_that_the_column_may_not_hold_is_unknown_for_a_reason(
    kind: ColumnType, answer: str | None, reason: str
) -> None:
    found = compute(kind, answer)
    assert not found.is_known
    assert reason in found.reason


def test_a_column_that_is_not_null_has_the_value_of_its_type() -> None:
    asked: list[str] = []

    def ask(sql: str) -> str:
        asked.append(sql)
        return "0" if "decimal" in sql else "a"

    column = SourceColumn("n", "string")
    implied = ConstantDefault(None)
    assert compute_default(ask, implied, ColumnType("INT"), column) == OlderRows(True, "0")
    assert compute_default(ask, implied, ColumnType("ENUM", 1, labels=LABELS), column) == OlderRows(True, "a")
    assert "(0)" in asked[0]
    assert "('a')" in asked[1]
    assert "has no constant default" in compute_default(ask, implied, ColumnType("DATE"), column).reason


def test_a_backslash_is_not_read_by_a_mode_in_which_it_escapes_nothing() -> None:
    def ask(sql: str) -> str:
        return "ANSI,NO_BACKSLASH_ESCAPES" if "sql_mode" in sql else "it's"

    default, kind = ConstantDefault(r"'it\'s'"), ColumnType("VARCHAR", 9)
    assert not compute_default(ask, default, kind, SourceColumn("n", "string")).is_known


def test_an_expression_that_the_server_refuses_is_unknown_and_a_lost_server_is_told() -> None:
    def refuse(sql: str) -> str:
        raise SourceError("refused", actual="no such function")

    def lose(sql: str) -> str:
        raise ConnectionLost("gone")

    default, kind, column = ConstantDefault("(f())"), ColumnType("INT"), SourceColumn("n", "int")
    assert "(no such function)" in compute_default(refuse, default, kind, column).reason
    with pytest.raises(ConnectionLost):
        compute_default(lose, default, kind, column)
