"""Points in time: everything is UTC in microseconds, and a day is a day in New York."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc

UTC = pa.timestamp("us", tz="UTC")
DAYLIGHT_SAVING_BEGINS, DAYLIGHT_SAVING_ENDS = date(2013, 3, 10), date(2013, 11, 3)  # both at 2 o'clock


def midnight(day: date) -> datetime:
    """When the day begins in New York."""
    daylight_saving = DAYLIGHT_SAVING_BEGINS < day <= DAYLIGHT_SAVING_ENDS
    return datetime(day.year, day.month, day.day, 4 if daylight_saving else 5, tzinfo=timezone.utc)


def within(day: date, moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which of the moments belong to the day."""
    begin, end = (pa.scalar(midnight(d), UTC) for d in (day, day + timedelta(days=1)))
    return pc.and_(pc.greater_equal(moments, begin), pc.less(moments, end))


def shifted(moments: pa.Array, minutes: pa.Array) -> pa.Array:
    """The moments, moved by whole minutes each."""
    return pc.add(moments, pc.multiply(pc.cast(minutes, pa.int64()), 60_000_000).cast(pa.duration("us")))


def repeated(moment: datetime, count: int) -> pa.Array:
    """One moment for each of ``count`` rows."""
    return pa.repeat(pa.scalar(moment, UTC), count)
