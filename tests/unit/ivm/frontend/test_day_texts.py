"""Which texts of a query Spark may read as of the day of the run."""

from __future__ import annotations

import pytest

from arctic_runtime.ivm.frontend.day_texts import DayTexts, find_day_texts

TYPES = frozenset(
    {
        ("id", "int"),
        ("ts", "timestamp"),
        ("local", "timestamp_ntz"),
        ("day", "date"),
        ("s", "string"),
        ("slot", "string"),
        ("xs", "array<string>"),
        ("payload", "struct<at: string>"),
    }
)


def found(expression: str) -> DayTexts:
    return find_day_texts((f"select {expression} as x from a",), TYPES)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("ts < '10:00'", "'10:00'"),
        ("'T10' <= ts", "'T10'"),
        ("ts in ('2024-01-01', '9:30')", "'9:30'"),
        ("ts between '10:00' and '2024-01-01'", "'10:00'"),
        ("coalesce(ts, '10:00')", "'10:00'"),
        ("case when id > 1 then ts else '10:00' end", "'10:00'"),
        ("if(id > 1, '10:00', ts)", "'10:00'"),
        ("nullif(ts, '10:00')", "'10:00'"),
        ("greatest(ts, '10:00')", "'10:00'"),
        ("unknown(id) = '10:00'", "'10:00'"),
        ("cast(substr(s, 12) as timestamp)", "SUBSTRING(s, 12)"),
        ("cast(split_part(s, ' ', 2) as timestamp)", "SPLIT_PART(s, ' ', 2)"),
        ("cast(date_format(ts, 'HH:mm') as timestamp)", "DATE_FORMAT(ts, 'HH:mm')"),
    ],
)
def test_a_text_of_the_query_may_be_of_the_day(expression: str, text: str) -> None:
    assert text in found(expression).made


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("cast(s as timestamp)", {"s"}),
        ("s::timestamp", {"s"}),
        ("try_cast(s as timestamp)", {"s"}),
        ("to_timestamp(s)", {"s"}),
        ("timestamp(trim(s))", {"s"}),
        ("cast(s || slot as timestamp)", {"s", "slot"}),
        ("cast(xs as array<timestamp>)", {"xs"}),
        ("cast(payload.at as timestamp)", {"payload"}),
        ("cast(substr(s, 1, 19) as timestamp)", {"s"}),
        ("ts = s", {"s"}),
        ("ts in (s, slot)", {"s", "slot"}),
        ("coalesce(s, ts)", {"s"}),
        ("s in (select ts from b)", {"s"}),
        ("array(ts, s)", {"s"}),
        ("hour(s)", {"s"}),
        ("date_trunc('hour', s)", {"s"}),
        ("cast(get_json_object(s, '$.at') as timestamp)", {"s"}),
    ],
)
def test_a_column_may_have_texts_of_the_day(expression: str, columns: set[str]) -> None:
    assert found(expression) == DayTexts((), frozenset(columns))


@pytest.mark.parametrize(
    "expression",
    [
        "slot = '10:00'",
        "s = slot",
        "lower(s) < '10:00'",
        "cast(s as date)",
        "cast(s as timestamp_ntz)",
        "local < '10:00'",
        "day < s",
        "to_timestamp(s, 'yyyy-MM-dd')",
        "cast(to_date(s) as timestamp)",
        "cast(day as timestamp)",
        "ts < '2024-01-01 10:00'",
        "ts > day",
        "'10:00'",
        "case when slot = '10:00' then 1 else 2 end",
        "date_format(ts, 'HH:mm') > '10:00'",
        "coalesce(slot, '10:00')",
    ],
)
def test_other_texts_are_none(expression: str) -> None:
    assert found(expression) == DayTexts()


def test_a_column_is_known_by_its_other_name() -> None:
    sql = "with c as (select trim(s) as other from a) select cast(other as timestamp) as x from c"
    assert find_day_texts((sql,), TYPES) == DayTexts((), frozenset({"s"}))
    view = "select s as other from a"
    assert find_day_texts(("select * from v join b on b.ts = v.other", view), TYPES).columns == {"s"}


def test_a_column_that_is_put_together_with_timestamps_may_have_texts_of_the_day() -> None:
    assert find_day_texts(("select s from a union all select ts from a",), TYPES).columns == {"s"}
    assert find_day_texts(("select s from a union all select slot from a",), TYPES).columns == set()
    twice = TYPES | {("slot", "timestamp")}
    assert find_day_texts(("select a.id from a join b using (slot)",), twice).columns == {"slot"}
    assert find_day_texts(("select a.id from a join b using (slot)",), TYPES).columns == set()


def test_a_name_that_each_step_gives_again_is_followed_once() -> None:
    steps = [f"c{n} as (select coalesce(s, slot) as s, coalesce(slot, s) as slot from c{n - 1})" for n in range(1, 30)]
    sql = f"with c0 as (select s, slot from a), {', '.join(steps)} select * from c29 where s < '10:00'"
    assert find_day_texts((sql,), TYPES) == DayTexts()
    assert "'10:00'" in find_day_texts((sql.replace("c0 as (select s", "c0 as (select ts as s"),), TYPES).made


def test_a_name_without_a_type_that_is_made_of_itself_may_be_a_timestamp() -> None:
    sql = "select x as x from a lateral view explode(b) t as x where x < '10:00'"
    assert find_day_texts((sql,), TYPES).made == ("'10:00'",)
