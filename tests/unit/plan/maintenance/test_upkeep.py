"""Upkeep under a budget: the table whose readers pay most first, no job over the budget, and none waits for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.model.names import TableName
from arctic_runtime.plan.maintenance.upkeep import (
    Allowance,
    DueUpkeep,
    Hours,
    UpkeepBudget,
    UpkeepState,
    schedule_upkeep,
)
from arctic_runtime.thresholds import UpkeepThresholds

LIMITS = UpkeepThresholds()
NOON = datetime(2026, 6, 1, 12, 0)  # a Monday
GIB = 1024**3


def due(name: str, waste: int = 0, size: int = 0, since: float = 0.0, schema: str = "dwd") -> DueUpkeep:
    return DueUpkeep(TableName("lake", schema, name), "compact", since, size, waste)


def list_begun(candidates: list[DueUpkeep], state: UpkeepState, budget: UpkeepBudget | None = None) -> list[str]:
    return [
        upkeep.table.name
        for upkeep, waits in schedule_upkeep(candidates, state, budget or UpkeepBudget(), LIMITS)
        if not waits
    ]


def reasons(candidates: list[DueUpkeep], state: UpkeepState, budget: UpkeepBudget | None = None) -> dict[str, str]:
    return {
        upkeep.table.name: waits
        for upkeep, waits in schedule_upkeep(candidates, state, budget or UpkeepBudget(), LIMITS)
    }


def at(now: float, **given: object) -> UpkeepState:
    return UpkeepState(now, NOON, **given)  # type: ignore[arg-type]


def test_the_table_whose_readers_pay_most_comes_first() -> None:
    assert list_begun([due("a", 10), due("b", 30), due("c", 20)], at(1), UpkeepBudget(jobs=2)) == ["b", "c"]


def test_what_waits_for_an_hour_comes_before_what_hurts_more() -> None:
    candidates = [due("hurt", 10**12, since=4000), due("old", 1, since=300), due("older", 1, since=100)]
    assert list_begun(candidates, at(4000), UpkeepBudget(jobs=2)) == ["older", "old"]


def test_jobs_that_run_take_their_places() -> None:
    running = [TableName("lake", "dwd", "x")]
    assert reasons([due("a")], at(1, running=running)) == {"a": "for another job to end"}
    assert list_begun([due("a")], at(1, running=running), UpkeepBudget(jobs=2)) == ["a"]


def test_writers_go_first_and_others_do_not_wait_for_them() -> None:
    assert list_begun([due("a", 9), due("b", 1)], at(1, busy=[TableName("lake", "dwd", "a")])) == ["b"]


def test_a_paused_table_waits_until_it_is_resumed() -> None:
    candidates = [due("a", 9), due("b", 1)]
    assert list_begun(candidates, at(1, paused=[TableName("lake", "dwd", "a")])) == ["b"]


def test_one_job_of_a_table_at_a_time() -> None:
    candidates = [due("a", 9), replace(due("a", 1), operation="expire")]
    assert list_begun(candidates, at(1), UpkeepBudget(jobs=4)) == ["a"]


def test_a_table_whose_upkeep_failed_is_tried_again_after_its_pause() -> None:
    failed = replace(due("a"), failures=3, retry_at=50.0)
    assert reasons([failed], at(10)) == {"a": "40 s after 3 failures"}
    assert list_begun([failed], at(50)) == ["a"]


def test_nothing_begins_in_quiet_hours() -> None:
    budget = UpkeepBudget(quiet_hours=(Hours(time(8), time(18), frozenset(range(5))),))
    assert reasons([due("a")], at(1), budget) == {"a": "until the quiet hours end"}
    assert list_begun([due("a")], UpkeepState(1, NOON + timedelta(hours=7)), budget) == ["a"]
    assert list_begun([due("a")], UpkeepState(1, NOON + timedelta(days=5)), budget) == ["a"]


@pytest.mark.parametrize(
    ("moment", "is_quiet"),
    [
        (datetime(2026, 6, 1, 21, 59), False),
        (datetime(2026, 6, 1, 22, 0), True),
        (datetime(2026, 6, 2, 5, 59), True),
        (datetime(2026, 6, 2, 6, 0), False),
        (datetime(2026, 6, 1, 3, 0), False),
    ],
)
def test_hours_over_midnight_belong_to_the_day_on_which_they_begin(moment: datetime, is_quiet: bool) -> None:
    assert Hours(time(22), time(6), frozenset({0})).contain(moment) is is_quiet


def test_bytes_a_minute_are_not_exceeded_and_what_is_missing_is_reported() -> None:
    allowance = Allowance(GIB, 10, left=2 * GIB, at=0)
    candidates = [due("a", 9, 2 * GIB), due("b", 5, GIB)]
    state = at(0, allowances={None: allowance})
    assert reasons(candidates, state, UpkeepBudget(jobs=4)) == {"a": "", "b": "60 s for its bytes a minute"}
    assert list_begun(candidates[1:], at(0, allowances={None: allowance.spend_bytes(2 * GIB).accrue_until(60)})) == [
        "b"
    ]


def test_a_job_that_waits_for_bytes_is_not_overtaken_by_small_ones() -> None:
    state = at(0, allowances={None: Allowance(GIB, 10, left=GIB, at=0)})
    assert list_begun([due("large", 9, 5 * GIB), due("small", 1, 1)], state, UpkeepBudget(jobs=4)) == []


def test_a_job_larger_than_all_that_can_be_kept_begins_when_nothing_is_missing() -> None:
    full = Allowance.build_full(GIB, 10, 0)
    assert list_begun([due("a", 1, 500 * GIB)], at(0, allowances={None: full})) == ["a"]
    assert full.spend_bytes(500 * GIB).seconds_until(1) > 490 * 60


def test_a_group_has_bytes_of_its_own() -> None:
    allowances = {None: Allowance.build_full(GIB, 10, 0), "dws": Allowance(GIB // 10, 10, left=0, at=0)}
    candidates = [due("a", 9, GIB, schema="dws"), due("b", 1, GIB)]
    assert list_begun(candidates, at(0, allowances=allowances), UpkeepBudget(jobs=4)) == ["b"]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3 * GIB), st.integers(0, 100)), min_size=1, max_size=8),
    st.integers(1, 3),
    st.integers(GIB // 10, 2 * GIB),
)
def test_all_due_upkeep_is_done_in_the_end(
    tables: list[tuple[int, int, int]], jobs: int, bytes_per_minute: int
) -> None:
    """Each job takes a minute; new ones that hurt more come all the time."""
    budget = UpkeepBudget(jobs, bytes_per_minute)
    waiting = {due.table: due for due in (due(f"t{at}", waste, size) for at, (waste, size, _) in enumerate(tables))}
    first = set(waiting)
    allowance, spent, now = Allowance.build_full(bytes_per_minute, LIMITS.kept_minutes, 0.0), 0, 0.0
    while first & waiting.keys():
        state = at(now, allowances={None: allowance})
        for upkeep, waits in list(schedule_upkeep(waiting.values(), state, budget, LIMITS)):
            if not waits:
                del waiting[upkeep.table]
                allowance, spent = allowance.accrue_until(now).spend_bytes(upkeep.bytes), spent + upkeep.bytes
                assert spent <= bytes_per_minute * (LIMITS.kept_minutes + now / 60) + 3 * GIB
        now += 60
        newer = due(f"new{now}", 10**15, GIB // 100, since=now)
        waiting[newer.table] = newer
        assert now < 40 * 3600
