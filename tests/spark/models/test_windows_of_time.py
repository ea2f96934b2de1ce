"""Models over windows of time: as time passes rows enter and leave, and nothing else is computed again."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.model.forgetting import Forget
from arctic_runtime.plan.refresh.request import Request
from arctic_runtime.refresh_planner import Outcome, RefreshPlanner
from arctic_runtime.spark.forget.forgetting import Forgetting
from arctic_runtime.spark.refresh.overwrite import restore_version
from arctic_runtime.spark.refresh.run import Refresh
from arctic_runtime.spark.refresh.verify import verify_model
from tests.spark.warehouse import Warehouse, refuse, sorted_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from arctic_runtime.model.table import Model

COLUMNS = "id int, g string, day date, at timestamp"
START = datetime.datetime(2026, 3, 10, 9, 0, tzinfo=datetime.timezone.utc)
DAY = datetime.timedelta(days=1)


def rows_of(days: dict[int, int]) -> list[tuple[Any, ...]]:
    """Rows by id, each so many days before START."""
    return [(key, "ab"[key % 2], (START - back * DAY).date(), START - back * DAY) for key, back in days.items()]


def run_at(
    lake: Warehouse, model: Model, time: datetime.datetime, session: Callable[[], SparkSession] | None = None
) -> Outcome:
    planner = RefreshPlanner(model, lake.reader, Request(), now=time)
    outcome = Refresh(planner, session or (lambda: lake.spark)).run_refresh()
    assert outcome.reason != "INCREMENT_FAILED", outcome.because
    return outcome


def broken(lake: Warehouse, model: Model, time: datetime.datetime) -> list[str]:
    refresh = Refresh(RefreshPlanner(model, lake.reader, Request(), now=time), lambda: lake.spark)
    findings = verify_model(refresh)
    assert not [finding.left_out for finding in findings if finding.left_out]
    return [f"{finding.check}: {finding.examples}" for finding in findings if finding.broken]


@pytest.mark.in_turn
def test_rows_enter_and_leave_a_window_of_days(lake: Warehouse) -> None:
    lake.load("source", rows_of({1: 0, 2: 1, 3: 2, 4: 3, 5: -1}), COLUMNS)
    model = lake.model(
        "m", "select id, day from {source} where day between current_date - interval 2 days and current_date()",
        primary_key="id",
    )  # fmt: skip
    assert lake.actions(run_at(lake, model, START)) == (3, 0, 0)
    assert run_at(lake, model, START + DAY / 2, refuse).mode == "unchanged"
    later = run_at(lake, model, START + DAY)
    assert (later.mode, later.reason, lake.actions(later)) == ("incremental", "CHANGES", (1, 0, 1))
    assert [row[0] for row in lake.rows(model)] == [1, 2, 5]
    assert broken(lake, model, START + DAY) == []
    lake.load("source", rows_of({1: 5, 2: 1, 5: -1, 6: -2}), COLUMNS)
    both = run_at(lake, model, START + 2 * DAY)
    assert (both.mode, lake.actions(both)) == ("incremental", (1, 0, 2))
    assert [row[0] for row in lake.rows(model)] == [5, 6]
    back = run_at(lake, model, START)
    assert (back.mode, [row[0] for row in lake.rows(model)]) == ("incremental", [2])
    assert broken(lake, model, START) == []


def test_groups_follow_a_window_of_hours(lake: Warehouse) -> None:
    lake.load("source", rows_of({1: 0, 2: 0, 3: 1, 4: 1, 6: 2}), COLUMNS)
    lake.load("names", [("a", "A"), ("b", "B")], "g string, name string")
    model = lake.model(
        "m",
        "select name, count(*) as n, max(at) as last from {source} s join {names} n on s.g = n.g "
        "where at > now() - interval 36 hours and at <= current_timestamp group by name",
        primary_key="name",
    )
    run_at(lake, model, START)
    assert [row[:2] for row in lake.rows(model)] == [("A", 2), ("B", 2)]
    later = run_at(lake, model, START + DAY)
    assert (later.mode, [row[:2] for row in lake.rows(model)]) == ("incremental", [("A", 1), ("B", 1)])
    last = run_at(lake, model, START + 2 * DAY)
    assert (last.mode, lake.rows(model)) == ("incremental", [])
    assert broken(lake, model, START + 2 * DAY) == []


def test_a_restored_version_goes_on_from_its_time(lake: Warehouse) -> None:
    lake.load("source", rows_of({1: 0, 2: 1, 3: 2}), COLUMNS)
    model = lake.model("m", "select id from {source} where day > current_date - interval 2 days", primary_key="id")
    run_at(lake, model, START)
    first = lake.head(model)
    run_at(lake, model, START + DAY)
    restore_version(lake.session_of(model), first)
    assert lake.rows(model) == [(1,), (2,)]
    again = run_at(lake, model, START + DAY)
    assert (again.mode, lake.rows(model)) == ("incremental", [(1,)])


def test_a_time_that_is_selected_is_computed_once_a_day(lake: Warehouse) -> None:
    lake.load("source", rows_of({1: 0, 2: 1}), COLUMNS)
    model = lake.model("m", "select id, datediff(current_date, day) as age from {source}", primary_key="id")
    run_at(lake, model, START)
    assert run_at(lake, model, START + DAY / 2, refuse).mode == "unchanged"
    later = run_at(lake, model, START + DAY)
    assert (later.mode, later.reason) == ("full", "NON_DETERMINISTIC")
    assert "current_date outside of a condition" in later.because


@pytest.mark.in_turn
def test_rows_that_have_left_a_window_are_forgotten(lake: Warehouse) -> None:
    lake.load("source", rows_of({1: 0, 2: 1}), COLUMNS)
    above = lake.model("above", "select id, g, day from {source}", primary_key="id")
    model = lake.model("m", "select id, g from {above} where day > current_date - interval 2 days", primary_key="id")
    run_at(lake, above, START)
    run_at(lake, model, START)
    lake.load("source", rows_of({2: 1}), COLUMNS)
    for one in (above, model):
        run_at(lake, one, START + 5 * DAY)
    assert [row["_action"] for row in lake.log(model) if row["id"] == 1] == ["insert", "delete"]
    Forgetting(above, (above, model), lake.reader, lambda: lake.spark, Forget(keys=("1",))).run_forget()
    assert [row for row in lake.log(model) if row["id"] == 1] == []
    assert lake.rows(model) == []


CONDITIONS = {
    "days": "day >= current_date - interval 3 days",
    "hours": "at > now() - interval 40 hours",
    "between": "day between date_sub(current_date, 3) and date_sub(current_date, 1)",
    "this month": "date_trunc('month', day) = date_trunc('month', current_date)",
    "either": "g = 'a' or day < current_date",
    "reversed": "current_date - interval 2 days <= day",
}


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("name", CONDITIONS)
def test_any_window_has_the_rows_of_its_query_at_any_time(lake: Warehouse, name: str, grouped: bool) -> None:
    select = "g, count(*) as n, min(id) as first" if grouped else "id, g"
    sql = f"select {select} from {{source}} where {CONDITIONS[name]}{' group by g' if grouped else ''}"
    lake.load("source", rows_of({1: 0}), COLUMNS)
    model = lake.model("m", sql, primary_key="g" if grouped else "id", refresh="incremental")
    run_at(lake, model, START)

    @settings(max_examples=12)
    @given(st.dictionaries(st.integers(1, 9), st.integers(-6, 40), max_size=8), st.integers(0, 1000))
    def run_again(days: dict[int, int], hours: int) -> None:
        lake.load("source", rows_of(days), COLUMNS)
        time = START + datetime.timedelta(hours=hours)
        run_at(lake, model, time)
        micros = round(time.timestamp() * 1_000_000)
        clock = f"timestamp_micros({micros})"
        text = model.sql.replace("now()", clock).replace("current_date", f"cast({clock} as date)")
        assert lake.rows(model) == sorted_rows(lake.spark.sql(text))

    run_again()
    assert broken(lake, model, START) == []
