"""A flight's life in the database: scheduled at midnight, departed, arrived; or cancelled before that."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from sample_project.loader.chance import coins, numbers
from sample_project.loader.images import entries, replaced
from sample_project.loader.times import UTC, midnight, repeated, shifted

SCHEMA = pa.schema(
    [
        pa.field("flight_id", pa.string(), nullable=False),
        pa.field("flight_date", pa.date32()),
        pa.field("carrier", pa.string()),
        pa.field("flight_number", pa.int32()),
        pa.field("tailnum", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("dest", pa.string()),
        pa.field("distance_miles", pa.int32()),
        pa.field("scheduled_departure_at", UTC),
        pa.field("scheduled_hour", UTC),
        pa.field("sched_dep_time", pa.int32()),
        pa.field("sched_arr_time", pa.int32()),
        pa.field("status", pa.string()),
        pa.field("dep_time", pa.int32()),
        pa.field("departed_at", UTC),
        pa.field("dep_delay_minutes", pa.int32()),
        pa.field("arr_time", pa.int32()),
        pa.field("arrived_at", UTC),
        pa.field("arr_delay_minutes", pa.int32()),
        pa.field("air_time_minutes", pa.int32()),
    ]
)
_KNOWN_AT_ARRIVAL = ("arr_time", "arrived_at", "arr_delay_minutes", "air_time_minutes")
_KNOWN_AT_DEPARTURE = ("dep_time", "departed_at", "dep_delay_minutes")
_PLANE_SWAP_RATE = 0.03
_ATLANTIC_TIME = -4  # Puerto Rico and the Virgin Islands, which the airports' table lacks
_NEW_YORK_WINTER_TIME = -5


def flights_of(rows: pa.Table, airports: pa.Table) -> pa.Table:
    """Original rows of one day as the database's rows in the end (SCHEMA), with the cancelled ones."""
    hour = rows["time_hour"].combine_chunks().cast(UTC)
    scheduled = shifted(hour, rows["minute"].combine_chunks())
    departed = shifted(scheduled, rows["dep_delay"].combine_chunks())
    columns = {
        "flight_id": _flight_id(rows),
        "flight_date": pc.divide(_local_midnight(rows), 24).cast(pa.int32()),
        "flight_number": rows["flight"],
        "distance_miles": rows["distance"],
        "scheduled_departure_at": scheduled,
        "scheduled_hour": hour,
        "status": _final_status(rows),
        "departed_at": departed,
        "dep_delay_minutes": rows["dep_delay"],
        "arrived_at": shifted(departed, _minutes_under_way(rows, airports)),
        "arr_delay_minutes": rows["arr_delay"],
        "air_time_minutes": rows["air_time"],
    }
    arrays = [columns.get(f.name, rows[f.name] if f.name in rows.column_names else None) for f in SCHEMA]
    return pa.table([_column(a, f.type) for a, f in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA)


def flight_log(flights: pa.Table, day: date) -> pa.Table:
    """All that ever happens to the flights of one day: op and event_ts, then the row's image after it."""
    departed = flights.filter(pc.is_valid(flights["dep_time"]))
    arrived = flights.filter(pc.is_valid(flights["arr_time"]))
    cancelled = flights.filter(pc.is_null(flights["dep_time"]))
    return pa.concat_tables(
        [
            entries("c", repeated(midnight(day), len(flights)), _as_scheduled(flights, day)),
            entries("d", _cancelled_at(cancelled, day), _as_scheduled(cancelled, day, swaps=False)),
            entries("u", departed["departed_at"], _as_departed(departed)),
            entries("u", arrived["arrived_at"], arrived),
        ]
    )


def _as_scheduled(flights: pa.Table, day: date, *, swaps: bool = True) -> pa.Table:
    planned = _with_swapped_planes(flights, day) if swaps else flights
    return _with_status(_without(planned, (*_KNOWN_AT_DEPARTURE, *_KNOWN_AT_ARRIVAL)), "scheduled")


def _as_departed(flights: pa.Table) -> pa.Table:
    return _with_status(_without(flights, _KNOWN_AT_ARRIVAL), "departed")


def _with_swapped_planes(flights: pa.Table, day: date) -> pa.Table:
    """Some flights are planned with the plane of their carrier's flight before; another one departs."""
    count = len(flights)
    order = pc.sort_indices(flights, [("carrier", "ascending"), ("scheduled_departure_at", "ascending")])
    before = pa.concat_arrays([order.slice(0, 1), order.slice(0, max(count - 1, 0))]).slice(0, count)
    place = pc.sort_indices(order)  # the inverse of order
    previous = flights.take(before.take(place))
    swapped = pc.and_(
        pc.and_(coins("swap", day, count, _PLANE_SWAP_RATE), pc.equal(previous["carrier"], flights["carrier"])),
        pc.and_(pc.is_valid(flights["dep_time"]), pc.is_valid(previous["tailnum"])),
    )
    return replaced(flights, "tailnum", pc.if_else(swapped, previous["tailnum"], flights["tailnum"]))


def _cancelled_at(flights: pa.Table, day: date) -> pa.Array:
    """15 to 60 minutes before they were due, which is after midnight for the earliest (at 1:06) too."""
    notice = numbers("cancelled", day, len(flights), 45)
    return shifted(flights["scheduled_departure_at"], pa.array([-15 - n for n in notice], pa.int64()))


def _flight_id(rows: pa.Table) -> pa.Array:
    """Like 20130101-UA-1545-EWR: no carrier uses a number twice a day from one airport."""
    year_month_day = pc.add(pc.multiply(rows["year"], 10_000), rows["month_day"])
    parts = [
        year_month_day.cast(pa.string()),
        rows["carrier"],
        rows["flight"].cast(pa.string()),
        rows["origin"],
    ]
    return pc.binary_join_element_wise(*parts, "-")


def _final_status(rows: pa.Table) -> pa.Array:
    arrived, departed = pc.is_valid(rows["arr_time"]), pc.is_valid(rows["dep_time"])
    return pc.if_else(arrived, "arrived", pc.if_else(departed, "departed", "scheduled"))


def _minutes_under_way(rows: pa.Table, airports: pa.Table) -> pa.Array:
    """From departure to arrival, by both airports' clocks and time zones: arrivals have local times only."""
    passed = pc.subtract(_minute_of_day(rows["arr_time"]), _minute_of_day(rows["dep_time"]))
    ahead = pc.multiply(_hours_ahead_of_new_york(rows, airports), 60)
    two_days_on = pc.add(pc.subtract(passed, ahead), 2 * 1440)
    return pc.subtract(two_days_on, pc.multiply(pc.divide(two_days_on, 1440), 1440))


def _hours_ahead_of_new_york(rows: pa.Table, airports: pa.Table) -> pa.Array:
    """How far the destination's clock is ahead; airports with dst 'A' change clocks when New York does."""
    index = pc.index_in(rows["dest"], airports["faa"].combine_chunks())
    winter = pc.fill_null(airports["tz"].take(index), _ATLANTIC_TIME)
    changes_clock = pc.fill_null(pc.equal(airports["dst"].take(index), "A"), False)
    midnight_utc = _local_midnight(rows)
    behind_utc = pc.subtract(midnight_utc, pc.multiply(pc.divide(midnight_utc, 24), 24))
    return pc.subtract(winter, pc.if_else(changes_clock, _NEW_YORK_WINTER_TIME, pc.negate(behind_utc)))


def _local_midnight(rows: pa.Table) -> pa.Array:
    """When the day began in New York, as hours since 1970 in UTC; integers need no time zone database."""
    hours = pc.divide(rows["time_hour"].combine_chunks().cast(pa.int64()), 3600)
    return pc.subtract(hours, rows["hour"].combine_chunks())


def _minute_of_day(clock: pa.Array) -> pa.Array:
    hours = pc.divide(clock, 100)
    return pc.subtract(clock, pc.multiply(hours, 40))


def _with_status(flights: pa.Table, status: str) -> pa.Table:
    return replaced(flights, "status", pa.repeat(pa.scalar(status), len(flights)))


def _without(flights: pa.Table, names: tuple[str, ...]) -> pa.Table:
    for name in names:
        flights = replaced(flights, name, pa.nulls(len(flights), SCHEMA.field(name).type))
    return flights


def _column(values: pa.ChunkedArray | pa.Array, kind: pa.DataType) -> pa.Array:
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return flat.cast(kind)
