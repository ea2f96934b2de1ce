"""Texts of values that Debezium writes in another way than the database shows them, as Spark expressions."""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_text

_SPECIAL_DECIMALS: Mapping[str, str] = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""Decimals that are no numbers: how Debezium writes them, and how PostgreSQL does."""


def format_decimal(value: Sql) -> Sql:
    """The digits of a decimal, or the name of one that is no number, from Debezium's text."""
    cases = [
        fill_statement("WHEN {own} THEN {shown} ", own=quote_text(own), shown=quote_text(shown))
        for own, shown in _SPECIAL_DECIMALS.items()
    ]
    return fill_statement("CASE {value} {cases}ELSE {value} END", value=value, cases=join_parts(cases, ""))


def format_interval(value: Sql) -> Sql:
    """An interval in ISO 8601 to the microsecond, as PostgreSQL keeps it; null for a text that is none.

    Debezium writes the seconds from a binary fraction, cut off after nine digits.
    """
    seconds = fill_statement("try_cast(regexp_extract({value}, '^P.*M(.*)S$', 1) AS decimal(38,6))", value=value)
    return fill_statement(
        "concat(regexp_extract({value}, '^(P.*M).*S$', 1), rtrim('.', rtrim('0', CAST({seconds} AS string))), 'S')",
        value=value,
        seconds=seconds,
    )
