"""A predicate of frozen rows reads one row and the clock, and never becomes false of a row as time passes."""

from __future__ import annotations

import re

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.ivm.frontend.frozen_predicate import check_frozen_predicate, read_frozen_predicate


@pytest.mark.parametrize(
    "text",
    [
        "day < current_date - interval 90 days",
        "DAY <= date_sub(CURRENT_DATE(), 90) or is_closed",
        "current_date >= dateadd(day, 90, day)",
        "day < add_months(date_trunc('month', current_date), -3)",
        "day < trunc(current_date, 'MM')",
        "(at < now() - interval 1 hour) and state in ('paid', 'lost')",
        "year < year(current_date) - 1",
        "day < current_date - days_kept",
        "day < cast(current_timestamp as date)",
        "not is_open",
        "true",
        "state = 'current_date'",
    ],
)
def test_a_condition_that_stays_true_is_taken(text: str) -> None:
    check_frozen_predicate(text)


@pytest.mark.parametrize(
    "text",
    [
        "day > current_date",
        "current_date < day",
        "not (day < current_date)",
        "day = current_date",
        "day between date '2026-01-01' and current_date",
        "hour(now()) < 3",
        "day < date '2026-01-01' - (current_date - day)",
        "month < month(current_date)",
        "coalesce(day < current_date, false)",
        "cast(now() as string) > name",
    ],
)
def test_a_condition_that_time_may_make_false_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="may be true of a row and false of the same row later"):
        check_frozen_predicate(text)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("id in (select id from t)", "has a subquery"),
        ("sum(id) > 1", "an aggregate, a window function"),
        ("rand() < 1", "depends on more than its arguments"),
        ("unix_timestamp() > at", "depends on more than its arguments"),
        ("my_udf(id)", "not a built-in function"),
        ("day < 'today'", "another value in every run"),
        ("day < 'today", "not an SQL predicate"),
        ("day = 1; drop table t", "not one expression"),
    ],
)
def test_anything_but_a_deterministic_condition_on_one_row_is_refused(text: str, because: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(because)):
        check_frozen_predicate(text)


def test_the_clock_is_the_pinned_time() -> None:
    predicate = read_frozen_predicate("DAY < current_date", ["day"], 1_700_000_000_000_000)
    assert predicate.text == "DAY < CAST(TIMESTAMP_MICROS(1700000000000000) AS DATE)"
    assert predicate.columns == ("day",)


def test_an_unknown_column_is_refused_with_the_text_as_typed() -> None:
    with pytest.raises(ConfigError, match=re.escape("'dai < current_date' names a column")) as raised:
        read_frozen_predicate("dai < current_date", ["day"], 0)
    assert "did you mean 'day'" in str(raised.value)
