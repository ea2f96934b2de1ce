"""The time that a run pins: whether a query has another result now, and when it will."""

from __future__ import annotations

import datetime

import pytest

from arctic_runtime.errors import CorruptState
from arctic_runtime.model.clock import ClockReading, to_micros

NOON = to_micros(datetime.datetime(2026, 3, 29, 12, tzinfo=datetime.timezone.utc))
HOUR = 3_600_000_000


def test_it_is_read_as_it_was_written() -> None:
    reading = ClockReading(NOON, "Europe/Berlin")
    assert ClockReading.decode(reading.encode()) == reading
    for text in ("", "7", "{}", '{"at": "x", "zone": "UTC"}'):
        with pytest.raises(CorruptState, match="can't be read"):
            ClockReading.decode(text)


@pytest.mark.parametrize(
    ("zone", "hours", "moved"),
    [
        ("UTC", 0, False),
        ("UTC", 11, False),
        ("UTC", 12, True),
        ("UTC", -13, True),
        ("Asia/Tokyo", 2, False),
        ("Asia/Tokyo", 3, True),
        ("America/New_York", 15, False),
        ("America/New_York", 16, True),
        ("Nowhere/At_All", 1, True),
        ("../etc/passwd", 1, True),
    ],
)
def test_a_day_passes_in_the_zone_of_the_session(zone: str, hours: int, moved: bool) -> None:
    reading = ClockReading(NOON, zone)
    assert reading.has_moved(NOON + hours * HOUR, is_by_day=True) is moved
    assert reading.has_moved(NOON + hours * HOUR, is_by_day=False) is (hours != 0)


def test_the_next_day_begins_where_clocks_change_too() -> None:
    before = NOON - 12 * HOUR
    assert ClockReading(before, "Europe/Berlin").count_seconds_to_next_day(before) == 22 * 3600
    assert ClockReading(NOON, "UTC").count_seconds_to_next_day(NOON) == 12 * 3600
    assert ClockReading(NOON, "Nowhere/At_All").count_seconds_to_next_day(NOON) is None
