"""Converts Debezium's texts of values to the texts that the database shows, as Spark expressions."""

from __future__ import annotations

from collections.abc import Mapping

from arctic_runtime.spark.engine.statement import Sql, fill_statement, join_parts, quote_text

_SPECIAL_DECIMALS: Mapping[str, str] = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
"""Decimals that are not numbers: Debezium's text, and PostgreSQL's."""


def format_decimal(value: Sql) -> Sql:
    """Converts Debezium's text of a decimal to PostgreSQL's: the digits, or `NaN`, `Infinity` or `-Infinity`."""
    cases = [
        fill_statement("WHEN {own} THEN {shown} ", own=quote_text(own), shown=quote_text(shown))
        for own, shown in _SPECIAL_DECIMALS.items()
    ]
    return fill_statement("CASE {value} {cases}ELSE {value} END", value=value, cases=join_parts(cases, ""))


def format_interval(value: Sql) -> Sql:
    """Rounds the text of an ISO 8601 interval to microseconds, as PostgreSQL keeps it; null for any other text.

    This is needed since Debezium writes the seconds from a binary fraction, cut off after nine digits.
    """
    seconds = fill_statement("try_cast(regexp_extract({value}, '^P.*M(.*)S$', 1) AS decimal(38,6))", value=value)
    return fill_statement(
        "concat(regexp_extract({value}, '^(P.*M).*S$', 1), rtrim('.', rtrim('0', CAST({seconds} AS string))), 'S')",
        value=value,
        seconds=seconds,
    )
