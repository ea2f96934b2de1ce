"""Writes the SQL of dbt's date functions.

Arguments are SQL expressions of the types date, timestamp with or without zone, or text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from dbt_common.exceptions import CompilationError

from arctic_runtime.spark.engine.statement import Sql, fill_statement, quote_number, quote_text, trust_query

_MICROSECONDS: Final[Mapping[str, int]] = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60 * 1_000_000,
    "hour": 3_600 * 1_000_000,
}
_CALENDAR_STEPS: Final[Mapping[str, tuple[Sql, int]]] = {
    "day": (Sql("DAY"), 1),
    "week": (Sql("DAY"), 7),
    "month": (Sql("MONTH"), 1),
    "quarter": (Sql("MONTH"), 3),
    "year": (Sql("MONTH"), 12),
}
"""Calendar units as multiples of a unit of Spark's `timestampadd`."""

_MONTHS: Final[Mapping[str, int]] = {"month": 1, "quarter": 3, "year": 12}
_UNITS: Final = (*_MICROSECONDS, *_CALENDAR_STEPS)


def add_to_date(datepart: str, interval: str, start: str) -> str:
    """Returns the SQL that adds `interval` units `datepart` to `start`, by the calendar for days and longer units.

    Fractions of an hour and of shorter units are exact to the microsecond, those of longer units are rounded to whole
    days or months.
    """
    unit = _to_unit("dateadd", datepart)
    step, factor = _CALENDAR_STEPS.get(unit) or (Sql("MICROSECOND"), _MICROSECONDS[unit])
    return fill_statement(
        "timestampadd({step}, cast(round(({interval}) * {factor}L) as bigint), {start})",
        step=step,
        interval=trust_query(interval),
        factor=quote_number(factor),
        start=trust_query(start),
    )


def count_boundaries(first: str, second: str, datepart: str) -> str:
    """Returns the SQL that counts the starts of a unit, such as midnights, from `first` to `second`.

    The count is negative if `second` is before `first`. It is the distance between the units that contain the two
    times. Weeks start on Monday, as in `date_trunc`.
    """
    unit = _to_unit("datediff", datepart)
    if unit in _MICROSECONDS:
        return _count_short_units(unit, first, second)
    return fill_statement(
        "({second} - {first})", second=_index_calendar_unit(unit, second), first=_index_calendar_unit(unit, first)
    )


def truncate_date(datepart: str, time: str) -> str:
    """Returns the SQL of the start of the unit that contains `time`; raises CompilationError for an unknown unit.

    Spark itself would return null for an unknown unit.
    """
    unit = _to_unit("date_trunc", datepart)
    return fill_statement("date_trunc({unit}, {time})", unit=quote_text(unit), time=trust_query(time))


DATE_FUNCTIONS: Final[Mapping[str, Callable[..., str]]] = {
    "dateadd": add_to_date,
    "datediff": count_boundaries,
    "date_trunc": truncate_date,
}
"""Functions that write the SQL of dbt's date functions, by dbt's name; they take dbt's arguments."""


def _to_unit(function: str, datepart: str) -> str:
    """Returns the unit `datepart` in lower case; raises CompilationError if it is unknown."""
    unit = datepart.strip().lower()
    if unit not in _UNITS:
        raise CompilationError(
            f"{function}: {datepart!r} is not a unit of time.\n  expected: {', '.join(_UNITS)}\n"
            "  what to do: write one of these units, without quotes inside the text"
        )
    return unit


def _index_calendar_unit(unit: str, time: str) -> Sql:
    """Returns the SQL of the number of the day, week, month, quarter or year that contains `time`.

    Units are counted from a fixed origin.
    """
    day = fill_statement("cast({time} as date)", time=trust_query(time))
    if unit == "day":
        return fill_statement("unix_date({day})", day=day)
    if unit == "week":
        # 1970-01-01 was a Thursday, so the Monday of its week has the number -3
        return fill_statement("(unix_date(trunc({day}, 'week')) + 3) div 7", day=day)
    return fill_statement(
        "((year({day}) * 12 + month({day}) - 1) div {months})", day=day, months=quote_number(_MONTHS[unit])
    )


def _count_short_units(unit: str, first: str, second: str) -> Sql:
    """Returns the SQL that counts elapsed hours or shorter units; for times without a zone, units of local time.

    Spark itself always subtracts by local time, so that a day on which clocks change would have 24 hours.
    """
    a, b = trust_query(first), trust_query(second)
    return fill_statement(
        "case when 'timestamp_ntz' in (typeof({a}), typeof({b})) and 'timestamp' not in (typeof({a}), typeof({b}))"
        " then {wall_b} - {wall_a} else ({start_b} - {start_a}) div {length}L end",
        a=a,
        b=b,
        wall_a=_index_wall_clock(unit, a),
        wall_b=_index_wall_clock(unit, b),
        start_a=_start_of_unit(unit, a),
        start_b=_start_of_unit(unit, b),
        length=quote_number(_MICROSECONDS[unit]),
    )


def _start_of_unit(unit: str, time: Sql) -> Sql:
    return fill_statement("unix_micros(date_trunc({unit}, {time}))", unit=quote_text(unit), time=time)


def _index_wall_clock(unit: str, time: Sql) -> Sql:
    """Returns the SQL of the number of the hour or shorter unit that contains `time`, counted from 1970-01-01 00:00.

    The clock time of `time`, which a value with a time zone has in the zone of the session, is taken as if it were in
    UTC, where no hour is skipped or repeated on a day on which clocks change. For example, the `hour` of 1970-01-02
    01:30 has the number 25.
    """
    as_utc = fill_statement("unix_micros(cast(cast({time} as timestamp_ntz) || 'Z' as timestamp_ltz))", time=time)
    length = quote_number(_MICROSECONDS[unit])
    return fill_statement("(({micros} - pmod({micros}, {length}L)) div {length}L)", micros=as_utc, length=length)
