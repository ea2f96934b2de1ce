"""Each of dbt's functions across databases against values that Python computes."""

from __future__ import annotations

import calendar
import datetime as dt
import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from dbt.tests.util import get_connection, run_dbt

from arctic_runtime.spark.engine.statement import quote_text

SEED = 20261126
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/Sao_Paulo", "Australia/Lord_Howe")
UTC = dt.timezone.utc

LENGTHS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
UNITS = (*LENGTHS, "day", "week", *MONTHS)

TEXTS = (
    "",
    "plain",
    "it's",
    "C:\\new's",
    'say "hi"',
    "a\nb\tc\r",
    "Grüße 订单 😀",
    "${spark.x} $1",
    "%_`{{",
    "\\'",
    "''",
)


@dataclass(frozen=True)
class Case:
    """A call in Jinja, and its value as text in a session of a time zone."""

    call: str
    expected: Callable[[ZoneInfo], object]


def expect(call: str, expected: object) -> Case:
    return Case(call, lambda _: expected)


# Times, as Spark reads and writes them


@dataclass(frozen=True)
class Time:
    """A time that SQL names, of the type that the SQL has."""

    kind: str
    sql: str
    clock: dt.datetime

    @property
    def has_zone(self) -> bool:
        return self.kind != "timestamp_ntz"

    def instant(self, zone: ZoneInfo) -> dt.datetime:
        return self.clock.replace(tzinfo=zone if self.has_zone else UTC).astimezone(UTC)


def to_times(clock: dt.datetime) -> tuple[Time, ...]:
    """A time in each type that it can have."""
    day = dt.datetime.combine(clock.date(), dt.time())
    return (
        Time("timestamp", f"timestamp'{clock}'", clock),
        Time("timestamp_ntz", f"timestamp_ntz'{clock}'", clock),
        Time("string", f"'{clock}'", clock),
        Time("date", f"date'{clock.date()}'", day),
    )


def format_time(instant: dt.datetime, zone: dt.tzinfo) -> str:
    clock = instant.astimezone(zone).replace(tzinfo=None)
    return str(clock).rstrip("0") if clock.microsecond else str(clock)


def to_instant(clock: dt.datetime, zone: dt.tzinfo, offset: dt.timedelta | None) -> dt.datetime:
    """The instant of a clock; of two instants the one with this offset from UTC."""
    candidates = [clock.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    both_are_real = all(c.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == clock for c in candidates)
    chosen = next((c for c in candidates if both_are_real and c.utcoffset() == offset), candidates[0])
    return chosen.astimezone(UTC)


def add_months(clock: dt.datetime, months: int) -> dt.datetime:
    year, month = divmod(clock.year * 12 + clock.month - 1 + months, 12)
    return clock.replace(year=year, month=month + 1, day=min(clock.day, calendar.monthrange(year, month + 1)[1]))


def add(unit: str, count: int, time: Time, zone: ZoneInfo) -> str:
    where: dt.tzinfo = zone if time.has_zone else UTC
    start = time.instant(zone)
    if unit in LENGTHS:
        return format_time(start + dt.timedelta(microseconds=count * LENGTHS[unit]), where)
    local = start.astimezone(where)
    clock = local.replace(tzinfo=None)
    if unit in MONTHS:
        moved = add_months(clock, count * MONTHS[unit])
    else:
        moved = clock + dt.timedelta(days=count * (7 if unit == "week" else 1))
    return format_time(to_instant(moved, where, local.utcoffset()), where)


def truncate(unit: str, clock: dt.datetime) -> dt.datetime:
    if unit in LENGTHS:
        start = dt.datetime.combine(clock.date(), dt.time())
        length = dt.timedelta(microseconds=LENGTHS[unit])
        return start + (clock - start) // length * length
    day = dt.datetime.combine(clock.date(), dt.time())
    if unit == "week":
        return day - dt.timedelta(days=day.weekday())
    if unit in MONTHS:
        return day.replace(month=(day.month - 1) // MONTHS[unit] * MONTHS[unit] + 1, day=1)
    return day


def count_starts(unit: str, first: Time, second: Time, zone: ZoneInfo) -> int:
    """The number of starts of a unit between two times, found by looking at both units."""
    if unit == "day":
        return (to_local_day(second, zone) - to_local_day(first, zone)).days
    if unit == "week":
        starts = [truncate("week", dt.datetime.combine(to_local_day(t, zone), dt.time())) for t in (first, second)]
        return (starts[1] - starts[0]).days // 7
    if unit in MONTHS:
        months = [(d.year * 12 + d.month - 1) // MONTHS[unit] for d in (to_local_day(t, zone) for t in (first, second))]
        return months[1] - months[0]
    kinds = {first.kind, second.kind}
    by_wall = "timestamp_ntz" in kinds and "timestamp" not in kinds
    where: dt.tzinfo = UTC if by_wall else zone
    starts = []
    for time in (first, second):
        local = (time.clock.replace(tzinfo=where)).astimezone(UTC).astimezone(where)
        starts.append(to_instant(truncate(unit, local.replace(tzinfo=None)), where, local.utcoffset()))
    return int((starts[1] - starts[0]) / dt.timedelta(microseconds=LENGTHS[unit]))


def to_local_day(time: Time, zone: ZoneInfo) -> dt.date:
    return time.instant(zone).astimezone(zone if time.has_zone else UTC).date()


def quote_in_jinja(sql: str) -> str:
    """A text of SQL as a string of Jinja."""
    return '"' + sql.encode("unicode_escape").decode().replace('"', '\\"') + '"'


CLOCKS = [
    dt.datetime(2024, 1, 31, 10, 10),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999999),
    dt.datetime(2024, 3, 31, 2, 30),  # skipped in Berlin
    dt.datetime(2024, 10, 27, 2, 30, 0, 1),  # twice in Berlin
    dt.datetime(2018, 11, 4, 0, 30),  # skipped in Sao Paulo
    dt.datetime(2024, 4, 7, 1, 45),  # twice on Lord Howe
    dt.datetime(1969, 12, 31, 23, 59, 59, 500000),
    dt.datetime(1972, 2, 29, 0, 0),
    dt.datetime(1999, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2000, 1, 1),
]


def random_clock(draw: random.Random) -> dt.datetime:
    if draw.random() < 0.5:
        near = draw.choice(CLOCKS)
        return near + dt.timedelta(microseconds=draw.randint(-(10**11), 10**11))
    return dt.datetime(1960, 1, 1) + dt.timedelta(microseconds=draw.randint(0, 75 * 365 * 86_400 * 10**6))


def make_dateadd_cases(draw: random.Random) -> Iterator[Case]:
    for unit in UNITS:
        for _ in range(6):
            time, count = draw.choice(to_times(random_clock(draw))), draw.randint(-400, 400)
            written = draw.choice(
                [str(count), f"'{count}'", f'"{count + 1} - 1"', f'"{count + 1} - cast(1 as bigint)"']
            )
            call = f"dbt.dateadd('{unit}', {written}, {quote_in_jinja(time.sql)})"
            yield Case(call, lambda zone, u=unit, c=count, t=time: add(u, c, t, zone))  # type: ignore[misc]
        yield expect(f"dbt.dateadd('{unit}', 1, 'null')", None)
        yield expect(f"dbt.dateadd('{unit}', 'null', \"date'2024-01-01'\")", None)
    start = Time("timestamp", "timestamp'2024-01-01 10:00:00'", dt.datetime(2024, 1, 1, 10))
    for call, micros in (
        ("'hour', 0.5", 1_800_000_000),
        ("'second', '0.29D'", 290_000),
        ("'minute', '1 / 4'", 15 * 10**6),
    ):
        yield Case(
            f"dbt.dateadd({call}, {quote_in_jinja(start.sql)})", lambda z, m=micros: add("microsecond", m, start, z)
        )  # type: ignore[misc]


def make_datediff_cases(draw: random.Random) -> Iterator[Case]:
    for unit in UNITS:
        for _ in range(8):
            near = random_clock(draw)
            far = near + dt.timedelta(
                microseconds=draw.randint(-(10 ** draw.randint(1, 15)), 10 ** draw.randint(1, 15))
            )
            first, second = draw.choice(to_times(near)), draw.choice(to_times(far))
            call = f"dbt.datediff({quote_in_jinja(first.sql)}, {quote_in_jinja(second.sql)}, '{unit}')"
            yield Case(call, lambda zone, u=unit, a=first, b=second: count_starts(u, a, b, zone))  # type: ignore[misc]
        yield expect(f"dbt.datediff('null', \"date'2024-01-01'\", '{unit}')", None)
        yield expect(
            f"dbt.datediff(\"'1999-12-27 23:59:59.999999'\", \"'2000-01-03'\", '{unit.upper()}') ~ ' > 0'", "true"
        )
    known = [
        ("2024-01-01 10:10:00", "2024-01-01 10:50:00", "hour", 0),
        ("2024-01-01 10:10:00", "2024-01-01 12:50:00", "hour", 2),
        ("2024-01-01 10:10:00", "2024-01-01 10:10:50", "minute", 0),
        ("2024-01-01 10:10:00", "2024-01-01 10:11:30", "minute", 1),
        ("2024-01-31", "2024-02-29", "month", 1),
        ("2019-12-31", "2019-12-27", "week", -1),
        ("2019-12-31", "2020-01-06 02:00:00", "week", 1),
        ("1969-12-31 23:59:59.9", "1970-01-01 00:00:00", "second", 1),
    ]
    for first_text, second_text, unit, expected in known:
        yield expect(f"dbt.datediff(\"timestamp'{first_text}'\", \"timestamp'{second_text}'\", '{unit}')", expected)


def make_date_cases(draw: random.Random) -> Iterator[Case]:
    yield from make_dateadd_cases(draw)
    yield from make_datediff_cases(draw)
    for unit in UNITS:
        for _ in range(4):
            time = draw.choice([t for t in to_times(random_clock(draw)) if t.has_zone])
            yield Case(
                f"dbt.date_trunc('{unit}', {quote_in_jinja(time.sql)})",
                lambda zone, u=unit, t=time: format_time(truncate_time(u, t, zone), zone),  # type: ignore[misc]
            )
        yield expect(f"dbt.date_trunc('{unit}', 'null')", None)
    for unit in ("week", "month", "quarter", "year"):
        for _ in range(4):
            time = draw.choice(to_times(random_clock(draw)))
            yield Case(
                f"dbt.last_day({quote_in_jinja(time.sql)}, '{unit}')",
                lambda zone, u=unit, t=time: find_last_day(u, to_local_day(t, zone)),  # type: ignore[misc]
            )
    for day in (dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(999, 12, 31), dt.date(9999, 12, 31)):
        yield expect(f"dbt.date({day.year}, {day.month}, {day.day})", day)


def truncate_time(unit: str, time: Time, zone: ZoneInfo) -> dt.datetime:
    local = time.instant(zone).astimezone(zone)
    return to_instant(truncate(unit, local.replace(tzinfo=None)), zone, local.utcoffset())


def find_last_day(unit: str, day: dt.date) -> dt.date:
    start = truncate(unit, dt.datetime.combine(day, dt.time()))
    following = start + dt.timedelta(days=7) if unit == "week" else add_months(start, MONTHS[unit])
    return (following - dt.timedelta(days=1)).date()


def make_text_cases(draw: random.Random) -> Iterator[Case]:
    for value in TEXTS:
        sql = quote_in_jinja(quote_text(value))
        yield expect(f"dbt.string_literal(dbt.escape_single_quotes({quote_in_jinja(value)}))", value)
        yield expect(f"dbt.hash({sql})", hashlib.md5(value.encode()).hexdigest())
        yield expect(f"dbt.length({sql})", len(value))
        yield expect(f"dbt.concat([{sql}, \"'-'\", {sql}])", f"{value}-{value}")
        yield expect(f"dbt.right({sql}, 2)", value[-2:])
        yield expect(f"dbt.right({sql}, '3 - 2')", value[-1:])
        other = draw.choice(TEXTS[1:])
        both = quote_in_jinja(quote_text(value + other))
        yield expect(f"dbt.position({quote_in_jinja(quote_text(other))}, {both})", (value + other).find(other) + 1)
        yield expect(
            f"dbt.replace({both}, {quote_in_jinja(quote_text(other))}, \"'x'\")", (value + other).replace(other, "x")
        )
        for part in (1, 2, -1):
            parts = (value + "\u00a7" + other).split("\u00a7")
            joined = quote_in_jinja(quote_text("\u00a7".join(parts)))
            yield expect(f"dbt.split_part({joined}, \"'\u00a7'\", {part})", parts[part - 1 if part > 0 else part])
        yield expect(f"dbt.equals({sql}, {sql})", "true")
        yield expect(f"dbt.safe_cast({sql}, 'string')", value)
        yield expect(f"dbt.cast({sql}, dbt.type_string())", value)
    for delimiter in (".", "|", "\\", "a", "__"):
        joined = quote_in_jinja(quote_text(delimiter.join(("1", "2", "3"))))
        yield expect(f"dbt.split_part({joined}, {quote_in_jinja(quote_text(delimiter))}, 2)", "2")
        yield expect(f"dbt.split_part({joined}, {quote_in_jinja(quote_text(delimiter))}, 9)", "")
    for call in (
        "hash('{0}')",
        "length('{0}')",
        "concat(['{0}', \"'a'\"])",
        "right('{0}', 1)",
        "position('{0}', \"'a'\")",
    ):
        yield expect("dbt." + call.format("cast(null as string)"), None)
    yield expect("dbt.position(\"'z'\", \"'abc'\")", 0)


def make_value_cases() -> Iterator[Case]:
    casts: list[tuple[str, str, object]] = [
        ("'abc'", "int", None),
        ("'12'", "int", 12),
        ("'2024-02-30'", "date", None),
        ("300", "tinyint", None),
    ]
    casts += [("'2024-02-29'", "date", "2024-02-29"), ("'1.005'", "decimal(3,2)", "1.01"), ("null", "int", None)]
    casts += [("array('1', 'x')", "array<int>", "[1, null]")]
    for field, kind, expected in casts:
        yield expect(f"dbt.safe_cast({quote_in_jinja(field)}, '{kind}')", expected)
    fixture = quote_in_jinja("array('it''s', 'a\\\\b')")
    yield expect(
        f"dbt.safe_cast(dbt.string_literal(dbt.escape_single_quotes({fixture})), 'array<string>')", "[it's, a\\b]"
    )
    yield expect("dbt.cast(\"'7'\", dbt.type_int()) ~ ' + 1'", 8)
    for value in ("true", "false"):
        yield expect(f"dbt.cast_bool_to_text('{value}')", value)
    yield expect("dbt.cast_bool_to_text('cast(null as boolean)')", None)
    yield expect("dbt.array_construct([1, 2])", "[1, 2]")
    yield expect("'typeof(' ~ dbt.array_construct([], 'string') ~ ')'", "array<string>")
    yield expect("'typeof(' ~ dbt.array_construct() ~ ')'", "array<int>")
    yield expect("dbt.array_append('array(1)', 'null')", "[1, null]")
    yield expect("dbt.array_append('array(1)', '3 - 1')", "[1, 2]")
    yield expect("dbt.array_append(dbt.array_construct(), 1)", "[1]")
    yield expect("dbt.array_append('cast(null as array<int>)', 1)", None)
    yield expect("dbt.array_concat('array(1)', 'array(2, null)')", "[1, 2, null]")
    for unequal in ("dbt.equals('1', '2')", "dbt.equals('0.1D', '0.2D')"):
        yield expect(unequal, "false")
    kinds = {"string": "string", "timestamp": "timestamp", "float": "double", "numeric": "decimal(28,6)"}
    kinds |= {"bigint": "bigint", "int": "int", "boolean": "boolean"}
    for name, kind in kinds.items():
        yield expect(f"'typeof(cast(null as ' ~ dbt.type_{name}() ~ '))'", kind)
    for name in ("", "_backcompat", "_in_utc_backcompat"):
        yield expect(f"'(' ~ dbt.current_timestamp{name}() ~ ') = current_timestamp()'", "true")
    yield expect("'typeof(' ~ dbt.current_timestamp() ~ ')'", "timestamp")
    yield expect("dbt.get_powers_of_two(1) ~ '' ~ dbt.get_powers_of_two(5)", 13)


def make_query_cases() -> Iterator[Case]:
    def expect_of_rows(call: str, values: str, expected: object) -> Case:
        return expect(f"'(select cast(' ~ {call} ~ ' as string) from values {values} as t(x, o))'", expected)

    yield expect_of_rows("dbt.any_value('x')", "(null, 1), (7, 2), (null, 3)", 7)
    yield expect_of_rows("dbt.any_value('x')", "(cast(null as int), 1)", None)
    yield expect_of_rows("dbt.bool_or('x > 1')", "(1, 1), (null, 2), (2, 3)", "true")
    yield expect_of_rows("dbt.bool_or('x > 1')", "(1, 1), (null, 2)", "false")
    yield expect_of_rows("dbt.bool_or('x > 1')", "(cast(null as int), 2)", None)
    three = "(\\'b\\', 2), (\\'a\\', 1), (null, 0), (\\'it\\\\\\'s\\', 3)"
    yield expect_of_rows("dbt.listagg('x', \"', '\", 'order by o')", three, "a, b, it's")
    yield expect_of_rows("dbt.listagg('x', \"'|'\", 'order by o desc', 2)", three, "it's|b")
    yield expect_of_rows("dbt.listagg('x', \"'|'\", 'order by o', 9)", three, "a|b|it's")
    yield expect_of_rows("dbt.listagg('x', \"','\")", "(cast(null as string), 1)", None)
    for name, expected in (("except", "1"), ("intersect", "2,3")):
        query = f"(values (1), (1), (2), (3) as t(x)) ' ~ dbt.{name}() ~ ' (values (2), (3))"
        yield expect(f"'(select array_join(array_sort(collect_list(x)), \",\") from ({query}))'", expected)


def make_series_cases() -> Iterator[Case]:
    """Series, whose length dbt asks for while it compiles."""
    for upper in (1, 2, 5, 100):
        listed = ",".join(map(str, range(1, upper + 1)))
        yield expect(list_values("cast(generated_number as int)", f"dbt.generate_series({upper})"), listed)
    ends = {
        "hour": ("2024-01-01 00:00:00", "2024-01-01 03:00:00", ["00:00:00", "01:00:00", "02:00:00"]),
        "minute": ("2024-02-28 23:59:00", "2024-02-29 00:01:00", ["2024-02-28 23:59:00", "2024-02-29 00:00:00"]),
        "day": ("2024-02-28", "2024-03-01", ["2024-02-28", "2024-02-29"]),
        "week": ("2024-01-01", "2024-01-22", ["2024-01-01", "2024-01-08", "2024-01-15"]),
        "month": ("2024-01-31", "2024-04-01", ["2024-01-31", "2024-02-29", "2024-03-31"]),
        "quarter": ("2024-01-01", "2024-10-01", ["2024-01-01", "2024-04-01", "2024-07-01"]),
        "year": ("2022-01-01", "2025-01-01", ["2022-01-01", "2023-01-01", "2024-01-01"]),
    }
    for unit, (start, end, expected) in ends.items():
        clocks = [t if t[4:5] == "-" else f"2024-01-01 {t}" for t in expected]
        full = ",".join(t if " " in t else f"{t} 00:00:00" for t in clocks)
        kind = "timestamp" if " " in start else "date"
        for written in (kind + "'{}'", "cast('{}' as timestamp)", "'{}'"):
            bounds = f"{quote_in_jinja(written.format(start))}, {quote_in_jinja(written.format(end))}"
            yield expect(list_values(f"date_{unit}", f"dbt.date_spine('{unit}', {bounds})"), full)
            yield expect(f"dbt.get_intervals_between({bounds}, '{unit}')", len(expected))


def list_values(column: str, query: str) -> str:
    return f"'(select array_join(array_sort(collect_list({column})), \",\") from (' ~ {query} ~ '))'"


def write_model(cases: list[Case]) -> str:
    columns = [f"cast({{{{ {item.call} }}}} as string) as c{index}" for index, item in enumerate(cases)]
    return "select\n" + ",\n".join(columns)


@pytest.mark.in_turn
class TestMacroValues:
    """Every function, rendered once by dbt and evaluated by one query in each of several time zones."""

    @pytest.fixture(scope="class")
    def cases(self) -> dict[str, list[Case]]:
        print("seed", SEED)
        draw = random.Random(SEED)
        anywhere = [*make_date_cases(draw), *make_text_cases(draw), *make_value_cases(), *make_query_cases()]
        return {"anywhere": anywhere, "series": list(make_series_cases())}

    @pytest.fixture(scope="class")
    def models(self, cases: dict[str, list[Case]]) -> dict[str, str]:
        return {f"{name}.sql": write_model(group) for name, group in cases.items()}

    @pytest.fixture(scope="class")
    def compiled(self, project: Any) -> dict[str, str]:
        return {result.node.name: result.node.compiled_code for result in run_dbt(["compile"])}

    @pytest.mark.parametrize("zone", ZONES)
    def test_functions_have_the_values_that_python_computes(
        self, project: Any, cases: dict[str, list[Case]], compiled: dict[str, str], zone: str
    ) -> None:
        groups = ("anywhere", "series") if zone == "UTC" else ("anywhere",)
        wrong = [
            (item.call, f"expected {item.expected(ZoneInfo(zone))}, found {value}")
            for group in groups
            for item, value in zip(cases[group], evaluate(project, compiled[group], zone), strict=True)
            if value != to_text(item.expected(ZoneInfo(zone)))
        ]
        assert wrong == []


def to_text(value: object) -> str | None:
    return None if value is None else str(value)


def evaluate(project: Any, query: str, zone: str) -> tuple[str | None, ...]:
    with get_connection(project.adapter):
        session = project.adapter.spark_session()
        usual = session.conf.get("spark.sql.session.timeZone")
        session.conf.set("spark.sql.session.timeZone", zone)
        try:
            (row,) = session.sql(query).collect()
        finally:
            session.conf.set("spark.sql.session.timeZone", usual)
    return tuple(row)
