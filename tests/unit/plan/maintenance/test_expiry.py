"""What expires: the oldest versions that nobody needs, and never one between two that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import ReleaseClone
from arctic_runtime.model.files.expiry import (
    DatedSnapshot,
    DropTags,
    ExpireSnapshots,
    RetainedSnapshot,
    Snapshots,
    SnapshotUse,
)
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, RUN
from arctic_runtime.model.run_summary import SCHEMA_ONLY
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState, ViewState
from arctic_runtime.model.table import Model, ModelConfig, Retention
from arctic_runtime.model.version import Version
from arctic_runtime.plan.maintenance.expiry import describe_expiry, may_expire, plan_snapshot_expiry
from arctic_runtime.thresholds import Thresholds

LIMITS = Thresholds()
TABLE = TableName("lake", "dwd", "orders")
LOG, BASE = TABLE.changes, TABLE
MODEL = Model(TABLE, "", ModelConfig(("id",), hash_key="id", retention=Retention(1)))
NOW = 100_000
LOADED = {RUN: "token"}


def v(number: int, table: str = "log") -> Version:
    return Version(table, 100 + number, number)


def a_state(
    commits: int, merged: int, rows: Mapping[int, int] | None = None, view: ViewState | None = None, loaded: int = 0
) -> TableState:
    """Versions 1, 2, … of a change table, each with a row where `rows` says nothing else."""
    made = tuple(
        Commit(
            v(i),
            None,
            "append",
            (rows or {}).get(i, 1),
            1,
            LOADED if not loaded or i <= loaded else {**LOADED, MODE: SCHEMA_ONLY},
            i,
        )
        for i in range(1, commits + 1)
    )
    return TableState(ChangeTableState("log", (), made, {}), BaseState("b", (), 200 + merged, v(merged), 9, {}), view)


def the_log(count: int, held: frozenset[int] = frozenset(), others: tuple[DatedSnapshot, ...] = ()) -> Snapshots:
    return Snapshots(LOG, tuple(DatedSnapshot(100 + i, i, i) for i in range(1, count + 1)), others, held)


def the_base(*merged: int | None, held: frozenset[int] = frozenset()) -> Snapshots:
    """Snapshots 201, 202, … of a base, each with the version that it says to be merged to."""
    versions = [None if of is None else v(of) for of in merged]
    return Snapshots(BASE, tuple(DatedSnapshot(200 + i, i, i, of) for i, of in enumerate(versions, 1)), (), held)


def gone(state: TableState, *tables: Snapshots, model: Model = MODEL, **consumers: Version) -> list[list[int]]:
    """The last digits of what goes of each table."""
    steps = {
        step.table: step
        for step in plan_snapshot_expiry(model, state, SnapshotUse(tables, consumers), NOW, LIMITS).steps
    }
    return [[of % 100 for of in steps[table.table].snapshots] if table.table in steps else [] for table in tables]


def test_without_readers_all_but_the_newest_snapshot_expires() -> None:
    assert gone(a_state(5, merged=5), the_log(5), the_base(1, 3, 5)) == [[1, 2, 3, 4], [1, 2]]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (a_state(5, merged=3), [1, 2]),
        (a_state(5, merged=5, rows={4: 0, 5: 0}), [1, 2]),
        (a_state(5, merged=5, loaded=2), [1]),
        (a_state(5, merged=5, view=ViewState((), 205, 102, 104)), [1]),
        (a_state(5, merged=5, view=ViewState((), 205, 105, 105)), [1, 2, 3, 4]),
        (replace(a_state(5, merged=5), base=BaseState("b", (), 1, None, 9, {})), []),
    ],
    ids=[
        "not merged",
        "the newest rows",
        "what the last run read",
        "the view's range",
        "a view without a range",
        "merged to what is not known",
    ],
)
def test_versions_that_the_table_itself_needs_stay(state: TableState, expected: list[int]) -> None:
    assert gone(state, the_log(5)) == [expected]


def test_what_a_reader_has_read_stays_as_a_version_and_as_rows() -> None:
    log, base, state = the_log(9), the_base(1, 2, None, 4, 6, 9), a_state(9, merged=9)
    assert gone(state, log, base, down=v(5)) == [[1, 2, 3, 4], [1, 2, 3]]
    assert gone(state, log, base, down=v(5), other=v(3)) == [[1, 2], [1]]
    assert gone(state, log, base, down=v(9)) == [[*range(1, 9)], [1, 2, 3, 4, 5]]


def test_readers_of_a_table_that_was_there_before_hold_nothing() -> None:
    assert gone(a_state(3, merged=3), the_log(3), the_base(1, 3), down=v(1, "an older one")) == [[1, 2], [1]]


def test_where_the_version_that_was_read_is_gone_already_those_after_it_stay() -> None:
    kept = Snapshots(LOG, the_log(9).lineage[4:])
    assert gone(a_state(9, merged=9), kept, down=v(3)) == [[]]


def test_a_base_keeps_the_snapshot_that_its_view_reads_and_the_one_that_tells_its_version() -> None:
    state = a_state(5, merged=5, view=ViewState((), 202, 105, 105))
    assert gone(state, the_base(1, 3, 5)) == [[1]]
    assert gone(a_state(5, merged=5), the_base(1, 5, None, None)) == [[1]]
    assert gone(a_state(5, merged=5), the_base(None, None)) == [[]]


def test_aggregate_state_keeps_values_of_the_newest_version() -> None:
    totals = Snapshots(TABLE.totals, tuple(DatedSnapshot(300 + i, i, i) for i in range(1, 6)))
    assert gone(replace(a_state(2, merged=2), aggregate_state=304), totals) == [[1, 2, 3]]
    assert gone(replace(a_state(2, merged=2), aggregate_state=305), totals) == [[1, 2, 3, 4]]


def test_the_last_versions_stay_however_old_they_are_and_the_rows_to_read_them_from() -> None:
    def keeping(count: int, seconds: int | None = 1) -> Model:
        return replace(MODEL, config=replace(MODEL.config, retention=Retention(seconds, count)))

    log, base, state = the_log(9), the_base(1, 2, None, 4, 6, 9), a_state(9, merged=9)
    assert gone(state, log, base, model=keeping(5)) == [[1, 2, 3, 4], [1, 2, 3]]
    assert gone(state, log, base, model=keeping(5, None)) == [[1, 2, 3, 4], [1, 2, 3]]
    assert gone(state, log, base, model=keeping(50)) == [[], []]
    assert gone(state, log, base, model=keeping(1)) == [[*range(1, 9)], [1, 2, 3, 4, 5]]
    assert gone(state, log, base, model=keeping(5), down=v(3)) == [[1, 2], [1]]
    plan = plan_snapshot_expiry(keeping(2), state, SnapshotUse([log]), NOW, LIMITS)
    assert plan.kept == (RetainedSnapshot(LOG, 108, "it is one of the last 2 versions"),)


def test_young_versions_stay() -> None:
    older = replace(MODEL, config=replace(MODEL.config, retention=Retention(97)))
    assert NOW - 97 * 1000 == 3000
    aged = Snapshots(LOG, tuple(replace(of, at_ms=1000 * of.sequence) for of in the_log(5).lineage))
    assert gone(a_state(5, merged=5), aged, model=older) == [[1, 2]]


def test_versions_before_the_newest_ones_go_at_any_age_unless_somebody_needs_them() -> None:
    def keeping(most: int) -> Model:
        return replace(MODEL, config=replace(MODEL.config, retention=Retention(1_000, max_versions=most)))

    log, base, state = the_log(9), the_base(1, 2, None, 4, 6, 9), a_state(9, merged=9)
    assert gone(state, log, base, model=keeping(5)) == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert gone(state, log, base, model=keeping(9)) == [[], []]
    assert gone(state, log, model=keeping(5), down=v(3)) == [[1, 2]]


def test_versions_without_a_run_are_not_counted() -> None:
    state = a_state(9, merged=9)
    commits = tuple(replace(commit, summary={}) if commit.at_ms % 2 else commit for commit in state.changes.commits)
    upkeep = replace(state, changes=replace(state.changes, commits=commits))
    model = replace(MODEL, config=replace(MODEL.config, retention=Retention(1_000, max_versions=2)))
    assert gone(upkeep, the_log(9), model=model) == [[1, 2, 3, 4, 5]]


def test_files_of_tags_and_branches_stay_and_those_of_lost_attempts_are_removed() -> None:
    lost = (DatedSnapshot(150, 3, 3), DatedSnapshot(151, 4, 99_999), DatedSnapshot(152, 4, 4))
    log = the_log(5, held=frozenset({102, 152}), others=lost)
    assert gone(a_state(5, merged=5), log) == [[1, 3, 4, 50]]


def test_tags_for_a_view_that_has_moved_on_go_unless_a_run_may_be_about_to_move_it_there() -> None:
    """Of snapshots 201, 202, …: the view reads 204; each but the last was replaced an hour after it was made."""
    hour, now = 3_600_000, 24 * 3_600_000 + 3 * 3_600_000
    lineage = tuple(DatedSnapshot(200 + i, i, i * hour, v(i)) for i in range(1, 7))
    tags = {f"arctic_view_{of}": of for of in (201, 202, 203, 204, 206)}
    base = Snapshots(BASE, lineage, (DatedSnapshot(250, 7, hour),), frozenset({202}), {**tags, "arctic_view_250": 250})
    state = a_state(6, merged=6, view=ViewState((), 204, 104, 106))
    plan = plan_snapshot_expiry(MODEL, state, SnapshotUse([base]), now, LIMITS)
    assert plan.tags == (DropTags(BASE, ("arctic_view_201", "arctic_view_250")),)
    assert plan.steps == (ExpireSnapshots(BASE, (201, 250)),)
    assert {of.snapshot for of in plan.kept if of.alone} == {202, 203}
    assert "to go: tag arctic_view_201 of lake.dwd.orders, which no view reads" in describe_expiry(plan, "to go")
    later = plan_snapshot_expiry(MODEL, state, SnapshotUse([base]), now + 24 * hour, LIMITS)
    assert later.tags == (DropTags(BASE, ("arctic_view_201", "arctic_view_202", "arctic_view_203", "arctic_view_250")),)
    assert later.steps == (ExpireSnapshots(BASE, (201, 203, 250)),)


def test_a_run_expires_by_itself_once_enough_is_old_for_the_size_of_the_table() -> None:
    """Versions 1, 2, … made at that many milliseconds; those are old that are more than a second."""

    def is_due(commits: int, old: int) -> bool:
        return may_expire(MODEL, a_state(commits, merged=commits), 1000 + old + 1, LIMITS)

    assert [is_due(30, 19), is_due(30, 20)] == [False, True]
    assert [is_due(1000, 49), is_due(1000, 50)] == [False, True]
    most = replace(MODEL, config=ModelConfig(("id",), hash_key="id"))
    assert most.config.retention.max_versions == 1000
    states = {count: a_state(count, merged=count) for count in (1052, 1053)}
    assert [may_expire(most, state, NOW, LIMITS) for state in states.values()] == [False, True]


def test_without_an_age_nothing_is_planned() -> None:
    model = replace(MODEL, config=replace(MODEL.config, retention=Retention()))
    with pytest.raises(ConfigError, match=r"retention: \{changes: '7d', versions: '5d'\}"):
        plan_snapshot_expiry(model, a_state(2, merged=2), SnapshotUse([]), NOW, LIMITS)


def test_a_plan_lists_expired_and_kept_snapshots_with_their_readers() -> None:
    plan = plan_snapshot_expiry(
        MODEL,
        a_state(3, merged=3),
        SnapshotUse([the_log(3, held=frozenset({101}))], {"lake.dws.by_day": v(2)}),
        NOW,
        LIMITS,
    )
    assert plan.steps == ()
    assert plan.kept == (
        RetainedSnapshot(LOG, 102, "lake.dws.by_day has read up to it"),
        RetainedSnapshot(LOG, 101, "a tag or a branch holds it", alone=True),
    )
    assert describe_expiry(plan, "to go") == [
        "kept: lake.dwd.orders__changes, snapshot 102 and newer: lake.dws.by_day has read up to it",
        "kept: lake.dwd.orders__changes, snapshot 101: a tag or a branch holds it",
    ]
    gone_plan = plan_snapshot_expiry(MODEL, a_state(3, merged=3), SnapshotUse([the_log(3)]), NOW, LIMITS)
    assert gone_plan.steps == (ExpireSnapshots(LOG, (101, 102)),)
    assert describe_expiry(gone_plan, "gone")[0] == "gone: 2 snapshot(s) of lake.dwd.orders__changes"


@settings(max_examples=30)
@given(
    count=st.integers(1, 8),
    merged=st.integers(1, 8),
    offsets=st.lists(st.integers(1, 8), max_size=3),
    merges=st.lists(st.integers(1, 8), min_size=1, max_size=5),
    held=st.frozensets(st.integers(101, 108), max_size=2),
)
def test_what_is_left_behind_the_newest_has_no_gap_and_serves_every_reader(
    count: int, merged: int, offsets: list[int], merges: list[int], held: frozenset[int]
) -> None:
    merged, versions = min(merged, count), sorted(min(of, merged) for of in merges)
    consumers = {f"down{i}": v(min(of, count)) for i, of in enumerate(offsets)}
    log, base = the_log(count, held), the_base(*versions)
    plan = plan_snapshot_expiry(MODEL, a_state(count, merged), SnapshotUse([log, base], consumers), NOW, LIMITS)
    lost = {of for step in plan.steps for of in step.snapshots}
    left = [of.sequence for of in log.lineage if of.id not in lost]
    needed = min([count, merged, *(of.sequence for of in consumers.values())])
    assert set(range(needed, count + 1)) <= set(left)
    assert lost.isdisjoint(held)
    rows = [of.merged for of in base.lineage if of.id not in lost]
    for offset in consumers.values():
        found = [of for of in versions if of <= offset.sequence]
        assert not found or v(found[-1]) in rows
    again = [replace(t, lineage=tuple(of for of in t.lineage if of.id not in lost)) for t in (log, base)]
    if not held:
        assert (
            plan_snapshot_expiry(MODEL, a_state(count, merged), SnapshotUse(again, consumers), NOW, LIMITS).steps == ()
        )


def test_snapshots_of_a_table_that_shares_files_expire_without_files_or_not_at_all() -> None:
    use = SnapshotUse([replace(the_log(9), shares_files=True), the_base(*range(1, 10))])
    plan = plan_snapshot_expiry(MODEL, a_state(9, 9), use, NOW, LIMITS)
    assert [(step.table, step.keeps_files) for step in plan.steps] == [(LOG, True), (BASE, False)]
    cannot = SnapshotUse([replace(the_log(9), shares_files=True, can_expire=False), the_base(*range(1, 10))])
    plan = plan_snapshot_expiry(MODEL, a_state(9, 9), cannot, NOW, LIMITS)
    assert {step.table for step in plan.steps} == {BASE}
    assert [kept.reason for kept in plan.kept if kept.table == LOG] == [
        "its files may belong to another table too, and the catalog deletes them with the snapshots"
    ]


def test_clones_that_go_are_described() -> None:
    plan = plan_snapshot_expiry(MODEL, a_state(9, 9), SnapshotUse([the_log(9)]), NOW, LIMITS)
    released = replace(plan, clones=(ReleaseClone(TABLE, ((LOG, "t"),), False, "there is no such clone"),))
    assert "to go: 1 tag(s) for the clone lake.dwd.orders: there is no such clone" in describe_expiry(released, "to go")
