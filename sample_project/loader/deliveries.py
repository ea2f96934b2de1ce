"""What arrives on a day: the day's log, in parts too late, out of order or twice, as real deliveries do.

A log position (``lsn``) is the number of the day times a million, plus the place inside the day; the first
100,000 places are left to the opening, which hands over what was there before the first delivery.
"""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache, lru_cache
from random import Random

import pyarrow as pa
import pyarrow.compute as pc

from sample_project.loader import flights, registry, weather
from sample_project.loader.chance import coins
from sample_project.loader.original import original, rows_of
from sample_project.loader.times import UTC, within

FIRST_DAY = date(2013, 1, 1)
LAST_DAY = date(2014, 1, 3)  # flights of 31 December land on 1 January, and their late news comes a day later

FLIGHTS, PLANES, AIRPORTS, WEATHER = "flight_events", "plane_events", "airport_events", "weather_events"

_HEAD = (
    pa.field("op", pa.string(), nullable=False),
    pa.field("lsn", pa.int64(), nullable=False),
    pa.field("event_ts", UTC, nullable=False),
)
SCHEMAS: dict[str, pa.Schema] = {
    FLIGHTS: pa.schema([*_HEAD, *flights.SCHEMA]),
    PLANES: pa.schema([*_HEAD, *registry.PLANES]),
    AIRPORTS: pa.schema([*_HEAD, *registry.AIRPORTS]),
    WEATHER: pa.schema([*_HEAD, *weather.SCHEMA]),
}

_LATE_RATE, _TWICE_RATE, _AGAIN_RATE, _OUT_OF_ORDER_RATE = 0.03, 0.01, 0.005, 0.05
_OUT_OF_ORDER_BY = 300
_DAYS_IN_MEMORY = 16  # of a day of some 3,000 entries, about 1 MB each
_LONGEST_FLIGHT_DAYS = 2  # the longest delay is 22 hours, so a flight's last news is of the second day after


def events_of(day: date) -> dict[str, pa.Table]:
    """The events that are delivered on one day, by landing table, in the order of their arrival.

    Raises ValueError for days without a log: the log begins on 1 January 2013.
    """
    if not FIRST_DAY <= day <= LAST_DAY:
        raise ValueError(f"No flights are known for {day}: choose a day from {FIRST_DAY} to {LAST_DAY}.")
    today, yesterday = log_of(day), log_of(day - timedelta(days=1))
    return {name: _delivery(name, today[name], yesterday[name], day) for name in SCHEMAS}


def opening_of(day: date) -> dict[str, pa.Table]:
    """The registers as they were when the day began: what a table needs before its first delivery."""
    tables = {name: registry.register_opening(register, FIRST_DAY, day) for name, register in registers().items()}
    return _numbered(tables, first_position(day))


@lru_cache(maxsize=_DAYS_IN_MEMORY)
def log_of(day: date) -> dict[str, pa.Table]:
    """Everything that happened on one day, by landing table, in the order in which it happened."""
    tables = {FLIGHTS: _flights_on(day)}
    for name, register in registers().items():
        tables[name] = registry.register_log(register, FIRST_DAY, day)
    tables[WEATHER] = _weather_on(day)
    return _numbered(tables, first_position(day) + 100_000)


def _flights_on(day: date) -> pa.Table:
    days = (day - timedelta(days=n) for n in range(_LONGEST_FLIGHT_DAYS, -1, -1))
    log = pa.concat_tables([flight_log(d) for d in days])
    return log.filter(within(day, log["event_ts"]))


def _weather_on(day: date) -> pa.Table:
    log = pa.concat_tables([weather_log(d) for d in (day - timedelta(days=1), day)])
    return log.filter(within(day, log["event_ts"]))


@lru_cache(maxsize=_DAYS_IN_MEMORY)
def flight_log(day: date) -> pa.Table:
    rows = rows_of(original().flights, day)
    return flights.flight_log(flights.flights_of(rows, original().airports), day)


@lru_cache(maxsize=_DAYS_IN_MEMORY)
def weather_log(day: date) -> pa.Table:
    return weather.weather_log(weather.weather_of(rows_of(original().weather, day)), day)


@cache
def registers() -> dict[str, registry.Register]:
    data = original()
    return {
        PLANES: registry.planes_of(data.planes),
        AIRPORTS: registry.airports_of(data.airports, data.flights),
    }


def first_position(day: date) -> int:
    return ((day - FIRST_DAY).days + 1) * 1_000_000


def _numbered(tables: dict[str, pa.Table], first: int) -> dict[str, pa.Table]:
    """The tables in order of time, with positions in the one log that they share; earlier rows win a tie."""
    moments = pa.concat_arrays([table["event_ts"].combine_chunks() for table in tables.values()])
    place = pc.sort_indices(pc.sort_indices(moments)).cast(pa.int64())
    numbered, begin = {}, 0
    for name, table in tables.items():
        lsn = pc.add(place.slice(begin, len(table)), first)
        begin += len(table)
        numbered[name] = _in_order_of(table.add_column(1, "lsn", lsn), lsn).cast(SCHEMAS[name])
    return numbered


def _delivery(name: str, today: pa.Table, yesterday: pa.Table, day: date) -> pa.Table:
    late, twice, _ = _mishaps(name, today, day)
    was_late, _, again = _mishaps(name, yesterday, day - timedelta(days=1))
    on_time = pc.invert(late)
    parts = [
        today.filter(on_time),
        today.filter(pc.and_(on_time, twice)),
        yesterday.filter(pc.or_(was_late, again)),
    ]
    return _jumbled(pa.concat_tables(parts), f"{name} order", day)


def _mishaps(name: str, log: pa.Table, day: date) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Which entries come a day late, twice on their day, and on their day and the next."""
    rates = (("late", _LATE_RATE), ("twice", _TWICE_RATE), ("again", _AGAIN_RATE))
    late, twice, again = (coins(f"{name} {what}", day, len(log), rate) for what, rate in rates)
    return late, twice, again


def _jumbled(events: pa.Table, name: str, day: date) -> pa.Table:
    """Some events overtake, or fall behind, some hundred others."""
    draw = Random(f"{name} {day}").random
    places = [i + _jump(draw(), draw()) for i in range(len(events))]
    return _in_order_of(events, pa.array(places, pa.float64()))


def _jump(chance: float, distance: float) -> float:
    return (distance - 0.5) * 2 * _OUT_OF_ORDER_BY if chance < _OUT_OF_ORDER_RATE else 0.0


def _in_order_of(table: pa.Table, key: pa.Array) -> pa.Table:
    return table.take(pc.sort_indices(key))
