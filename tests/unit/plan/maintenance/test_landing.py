"""Rows of a landing table go when they are old and every model that reads them has read them."""

from __future__ import annotations

import pytest

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.files.expiry import Age, AppendedFile, DatedSnapshot, ExpireSnapshots, LandingState, Snapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.table import Retention
from arctic_runtime.model.version import Version
from arctic_runtime.plan.maintenance.landing import describe_landing, plan_landing_expiry
from arctic_runtime.thresholds import ChangelogThresholds

TABLE = TableName("lake", "raw", "events")
LIMITS = ChangelogThresholds(kept_ages=2)
WEEK = Retention(versions_seconds=3, changes_seconds=7)


def v(sequence: int, table: str = "uuid") -> Version:
    return Version(table, 100 + sequence, sequence)


def a_state(*seconds: int, kept: int = 0, **parts: object) -> LandingState:
    """Commits 1, 2, … at these seconds, of one file with ten rows each; the first `kept` snapshots are gone."""
    files = tuple(AppendedFile(f"f{i}", i, 10, 100) for i in range(1, len(seconds) + 1))
    lineage = tuple(DatedSnapshot(100 + i, i, 1000 * at) for i, at in enumerate(seconds, 1))[kept:]
    return LandingState(TABLE, "uuid", files, Snapshots(TABLE, lineage), **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("readers", "gone", "waits"),
    [
        ({}, ["f1", "f2", "f3"], ()),
        ({"a": v(9)}, ["f1", "f2", "f3"], ()),
        ({"a": v(2), "b": v(3)}, ["f1", "f2"], ("a has not read them",)),
        ({"a": v(0)}, [], ("a has not read them",)),
        ({"a": None}, ["f1", "f2", "f3"], ()),
        ({"a": v(1, "another table")}, ["f1", "f2", "f3"], ()),
    ],
)
def test_files_go_that_are_old_and_read_by_all(
    readers: dict[str, Version | None], gone: list[str], waits: tuple[str, ...]
) -> None:
    plan = plan_landing_expiry(a_state(1, 2, 3, 8, 9), WEEK, readers, 10_500, LIMITS)
    assert [file.path for file in (plan.delete.files if plan.delete else ())] == gone
    assert plan.waits_for == waits
    assert plan.unread == tuple(name for name, offset in readers.items() if offset is None)


def test_snapshots_go_up_to_the_one_that_a_reader_continues_from() -> None:
    plan = plan_landing_expiry(a_state(1, 2, 3, 8, 9), WEEK, {"a": v(3)}, 10_500, LIMITS)
    assert plan.expire == ExpireSnapshots(TABLE, (101, 102))
    assert [(reason.snapshot, reason.reason) for reason in plan.kept] == [(103, "a has read up to it")]
    assert describe_landing(plan, "gone") == [
        "gone: 30 rows of lake.raw.events that were appended up to 1970-01-01 00:00 UTC, in 3 file(s)",
        "gone: 2 snapshot(s) of lake.raw.events",
        "kept: lake.raw.events, snapshot 103 and newer: a has read up to it",
    ]


@pytest.mark.parametrize(("now", "gone"), [(10_500, None), (11_999, None), (12_001, ExpireSnapshots(TABLE, (101,)))])
def test_a_snapshot_that_was_the_newest_stays_for_who_began_to_read_it_then(
    now: int, gone: ExpireSnapshots | None
) -> None:
    assert plan_landing_expiry(a_state(1, 9), WEEK, {"a": None}, now, LIMITS).expire == gone


def test_the_times_of_commits_are_known_when_others_have_expired_their_snapshots() -> None:
    state = a_state(1, 2, 3, 8, 9, kept=4)
    assert plan_landing_expiry(state, WEEK, {}, 10_500, LIMITS).delete is None
    earlier = plan_landing_expiry(a_state(1, 2, 3, 8), WEEK, {}, 9_500, LIMITS)
    assert earlier.ages == (Age(2, 2000), Age(4, 8000))
    later = plan_landing_expiry(a_state(1, 2, 3, 8, 9, kept=4, ages=earlier.ages), WEEK, {}, 10_500, LIMITS)
    assert later.delete is not None
    assert (later.delete.until, [file.path for file in later.delete.files]) == (Age(2, 2000), ["f1", "f2"])
    assert later.ages == (Age(2, 2000), Age(4, 8000))


def test_snapshots_before_the_newest_ones_go_at_any_age() -> None:
    most = Retention(versions_seconds=100, max_versions=2)
    assert plan_landing_expiry(a_state(1, 2, 3, 8), most, {}, 10_000, LIMITS).expire == ExpireSnapshots(
        TABLE, (101, 102)
    )
    assert plan_landing_expiry(a_state(1, 2), most, {}, 10_000, LIMITS).expire is None


def test_a_table_without_ages_is_kept() -> None:
    assert plan_landing_expiry(a_state(1, 2), Retention(versions_seconds=3), {}, 10_000, LIMITS).delete is None
    with pytest.raises(ConfigError, match="nothing can expire"):
        plan_landing_expiry(a_state(1, 2), Retention(), {}, 10_000, LIMITS)
