"""Which change rows go: old ones that all have read past, and never more often than it pays."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import (
    Age,
    CompactChangelog,
    ExpireSnapshots,
    SnapshotUse,
    format_ages,
    read_ages,
)
from arctic_runtime.model.properties import COMMIT_TIMES, COMPACTED_UNTIL
from arctic_runtime.model.state import ChangeTableState, Commit, TableState
from arctic_runtime.model.table import Model, ModelConfig, Retention
from arctic_runtime.plan.config.maintenance_settings import read_retention
from arctic_runtime.plan.maintenance.expiry import (
    describe_expiry,
    is_due,
    may_expire,
    plan_changelog_compaction,
    plan_snapshot_expiry,
    select_ages_to_keep,
    select_due_steps,
)
from arctic_runtime.thresholds import Thresholds
from tests.unit.plan.maintenance.test_expiry import LOG, TABLE, a_state, the_log, v

LIMITS = Thresholds()
CHANGELOG = LIMITS.changelog
SECONDS = 50
NOW = 100_000
"""Commits of `a_state` are as many milliseconds old as their number says, counted from 0: far older than the span."""


def a_model(**retention: int) -> Model:
    return Model(TABLE, "", ModelConfig(("id",), hash_key="id", retention=Retention(**retention)))


MODEL = a_model(changes_seconds=SECONDS)


def with_summary(state: TableState, **properties: str) -> TableState:
    """The same state with these properties of its change table, of which older commits are gone."""
    assert state.changes is not None
    first, *later = state.changes.commits
    names = {"trimmed": COMPACTED_UNTIL, "ages": COMMIT_TIMES}
    values = {names[of]: text for of, text in properties.items()}
    commits = (replace(first, parent=99), *later)
    return replace(state, changes=replace(state.changes, properties=values, commits=commits))


def at(state: TableState, *times: int) -> TableState:
    """The same state with its commits made at these times."""
    assert state.changes is not None
    made = (replace(of, at_ms=ms) for of, ms in zip(state.changes.commits, times, strict=True))
    return replace(state, changes=replace(state.changes, commits=tuple(made)))


def one_commit(number: int, at_ms: int) -> ChangeTableState:
    return ChangeTableState("log", (), (Commit(v(number), None, "append", 1, 1, {}, at_ms),), {})


def cut(state: TableState, model: Model = MODEL, **readers: int) -> int | None:
    found, _ = plan_changelog_compaction(model, state, {of: v(number) for of, number in readers.items()}, NOW)
    return found.until.sequence if found else None


def test_without_an_age_of_change_rows_they_stay() -> None:
    assert cut(a_state(5, merged=5), a_model(versions_seconds=1)) is None
    assert cut(TableState()) is None


def test_rows_go_up_to_the_newest_old_commit_that_all_have_read() -> None:
    state = at(a_state(5, merged=5), 1, 2, NOW - 1000 * SECONDS - 1, NOW - 1000 * SECONDS, NOW)
    assert plan_changelog_compaction(MODEL, state, {}, NOW) == (
        CompactChangelog(LOG, 105, Age(3, NOW - 1000 * SECONDS - 1)),
        (),
    )
    assert cut(state, down=2) == 2
    assert cut(state, down=2, other=1) == 1
    assert cut(state, down=0) is None
    assert cut(at(a_state(5, merged=2), 1, 2, 3, 4, 5)) == 2
    assert cut(with_summary(state, trimmed="2:2")) == 3
    assert cut(with_summary(state, trimmed="3:3")) is None


def test_what_was_announced_and_not_done_is_done_the_next_time() -> None:
    state = a_state(5, merged=5)
    assert state.changes is not None
    announced = replace(state, changes=replace(state.changes, properties={COMPACTED_UNTIL: "4:4"}))
    assert cut(announced) == 5
    *commits, last = state.changes.commits
    last = replace(last, summary={COMPACTED_UNTIL: "3:3"}, rows=0)
    once = replace(state, changes=replace(state.changes, properties={COMPACTED_UNTIL: "4:4"}, commits=(*commits, last)))
    assert plan_changelog_compaction(MODEL, once, {}, NOW) == (CompactChangelog(LOG, 105, Age(4, 4)), ())


def test_readers_that_keep_old_rows_are_reported() -> None:
    state = a_state(5, merged=5)
    found, waits = plan_changelog_compaction(MODEL, state, {"lake.dws.by_day has read up to it": v(2)}, NOW)
    assert found is not None
    assert (found.until.sequence, waits) == (2, ("lake.dws.by_day has read up to it",))
    plan = plan_snapshot_expiry(MODEL, state, SnapshotUse([the_log(5)], {"lake.dws.by_day": v(2)}), NOW, LIMITS)
    assert describe_expiry(plan, "to go") == [
        "to go: rows of lake.dwd.orders__changes up to 1970-01-01 00:00 UTC that newer ones have replaced",
        "kept: newer change rows that are old enough to go: lake.dws.by_day has read up to it",
    ]
    stuck = plan_snapshot_expiry(MODEL, state, SnapshotUse([the_log(5)], {"lake.dws.by_day": v(0)}), NOW, LIMITS)
    assert describe_expiry(stuck, "to go") == [
        "kept: change rows that are old enough to go: lake.dws.by_day has read up to it"
    ]


def test_ages_of_commits_whose_snapshots_are_gone_are_known() -> None:
    state = with_summary(TableState(one_commit(8, NOW), a_state(1, merged=9).base), ages="3:100 6:49999 7:50000")
    assert cut(state) == 6
    assert select_ages_to_keep(MODEL, state, {108}, CHANGELOG) == (Age(3, 100), Age(6, 49_999), Age(8, NOW))


def test_few_ages_are_kept_and_none_of_compacted_changes() -> None:
    apart = 1000 * SECONDS // CHANGELOG.kept_ages
    state = at(a_state(4, merged=4), apart, apart + 1, 2 * apart, 3 * apart)
    every = {101, 102, 103, 104}
    assert select_ages_to_keep(MODEL, state, every, CHANGELOG) == (Age(1, apart), Age(3, 2 * apart), Age(4, 3 * apart))
    assert select_ages_to_keep(MODEL, state, {101}, CHANGELOG) == (Age(1, apart),)
    assert select_ages_to_keep(MODEL, with_summary(state, trimmed="1:5"), every, CHANGELOG) == (
        Age(2, apart + 1),
        Age(4, 3 * apart),
    )
    assert select_ages_to_keep(a_model(versions_seconds=1), state, every, CHANGELOG) == ()


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=60))
def test_ages_stay_few_and_changelog_compaction_is_late_by_an_eighth_of_the_span_at_most(gaps: list[int]) -> None:
    """Each commit expires when the next is made, and nothing but the ages that are kept knows when it was."""
    times = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    apart = 1000 * SECONDS // CHANGELOG.kept_ages
    ages = ""
    for i, ms in enumerate(times, 1):
        state = with_summary(TableState(changes=one_commit(i, ms)), ages=ages)
        known = select_ages_to_keep(MODEL, state, {100 + i}, CHANGELOG)
        assert len(known) <= 1 + (times[-1] - times[0]) // apart
        assert all(later.at_ms - earlier.at_ms >= apart for earlier, later in pairwise(known))
        assert all(any(ms - apart < age.at_ms <= ms for age in known) for ms in times[:i])
        ages = format_ages(known)


def test_a_run_compacts_the_changelog_a_few_times_in_the_span_and_expires_snapshots_that_are_worth_it() -> None:
    step = 1000 * SECONDS // 4
    state = with_summary(at(a_state(2, merged=2), 7 + step - 1, 7 + step), trimmed="1:7")
    assert state.changes is not None
    found, _ = plan_changelog_compaction(MODEL, state, {}, NOW)
    assert found == CompactChangelog(LOG, 102, Age(2, 7 + step))
    assert is_due(MODEL, state.changes, found, CHANGELOG)
    assert not is_due(MODEL, state.changes, replace(found, until=Age(2, 7 + step - 1)), CHANGELOG)
    assert may_expire(MODEL, state, NOW, LIMITS)
    assert not may_expire(MODEL, with_summary(state, trimmed="1:8"), NOW, LIMITS)
    assert not may_expire(MODEL, TableState(), NOW, LIMITS)
    both = a_model(versions_seconds=1, changes_seconds=SECONDS)
    assert not may_expire(both, with_summary(at(a_state(19, merged=19), *range(19)), trimmed="19:19"), NOW, LIMITS)
    assert may_expire(both, with_summary(at(a_state(20, merged=20), *range(20)), trimmed="20:20"), NOW, LIMITS)
    plan = plan_snapshot_expiry(both, a_state(3, merged=3), SnapshotUse([the_log(3)]), NOW, LIMITS)
    assert plan.steps == (ExpireSnapshots(LOG, (101, 102)),)
    assert select_due_steps(both, with_summary(a_state(3, merged=3), trimmed="0:0"), plan, LIMITS) == replace(
        plan, steps=(), changelog_compaction=None
    )


@given(st.lists(st.tuples(st.integers(0, 2**60), st.integers(0, 2**60)), max_size=9))
def test_ages_are_read_as_they_were_written(pairs: list[tuple[int, int]]) -> None:
    ages = tuple(Age(*pair) for pair in pairs)
    assert read_ages(format_ages(ages)) == ages
    assert read_ages(None) == ()


def test_the_age_of_change_rows_is_read_from_the_configuration() -> None:
    assert read_retention("retention", {"changes": "7d", "versions": "5d"}) == Retention(432_000, None, 604_800)
    with pytest.raises(ConfigError, match=r"retention\.changes"):
        read_retention("retention", {"changes": "soon"})
