"""Which way a run goes, by what ways are estimated to cost and by what earlier runs found out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from arctic_runtime.model.properties import ESTIMATED, GIVEN_UP, MODE, STARTED
from arctic_runtime.model.state import TableState
from arctic_runtime.model.table import Model
from arctic_runtime.plan.refresh.cost import Way
from arctic_runtime.plan.refresh.decide import decide_refresh
from arctic_runtime.plan.refresh.increment import Upstreams
from arctic_runtime.plan.refresh.request import Request
from tests.unit.plan.refresh.test_decide import (
    OTHER,
    READ_BOTH,
    READ_ONE,
    RUN_AGAIN,
    STATE,
    a_model,
    a_source,
    built,
    reading,
)

WEEKS = "select o.id, u.id as found from ods.other as o join ods.up as u on u.id % 7 = o.id % 7"
LARGE = reading(
    replace(a_source(1, 2), rows=900_000, key=("id",)), replace(a_source(1, 2, name=OTHER), rows=900_000, key=("id",))
)
MANY = (
    "select a.id, b.id as x, c.id as y, d.id as z from ods.up as a left join ods.other as b on b.id % 7 = a.id % 7 "
    "left join ods.up as c on c.id % 5 = b.id % 5 left join ods.other as d on d.id % 3 = c.id % 3"
)


@pytest.mark.parametrize(("refresh", "mode"), [("auto", "full"), ("incremental", "incremental")])
def test_small_tables_are_computed_in_full_where_following_them_reads_many_more(refresh: str, mode: str) -> None:
    model = a_model(MANY, primary_key=["id", "x", "y", "z"], refresh=refresh)
    states = {name: replace(state, rows=1_000, key=("id",)) for name, state in LARGE.states.items() if state}
    decision = decide_refresh(model, built(model, READ_BOTH), replace(LARGE, states=states), RUN_AGAIN)
    assert (decision.mode, decision.reason) == (mode, "COST" if mode == "full" else "CHANGES")


@pytest.mark.parametrize(
    ("refresh", "rows", "mode"),
    [
        ("auto", 900_000, "full"),
        ("incremental", 900_000, "incremental"),
        ("strict", 900_000, "incremental"),
        ("auto", 9_000, "incremental"),
    ],
)
def test_a_large_query_whose_changes_cost_more_to_follow_is_computed_in_full(
    refresh: str, rows: int, mode: str
) -> None:
    model = a_model(WEEKS, refresh=refresh)
    upstreams = having(rows)
    decision = decide_refresh(model, built(model, READ_BOTH), upstreams, RUN_AGAIN)
    assert (decision.mode, decision.reason) == (mode, "COST" if mode == "full" else "CHANGES")
    assert {way.way for way in decision.ways} == {"full", "incremental"}
    assert decision.estimate is not None
    assert decision.estimate.way == mode
    assert all(way.describe_cost() in decision.because for way in decision.ways) == (mode == "full")


@pytest.mark.parametrize(("mode", "seconds", "then"), [("incremental", 60, "full"), ("full", 60, "incremental")])
def test_what_runs_took_decides_the_next_one(mode: str, seconds: int, then: str) -> None:
    model = a_model(WEEKS)
    started = {STARTED: str(-1000 * seconds), ESTIMATED: "1.0", MODE: mode}
    decision = decide_refresh(model, built(model, READ_BOTH, **started), LARGE, RUN_AGAIN)
    assert decision.mode == then


@pytest.mark.parametrize(
    ("rows", "past", "mode"),
    [
        (6_000_000, [], "incremental"),
        (6_000_000, ["full", "full"], "incremental"),
        (6_000_000, ["incremental", "full"], "full"),
        (3_000_000, [], "full"),
    ],
)
def test_changes_that_were_never_followed_are_where_that_is_thought_to_take_little_longer(
    rows: int, past: list[Way], mode: str
) -> None:
    model = a_model(WEEKS)
    upstreams = having(rows)
    estimated = estimates(model, upstreams)
    runs = [(way, estimated[way]) for way in past]
    decision = decide_refresh(model, after(model, runs, estimated), upstreams, RUN_AGAIN)
    assert decision.ways[0].way == "full"
    assert (decision.mode, decision.reason) == (mode, "COST" if mode == "full" else "CHANGES")


@pytest.mark.parametrize("summary", [{MODE: "incremental"}, {GIVEN_UP: "COST - most of the table's rows"}])
def test_following_that_was_given_up_is_not_tried_again_in_each_run(summary: dict[str, str]) -> None:
    """It found out that most rows differ, and tells no seconds."""
    model = a_model(WEEKS)
    upstreams = having(6_000_000)
    decision = decide_refresh(model, built(model, READ_BOTH, **summary), upstreams, RUN_AGAIN)
    assert (decision.mode, decision.reason) == ("full", "COST")


def test_changes_are_followed_after_upstreams_overtook_a_full_computation() -> None:
    """Which reads the newest versions, while changes are those up to given ones."""
    model = a_model(WEEKS)
    state, upstreams = built(model, READ_BOTH), having(900_000)
    decisions = [
        decide_refresh(model, state, upstreams, Request(was_overtaken=overtaken)) for overtaken in (False, True)
    ]
    assert [decision.mode for decision in decisions] == ["full", "incremental"]


def having(rows: int) -> Upstreams:
    """The two upstreams, each with so many rows."""
    return replace(LARGE, states={name: replace(state, rows=rows) for name, state in LARGE.states.items() if state})


def estimates(model: Model, upstreams: Upstreams) -> dict[Way, float]:
    """The seconds of each way as they follow from what is read, whatever runs have taken."""
    return {
        way.way: way.unadjusted for way in decide_refresh(model, built(model, READ_BOTH), upstreams, RUN_AGAIN).ways
    }


def after(model: Model, runs: Sequence[tuple[Way, float]], estimated: Mapping[Way, float]) -> TableState:
    """A table after runs that went a way and took so many seconds, where so many had been `estimated`."""
    state = built(model, READ_BOTH)
    assert state.changes is not None
    (made,) = state.changes.commits
    summaries = (
        {STARTED: f"{-1000 * seconds:.0f}", ESTIMATED: f"{estimated[way]}", MODE: way} for way, seconds in runs
    )
    commits = [replace(made, at_ms=0, summary={**made.summary, **said}) for said in summaries]
    return replace(state, changes=replace(state.changes, commits=tuple(commits) or state.changes.commits))


GROUPS = "select id % 7 as id, {} as found from ods.other group by id % 7"


@pytest.mark.parametrize(
    ("sql", "took", "then"),
    [
        (WEEKS, [("full", 1.0), ("incremental", 2.0)], "full"),
        (WEEKS, [("full", 1.0), ("incremental", 1.2)], "incremental"),
        (WEEKS, [("full", 0.1)], "incremental"),
        (GROUPS.format("max(id)"), [("full", 1.0), ("incremental", 2.0)], "full"),
        (GROUPS.format("first(id)"), [("full", 1.0), ("incremental", 2.0)], "incremental"),
    ],
)
def test_small_tables_are_computed_in_full_once_following_them_took_clearly_longer(
    sql: str, took: list[tuple[Way, float]], then: str
) -> None:
    """Unless the order in which rows are read could make rows differ that nothing changed."""
    model = a_model(sql)
    upstreams = having(9_000)
    decision = decide_refresh(model, after(model, took, estimates(model, upstreams)), upstreams, RUN_AGAIN)
    assert (decision.mode, decision.reason) == (then, "COST" if then == "full" else "CHANGES")


def test_the_cost_of_a_full_refresh_is_reported_if_no_other_mode_works() -> None:
    first = decide_refresh(STATE, TableState(), LARGE, RUN_AGAIN)
    assert first.estimate is not None
    assert (first.mode, first.estimate.rows) == ("create", 1_800_000)
    nothing = decide_refresh(STATE, built(STATE, READ_ONE), reading(a_source(1)), RUN_AGAIN)
    assert (nothing.mode, nothing.estimate) == ("unchanged", None)
