"""Converts values of `sequence_by`, by which events are ordered, to texts and back.

The texts mean the same in every time zone: a timestamp is written in UTC, with a `Z` at the end. Earlier versions wrote
timestamps in the time zone of their session, without the zone; such a text is not exact, and may mean any instant up to
`UNKNOWN_ZONE` before or after it.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError

UNKNOWN_ZONE = "18:00"
"""The largest offset from UTC, in hours and minutes, that a time zone can have in Spark."""


def write_sequence_text(place: Expression, kind: str) -> Expression:
    """Converts a `sequence_by` value of the SQL type `kind` to a text that means the same in every time zone.

    `read_latest` converts it back.
    """
    if kind != "timestamp":
        return place.cast("string")
    in_utc = F.timestamp_add("MICROSECOND", F.unix_micros(place), F.lit("1970-01-01").cast("timestamp_ntz"))
    return F.concat(in_utc.cast("string"), F.lit("Z"))


def is_exact(text: str, kind: str) -> bool:
    """Whether a text means exactly one `sequence_by` value; false for a timestamp without a time zone."""
    return kind != "timestamp" or text.endswith("Z")


def read_latest(text: str, kind: str) -> Expression:
    """Converts a text to a `sequence_by` value of the SQL type `kind`.

    For a timestamp without a time zone, it is the latest possible one.
    """
    return F.lit(text if is_exact(text, kind) else f"{text}-{UNKNOWN_ZONE}").cast(kind)


def read_earliest(text: str, kind: str) -> Expression:
    """Converts a text to a `sequence_by` value of the SQL type `kind`.

    For a timestamp without a time zone, it is the earliest possible one.
    """
    return F.lit(text if is_exact(text, kind) else f"{text}+{UNKNOWN_ZONE}").cast(kind)


def read_exact(text: str, kind: str) -> Expression:
    """Converts a text to a value of the SQL type `kind`; raises ConfigError for a timestamp without a time zone."""
    if not is_exact(text, kind):
        raise ConfigError(
            f"{text!r} was written by an earlier version of dbt-arctic, without a time zone.",
            fix="declare the rows of the partition again, or run with --full-refresh",
        )
    return F.lit(text).cast(kind)
