"""Places in the order of events, as texts that mean the same in every time zone.

A timestamp is written in UTC with a `Z` behind it. Earlier versions wrote it in the time zone of their session, without
the zone, so such a text may mean any instant within `UNKNOWN_ZONE` of it.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as F

from arctic_runtime.errors import ConfigError

UNKNOWN_ZONE = "18:00"
"""The largest offset from UTC that a time zone can have in Spark."""


def write_sequence_text(place: Expression, kind: str) -> Expression:
    """Converts a place of a type to a text that `read_latest` reads back exactly, in any time zone."""
    if kind != "timestamp":
        return place.cast("string")
    in_utc = F.timestamp_add("MICROSECOND", F.unix_micros(place), F.lit("1970-01-01").cast("timestamp_ntz"))
    return F.concat(in_utc.cast("string"), F.lit("Z"))


def is_exact(text: str, kind: str) -> bool:
    """Whether a text means exactly one place; a timestamp without its zone may mean many."""
    return kind != "timestamp" or text.endswith("Z")


def read_latest(text: str, kind: str) -> Expression:
    """Converts a text to its place in the order, the latest possible one if the text is not exact."""
    return F.lit(text if is_exact(text, kind) else f"{text}-{UNKNOWN_ZONE}").cast(kind)


def read_earliest(text: str, kind: str) -> Expression:
    """Converts a text to its place in the order, the earliest possible one if the text is not exact."""
    return F.lit(text if is_exact(text, kind) else f"{text}+{UNKNOWN_ZONE}").cast(kind)


def read_exact(text: str, kind: str) -> Expression:
    """Converts a text to its value; raises ConfigError if the text is not exact."""
    if not is_exact(text, kind):
        raise ConfigError(
            f"{text!r} was written by an earlier version of dbt-arctic, without a time zone.",
            fix="declare the rows of the partition again, or run with --full-refresh",
        )
    return F.lit(text).cast(kind)
