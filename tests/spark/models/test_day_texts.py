"""Texts without a date are of the day of the run, so a table that follows from one is computed anew each day."""

from __future__ import annotations

import pytest

from arctic_runtime.refresh_planner import Outcome
from tests.spark.warehouse import Warehouse

COLUMNS = "id int, s string, ts timestamp"
DATED = [(1, "2024-01-01 10:00:00", None), (2, "2024-01-02T10:00:00+01:00", None)]


def test_spark_takes_a_time_alone_for_one_of_today_and_no_other_text_of_a_column(lake: Warehouse) -> None:
    texts = ["10:00", "T10:00", "10:00:00+01:00", "now", "today", "epoch", "2024-01-01"]
    lake.frame([(text,) for text in texts], "s string").createOrReplaceTempView("texts_of_the_day")
    shown = "try_cast(s as {kind}) >= current_date() - interval 1 day as is_now"
    for kind, wanted in (("timestamp", texts[:3]), ("timestamp_ntz", []), ("date", [])):
        rows = lake.spark.sql(f"select s, {shown.format(kind=kind)} from texts_of_the_day").collect()
        assert [row["s"] for row in rows if row["is_now"]] == wanted, kind


def how(outcome: Outcome) -> tuple[str, str]:
    return outcome.mode, outcome.reason


@pytest.mark.in_turn
def test_a_column_that_has_times_without_a_date_is_computed_in_each_run_as_long_as_it_has(lake: Warehouse) -> None:
    lake.append("given", DATED, COLUMNS)
    model = lake.model("m", "select id, cast(s as timestamp) as at from {given}", primary_key="id")
    lake.run(model)
    assert how(lake.run(model)) == ("unchanged", "NOTHING_NEW")
    lake.append("given", [(3, "2024-01-03 23:59", None)], COLUMNS)
    assert how(lake.run(model)) == ("incremental", "CHANGES")
    lake.append("given", [(4, "10:00", None)], COLUMNS)
    assert how(lake.run(model)) == ("incremental", "CHANGES")
    outcome = lake.run(model)
    assert how(outcome) == ("full", "NON_DETERMINISTIC")
    assert "times without a date in s" in outcome.because
    lake.spark.sql(f"delete from {lake.sql_name('given')} where id = 4")
    assert how(lake.run(model)) == ("full", "NON_DETERMINISTIC")
    assert how(lake.run(model)) == ("unchanged", "NOTHING_NEW")
    assert lake.broken(model) == []


def test_a_time_that_a_timestamp_is_compared_with_is_of_the_day(lake: Warehouse) -> None:
    lake.append("given", DATED, COLUMNS)
    compared = lake.model("m", "select id from {given} where ts < '10:00'", primary_key="id")
    text = lake.model("n", "select id from {given} where s < '10:00'", primary_key="id")
    for model in (compared, text):
        lake.run(model)
    assert how(lake.run(compared)) == ("full", "NON_DETERMINISTIC")
    assert how(lake.run(text)) == ("unchanged", "NOTHING_NEW")
