"""The table of a value or statement that Debezium can't read is found in the text of its error."""

from __future__ import annotations

import pytest

from arctic_runtime.ingest.transports.debezium.connection import DebeziumConnection
from arctic_runtime.ingest.transports.debezium.java_errors import find_unreadable_table

CONNECTION = DebeziumConnection(
    "postgresql", "db", 5432, "shop", "reader", "-", (r"public\.a", r"public\.a\.b", r"s\.x\.t")
)
TEXT = "Failed to properly convert data value for '{}' of type _numeric"


@pytest.mark.parametrize(
    ("column", "table"),
    [("public.a.c", "public.a"), ("public.a.b.c", "public.a.b"), ("s.x.t.c.d", "s.x.t"), ("public.z.c", None)],
)
def test_the_table_is_the_one_that_is_read_with_the_longest_name(column: str, table: str | None) -> None:
    error = find_unreadable_table(CONNECTION, ValueError(TEXT.format(column)))
    assert (error and [*error.reasons]) == (table and [table])


def test_the_error_names_the_column_and_says_how_to_leave_it_out() -> None:
    error = find_unreadable_table(CONNECTION, ValueError(TEXT.format("public.a.c")))
    assert error is not None
    assert r"`column.exclude.list: public\.a\.c`" in str(error)
    assert "`arctic ingest --resync TABLE`" in str(error)


class Unparsed(Exception):
    """An exception of Java for a statement."""

    def __init__(self, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.cause = cause

    def getCause(self) -> Exception | None:  # noqa: N802 - Java's name
        return self.cause

    def getMessage(self) -> str:  # noqa: N802 - Java's name
        return str(self)


def test_the_error_names_the_table_of_a_statement_and_why_it_is_not_understood() -> None:
    parser = Unparsed("mismatched input 'inet6' expecting {BIT, INT, TEXT}")
    error = find_unreadable_table(CONNECTION, Unparsed("The definition of shop.my t can't be parsed", parser))
    assert error is not None
    assert list(error.reasons) == ["shop.my t"]
    assert "can't read the definition of shop.my t" in str(error)
    assert "mismatched input 'inet6'\n" in str(error)


def test_other_errors_name_no_table() -> None:
    assert find_unreadable_table(CONNECTION, ValueError("the connection was closed")) is None
    assert find_unreadable_table(CONNECTION, None) is None
