"""What ways cost: as they read at first, then as runs of the same model have shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.ivm.algebra.tree import Image, Scan
from arctic_runtime.model.names import TableName
from arctic_runtime.model.state import Commit, SourceState
from arctic_runtime.model.version import Version, Window
from arctic_runtime.plan.refresh.cost import Estimate, Past, RunHistory, Way, estimate_modes, list_past_errors
from arctic_runtime.thresholds import SHIPPED

PRICES = SHIPPED.cost
FACTS, PLACES = TableName("lake", "ods", "facts"), TableName("lake", "ods", "places")


def a_source(name: TableName, rows: int, *commits: int) -> SourceState:
    versions = [Version("uuid", place, place) for place in range(len(commits))]
    kept = tuple(Commit(v, None, "append", size, 0, {}, 0) for v, size in zip(versions, commits, strict=True))
    return SourceState(name, "changes", versions[-1], kept, (), 3, rows=rows)


STATES: dict[str, SourceState | None] = {
    str(FACTS): a_source(FACTS, 5_000_000, 4_000_000, 1_000, 2_000),
    str(PLACES): a_source(PLACES, 300_000, 300_000, 0, 0),
}
WINDOWS = {name: Window(name, Version("uuid", 0, 0), Version("uuid", 2, 2)) for name in STATES}


def scan(source: TableName, image: Image) -> Scan:
    return Scan(source, (), None, image)


def ways(*scans: Scan, history: tuple[Past, ...] = ()) -> dict[Way, Estimate]:
    return {found.way: found for found in estimate_modes(STATES, WINDOWS, scans, RunHistory(700_000, history))}


def test_everything_is_read_once_and_compared_with_what_there_is() -> None:
    (found,) = estimate_modes(STATES, WINDOWS, None, RunHistory(700_000))
    assert (found.way, found.scans, found.rows) == ("full", 3, 6_000_000)
    assert found.seconds == pytest.approx(
        PRICES.run_seconds + 3 * PRICES.scan_seconds + 6_000_000 * PRICES.full_row_seconds
    )


@pytest.mark.parametrize(
    ("image", "scans", "rows"),
    [("delta", 1, 3_000), ("pair", 1, 3_000), ("new", 1, 5_000_000), ("old", 1, 5_000_000), ("either", 2, 5_003_000)],
)
def test_what_came_and_went_is_read_from_the_log(image: Image, scans: int, rows: int) -> None:
    found = ways(scan(FACTS, image))["incremental"]
    assert (found.scans, found.rows) == (scans, rows)


def test_changes_of_several_commits_cost_more_than_to_be_read_once_for_each_source() -> None:
    once, twice = ways(scan(FACTS, "delta"))["incremental"], ways(*[scan(FACTS, "delta")] * 2)["incremental"]
    read, merged = (
        PRICES.scan_seconds + 3_000 * PRICES.incremental_row_seconds,
        3_000 * PRICES.merged_change_row_seconds,
    )
    first, again = 3_000 * PRICES.change_row_seconds, 3_000 * PRICES.repeated_change_row_seconds
    assert once.unadjusted == pytest.approx(PRICES.run_seconds + read + merged + first)
    assert twice.unadjusted == pytest.approx(PRICES.run_seconds + 2 * read + merged + first + again)
    last = {**WINDOWS, str(FACTS): Window(str(FACTS), Version("uuid", 1, 1), Version("uuid", 2, 2))}
    (of_one_commit,) = (
        way for way in estimate_modes(STATES, last, (scan(FACTS, "delta"),), RunHistory()) if way.rows == 2_000
    )
    assert of_one_commit.merged == 0


def test_the_cheapest_way_comes_first() -> None:
    few = estimate_modes(STATES, WINDOWS, (scan(FACTS, "delta"), scan(PLACES, "new")), RunHistory())
    many = estimate_modes(STATES, WINDOWS, (scan(FACTS, "new"),) * 4, RunHistory())
    assert [found[0].way for found in (few, many)] == ["incremental", "full"]


def test_a_row_that_is_looked_at_costs_less_than_one_that_is_computed_with() -> None:
    found = ways(scan(FACTS, "new"))
    looked_at = PRICES.run_seconds + PRICES.scan_seconds + 5_000_000 * PRICES.incremental_row_seconds
    assert found["incremental"].unadjusted == pytest.approx(looked_at)
    assert PRICES.incremental_row_seconds < PRICES.full_row_seconds


@pytest.mark.parametrize(
    ("taken", "times"), [((6.0,), 3), ((1.0, 6.0), 0.5), ((6.0, 8.0), 3), ((1.0, 6.0, 8.0), 3), ((6.0, 8.0, 1.0), 0.5)]
)
def test_a_way_is_put_right_by_the_better_of_its_last_two_runs(taken: tuple[float, ...], times: float) -> None:
    plan = (scan(FACTS, "delta"), scan(PLACES, "new"))
    first = ways(*plan)
    then = ways(*plan, history=tuple(Past("incremental", seconds, 2.0) for seconds in taken))
    assert then["incremental"].seconds == pytest.approx(times * first["incremental"].seconds, abs=0.01)
    assert then["full"].seconds == pytest.approx(min(1, times) * first["full"].seconds, abs=0.01)


def test_a_way_that_was_never_gone_is_thought_to_be_as_fast_as_the_other_and_no_slower_than_estimated() -> None:
    plan = (scan(FACTS, "delta"),)
    first = ways(*plan)["incremental"].seconds
    assert ways(*plan, history=(Past("full", 1.0, 4.0),))["incremental"].seconds == pytest.approx(first / 4, abs=0.01)
    assert ways(*plan, history=(Past("full", 4.0, 1.0),))["incremental"].seconds == first


@pytest.mark.parametrize("slower", [3, 12])
def test_a_way_that_was_slow_is_tried_again_so_seldom_that_it_costs_a_tenth_at_most(slower: int) -> None:
    plan = (scan(PLACES, "new"),) * 4
    estimated = {way: found.unadjusted for way, found in ways(*plan).items()}
    taken = {"full": 1.0, "incremental": float(slower)}
    history: list[Past] = []
    for _ in range(400):
        way = estimate_modes(STATES, WINDOWS, plan, RunHistory(700_000, history))[0].way
        history.append(Past(way, taken[way], estimated[way]))
    again = [run.way for run in history].count("incremental") - 1
    assert again > 0
    assert again * (slower - 1) <= 0.1 * len(history)


@given(st.lists(st.tuples(st.sampled_from(["full", "incremental"]), st.floats(-10, 1e6), st.floats(0, 1e4))))
def test_whatever_clocks_say_ways_cost_something(runs: list[tuple[Way, float, float]]) -> None:
    found = ways(scan(FACTS, "delta"), history=tuple(Past(*run) for run in runs))
    assert all(0 < way.seconds < 1000 for way in found.values())


def test_an_estimate_says_what_is_read() -> None:
    assert Estimate("full", 2, 1_234_567, 3.21).describe_cost() == "1,234,567 rows by 2 scan(s), about 3.2 s"
    assert 0 < PRICES.correction_decay < 1


def test_past_estimates_are_judged_as_they_were_corrected_then() -> None:
    runs = (
        Past("full", 2.0, 1.0),
        Past("full", 2.0, 1.0),
        Past("incremental", 1.0, 1.0),
        Past("full", 4.0, 1.0),
        Past("incremental", 1.0, 3.0),
    )
    decay = PRICES.correction_decay
    assert list_past_errors(runs) == pytest.approx([0.0, abs(2 * decay - 4) / 4, 3 * decay - 1])
    assert list_past_errors(runs[:1]) == []
