"""The time that a run pins, so that all uses of the clock in its query have one value."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from arctic_runtime.errors import CorruptState

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)


@dataclass(frozen=True)
class ClockReading:
    """A time in microseconds since 1970, and the time zone of the Spark session that computed with it."""

    micros: int
    zone: str

    def encode(self) -> str:
        """Returns the reading as JSON, for the summary of a commit."""
        return json.dumps({"at": self.micros, "zone": self.zone}, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> ClockReading:
        """Reads the JSON of `encode`; raises CorruptState if it can't be read."""
        try:
            fields = json.loads(text)
            return cls(int(fields["at"]), str(fields["zone"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptState(
                "The time in a snapshot summary can't be read.",
                expected="JSON with a time and a zone",
                actual=text,
                fix="run with --full-refresh",
            ) from error

    def has_moved(self, micros: int, is_by_day: bool) -> bool:
        """Whether a query that reads the clock may have another result at the time `micros`.

        With `is_by_day` it reads only the day, in the reading's time zone. True if that zone is not known here.
        """
        if micros == self.micros or not is_by_day:
            return micros != self.micros
        zone = self._find_zone()
        return zone is None or _to_time(micros, zone).date() != _to_time(self.micros, zone).date()

    def count_seconds_to_next_day(self, micros: int) -> float | None:
        """Number of seconds from the time `micros` to the next day in the reading's zone; None if it is not known."""
        zone = self._find_zone()
        if zone is None:
            return None
        now = _to_time(micros, zone)
        next_day = datetime.datetime.combine(now.date() + datetime.timedelta(days=1), datetime.time(), zone)
        return (next_day.astimezone(datetime.timezone.utc) - now).total_seconds()

    def _find_zone(self) -> ZoneInfo | None:
        try:
            return ZoneInfo(self.zone)
        except (OSError, ValueError, KeyError):
            return None


def _to_time(micros: int, zone: ZoneInfo) -> datetime.datetime:
    return (_EPOCH + datetime.timedelta(microseconds=micros)).astimezone(zone)


def to_micros(time: datetime.datetime) -> int:
    """Converts a time with a zone to microseconds since 1970."""
    return (time - _EPOCH) // datetime.timedelta(microseconds=1)
