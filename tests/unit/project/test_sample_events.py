"""The sample's change events: whatever happens on their way, folding them gives the real flights of 2013."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sample_project.loader import FIRST_DAY, LAST_DAY, deliveries, events_of, log_of, opening_of
from sample_project.loader.original import original, rows_of
from sample_project.loader.times import midnight


def days(first: date, count: int) -> list[date]:
    return [first + timedelta(days=n) for n in range(count)]


JANUARY = days(FIRST_DAY, 7)
CLOCKS_GO_FORWARD = days(date(2013, 3, 9), 5)
CLOCKS_GO_BACK = days(date(2013, 11, 2), 5)
NEW_YEAR = days(date(2013, 12, 30), 5)


def delivered(name: str, when: Iterable[date]) -> pa.Table:
    return pa.concat_tables([events_of(day)[name] for day in when])


def flights_of_days(when: Iterable[date]) -> pa.Table:
    return pa.concat_tables([rows_of(original().flights, day) for day in when])


def rows(query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.execute(query).fetchall()


FOLDED_FLIGHTS = """
    with newest as (
        select * from events where flight_date between $first and $last
        qualify row_number() over (partition by flight_id order by lsn desc) = 1
    ),
    database as (
        select year(flight_date) as year, month(flight_date) as month, day(flight_date) as day, dep_time,
               sched_dep_time, dep_delay_minutes, arr_time, sched_arr_time, arr_delay_minutes, carrier,
               flight_number, tailnum, origin, dest, air_time_minutes, distance_miles, scheduled_hour
        from newest where op <> 'd'
    ),
    original as (
        select year, month, day, dep_time, sched_dep_time, dep_delay, arr_time, sched_arr_time, arr_delay,
               carrier, flight, tailnum, origin, dest, air_time, distance, time_hour
        from flights
        where dep_time is not null and make_date(year, month, day) between $first and $last
    )
    select (select count(*) from database), (select count(*) from original),
           (select count(*) from (from database except all from original))
"""


@pytest.mark.parametrize(
    "when", [CLOCKS_GO_BACK, *(pytest.param(w, marks=pytest.mark.slow) for w in (JANUARY, CLOCKS_GO_FORWARD, NEW_YEAR))]
)
def test_folding_the_events_by_position_gives_the_original_flights(when: list[date]) -> None:
    first, last = when[0], when[-4]  # the last news of a flight may be of the third day after
    with duckdb.connect() as connection:
        connection.register("events", delivered("flight_events", when))
        connection.register("flights", flights_of_days(when))
        row = connection.execute(FOLDED_FLIGHTS, {"first": first, "last": last}).fetchone()
    assert row is not None
    in_database, in_original, different = row
    assert in_database == in_original > 900
    assert different == 0


@pytest.mark.slow
def test_cancelled_flights_are_deleted() -> None:
    gone, cancelled = rows(
        """with newest as (
               from events where flight_date <= '2013-01-04'
               qualify row_number() over (partition by flight_id order by lsn desc) = 1)
           select (select count(*) from newest where op = 'd'),
                  (select count(*) from flights where dep_time is null and month = 1 and day <= 4)""",
        events=delivered("flight_events", JANUARY),
        flights=flights_of_days(JANUARY),
    )[0]
    assert gone == cancelled == 28


@pytest.mark.slow
def test_folding_the_events_gives_the_original_weather() -> None:
    different, hours = rows(
        """with folded as (
               from events where observed_hour between '2013-01-02 00:00:00+00' and '2013-01-06 00:00:00+00'
               qualify row_number() over (partition by origin, observed_hour order by lsn desc) = 1),
           measured as (
               from weather where time_hour between '2013-01-02 00:00:00+00' and '2013-01-06 00:00:00+00')
           select count(*) filter (f.temp_f is distinct from m.temp::decimal(5, 2)
                                or f.precip_inches is distinct from m.precip::decimal(5, 2)
                                or f.wind_speed_mph is distinct from m.wind_speed::decimal(9, 5)
                                or f.pressure_mbar is distinct from m.pressure::decimal(6, 1)), count(*)
           from folded f full join measured m on f.origin = m.origin and f.observed_hour = m.time_hour""",
        events=delivered("weather_events", JANUARY),
        weather=original().weather,
    )[0]
    assert different == 0
    assert hours > 250


@pytest.mark.slow
def test_some_weather_is_corrected() -> None:
    corrections, changed = rows(
        """select count(*), count(*) filter (first.temp_f <> second.temp_f)
           from events first join events second using (origin, observed_hour)
           where first.op = 'c' and second.op = 'u' and second.lsn > first.lsn""",
        events=pa.concat_tables([log_of(day)["weather_events"] for day in JANUARY]),
    )[0]
    assert corrections > changed > 0


def test_some_events_come_a_day_late() -> None:
    overdue = pc.less(events_of(JANUARY[5])["flight_events"]["lsn"], 6_000_000)
    assert 0 < pc.sum(overdue).as_py() < 200


def test_some_events_come_out_of_order() -> None:
    events = events_of(JANUARY[5])["flight_events"]
    assert pc.any(pc.less(pc.pairwise_diff(events["lsn"].combine_chunks()), 0)).as_py()


@pytest.mark.slow
def test_some_events_come_twice_and_say_the_same() -> None:
    events = delivered("flight_events", JANUARY)
    twice, same = rows(
        """select (select count(*) from (select lsn from events group by lsn having count(*) > 1)),
                  (select count(*) from (select distinct * from events)) = count(distinct lsn) from events""",
        events=events,
    )[0]
    assert twice > 100
    assert same


@pytest.mark.slow
def test_a_cancellation_can_come_before_the_flight_that_it_cancels() -> None:
    storm = date(2013, 1, 30)
    assert len(_ids(storm, "d") & _ids(storm + timedelta(days=1), "c")) > 3


def _ids(day: date, op: str) -> set[str]:
    log = events_of(day)["flight_events"]
    return set(log.filter(pc.equal(log["op"], op))["flight_id"].to_pylist())


@pytest.mark.slow
def test_positions_follow_time_over_all_tables() -> None:
    for day in JANUARY[:4]:
        entries = pa.concat_tables([table.select(["lsn", "event_ts"]) for table in log_of(day).values()])
        in_order = entries.sort_by("lsn")
        assert pc.count_distinct(entries["lsn"]).as_py() == len(entries)
        gaps = pc.pairwise_diff(in_order["event_ts"].combine_chunks().cast(pa.int64()))
        assert pc.min(gaps).as_py() >= 0
        assert pc.min(entries["lsn"]).as_py() >= deliveries.first_position(day) + 100_000


@pytest.mark.slow
def test_a_flight_is_scheduled_then_departs_then_arrives() -> None:
    log = pa.concat_tables([log_of(day)["flight_events"] for day in JANUARY])
    stories = rows(
        """select distinct list(op || ' ' || status order by lsn), list(event_ts order by lsn)
                           = list(distinct event_ts order by event_ts)
           from log where flight_date <= '2013-01-05' group by flight_id""",
        log=log,
    )
    assert {(" > ".join(story), in_time) for story, in_time in stories} == {
        ("c scheduled > d scheduled", True),
        ("c scheduled > u departed > u arrived", True),
        ("c scheduled > u departed", True),
    }


@pytest.mark.slow
def test_some_flights_depart_with_another_plane_than_planned() -> None:
    log = pa.concat_tables([log_of(day)["flight_events"] for day in JANUARY[:3]])
    swapped = rows(
        """select count(*) from log planned join log flown using (flight_id, carrier)
           where planned.op = 'c' and flown.status = 'departed' and planned.tailnum <> flown.tailnum""",
        log=log,
    )
    assert 20 < swapped[0][0] < 150


@pytest.mark.slow
def test_nobody_arrives_before_departing() -> None:
    logs = [log_of(day)["flight_events"] for day in (*CLOCKS_GO_FORWARD, *CLOCKS_GO_BACK)]
    shortest, longest = rows(
        """select min(arrived_at - departed_at - to_minutes(air_time_minutes)) >= to_minutes(0),
                  max(arrived_at - departed_at - to_minutes(air_time_minutes)) < to_minutes(240) from log""",
        log=pa.concat_tables(logs),
    )[0]
    assert shortest
    assert longest


@pytest.mark.slow
def test_flight_ids_are_unique_over_the_year() -> None:
    flights = original().flights
    key = flights.select(["month_day", "carrier", "flight", "origin"])
    assert len(key.group_by(key.column_names).aggregate([])) == len(flights) == 336_776


def test_days_begin_at_midnight_in_new_york() -> None:
    zone = ZoneInfo("America/New_York")
    for day in days(FIRST_DAY, 368):
        local = midnight(day).astimezone(zone)
        assert (local.date(), local.hour, local.minute) == (day, 0, 0)


def test_events_are_the_same_each_time() -> None:
    first = events_of(JANUARY[3])
    for cached in (deliveries.log_of, deliveries.flight_log, deliveries.weather_log, deliveries.registers):
        cached.cache_clear()
    again = events_of(JANUARY[3])
    assert all(first[name].equals(again[name]) for name in first)


def test_the_first_days_are_as_they_have_always_been() -> None:
    counts = [{name: len(table) for name, table in events_of(day).items()} for day in JANUARY[:2]]
    assert counts == [
        {"flight_events": 2381, "plane_events": 0, "airport_events": 1, "weather_events": 71},
        {"flight_events": 2846, "plane_events": 2, "airport_events": 0, "weather_events": 71},
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "key"), [("plane_events", "tailnum"), ("airport_events", "faa")])
def test_changes_of_a_day_lead_from_one_opening_to_the_next(name: str, key: str) -> None:
    changes = pa.concat_tables([log_of(day)[name] for day in JANUARY])
    before, after = opening_of(JANUARY[0])[name], opening_of(JANUARY[-1] + timedelta(days=1))[name]
    folded = {row[key]: row for row in _images([*before.to_pylist(), *changes.to_pylist()])}
    assert len(changes) > 3
    assert folded == {row[key]: row for row in _images(after.to_pylist())}
    assert _images(before.to_pylist()) != _images(after.to_pylist())


def _images(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in ("op", "lsn", "event_ts")} for row in entries]


@pytest.mark.parametrize("day", [FIRST_DAY - timedelta(days=1), LAST_DAY + timedelta(days=1)])
def test_days_without_flights_are_refused(day: date) -> None:
    with pytest.raises(ValueError, match="choose a day from 2013-01-01"):
        events_of(day)
