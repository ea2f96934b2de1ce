"""Texts of dates and times that Spark and DuckDB read in the same way."""

from __future__ import annotations

import re
from datetime import date, datetime

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?))?", re.ASCII)


def read_date(text: str) -> str | None:
    """Returns the text of a date in ISO's long form; None if `text` has another form or is no date."""
    try:
        return date.fromisoformat(text).isoformat() if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def read_timestamp(text: str, is_utc: bool) -> str | None:
    """Returns the text of a time in ISO's long form, of UTC if `is_utc`; None if `text` has another form or is none."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    day, time = match[1], match[2] or "00:00:00"
    try:
        datetime.strptime(f"{day} {time.partition('.')[0]}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return f"{day} {time}{'+00' if is_utc else ''}"
