"""Which tables have to forget, in which order, and which of their snapshots go."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import ConfigError
from arctic_runtime.model.clone import Clone, CloneOrigin
from arctic_runtime.model.files.expiry import DatedSnapshot, Snapshots
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import MODE, REASON, RUN
from arctic_runtime.model.state import BaseState, ChangeTableState, Commit, TableState, ViewState
from arctic_runtime.model.version import Version
from arctic_runtime.plan.forgetting import (
    find_forgotten_sequence,
    find_needed_sequence,
    list_downstream_tables,
    plan_clones,
    split_outdated_snapshots,
)


def table(name: str) -> TableName:
    return TableName("lake", "dwd", name)


def reads(**reads_by_model: str) -> Mapping[TableName, frozenset[TableName]]:
    return {table(name): frozenset(map(table, upstreams.split())) for name, upstreams in reads_by_model.items()}


def test_tables_follow_those_that_they_read_and_others_are_left_alone() -> None:
    graph = reads(a="landing", b="a", c="a b", d="other", e="c d", other="")
    assert [table.name for table in list_downstream_tables(table("a"), graph)] == ["a", "b", "c", "e"]
    assert [table.name for table in list_downstream_tables(table("d"), graph)] == ["d", "e"]


def test_a_model_that_reads_its_own_table_is_no_circle_and_others_are() -> None:
    assert list_downstream_tables(table("a"), reads(a="a")) == (table("a"),)
    with pytest.raises(ConfigError, match="circle"):
        list_downstream_tables(table("a"), reads(a="b", b="a"))


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_everything_below_is_found_once_and_after_what_it_reads(pairs: list[tuple[int, int]]) -> None:
    reads: dict[TableName, set[TableName]] = {table(str(number)): set() for number in range(8)}
    for one, other in pairs:
        if one != other:
            reads[table(str(max(one, other)))].add(table(str(min(one, other))))
    below = list_downstream_tables(table("0"), reads)
    assert len(set(below)) == len(below)
    for name, upstreams in reads.items():
        is_below = name == table("0") or bool(upstreams & set(below))
        assert (name in below) == is_below
    for place, name in enumerate(below):
        assert not reads[name] & set(below[place + 1 :])


def test_all_snapshots_go_but_the_one_that_counts_and_those_that_somebody_holds() -> None:
    lineage = tuple(DatedSnapshot(number, number, number) for number in (1, 2, 3, 4))
    kept = Snapshots(table("m"), lineage, (DatedSnapshot(9, 2, 2),), frozenset({2}), {"arctic_view_3": 3})
    assert split_outdated_snapshots(kept, 4) == ((1, 9), (2, 3))
    assert split_outdated_snapshots(kept, 3) == ((1, 9), (2,))


def test_an_attempt_that_committed_to_its_branch_after_the_forgetting_has_the_old_files_and_goes() -> None:
    lineage = tuple(DatedSnapshot(number, number, number) for number in (1, 2, 3))
    dead, running = DatedSnapshot(8, 4, 4), DatedSnapshot(9, 5, 5)
    kept = Snapshots(table("m"), lineage, (dead, running), frozenset({9}))
    assert split_outdated_snapshots(kept, 3) == ((1, 2, 8), (9,))


def test_the_version_that_the_base_is_merged_to_is_needed_although_a_newer_run_changed_no_row() -> None:
    commits = tuple(
        Commit(Version("u", number, number), number - 1, "append", 0, 0, {RUN: "a", MODE: "full"}, number)
        for number in (3, 4)
    )
    log = Snapshots(table("m__changes"), tuple(DatedSnapshot(number, number, number) for number in (1, 2, 3, 4)))
    base = BaseState("b", (), 11, Version("u", 3, 3), 0, {})
    assert find_needed_sequence(log, TableState(ChangeTableState("u", (), commits, {}), base)) == 3
    assert find_needed_sequence(log, TableState(ChangeTableState("u", (), commits, {}))) == 4


def test_what_tells_the_newest_run_and_what_a_base_is_merged_to_is_needed() -> None:
    def commit(number: int, **summary: str) -> Commit:
        return Commit(Version("u", number, number), number - 1, "append", 0, 0, summary, number)

    run, later = commit(3, **{RUN: "a", MODE: "full"}), commit(4)
    changes = ChangeTableState("u", (), (run, later), {})
    log = Snapshots(table("m__changes"), tuple(DatedSnapshot(number, number, number) for number in (1, 2, 3, 4)))
    assert find_needed_sequence(log, TableState(changes=changes)) == 3
    merged = Version("u", 3, 3)
    base = Snapshots(
        table("m"), (DatedSnapshot(11, 1, 1, merged), DatedSnapshot(12, 2, 2, merged), DatedSnapshot(13, 3, 3))
    )
    assert find_needed_sequence(base, TableState(changes=changes)) == 2
    assert find_needed_sequence(base, TableState(changes=changes, view=ViewState((), 11, 3, 3))) == 1


def test_runs_that_come_after_it_make_no_snapshot_of_the_forgetting_one_of_the_forgotten() -> None:
    def commit(number: int, reason: str) -> Commit:
        summary = {RUN: "a", MODE: "full", REASON: reason}
        return Commit(Version("u", number, number), number - 1, "append", 0, 0, summary, number)

    changes = ChangeTableState("u", (), (commit(5, "FORGOTTEN"), commit(6, "CHANGES")), {})
    log = Snapshots(table("m__changes"), (DatedSnapshot(5, 5, 5), DatedSnapshot(6, 6, 6)))
    assert (
        find_needed_sequence(log, TableState(changes=changes)),
        find_forgotten_sequence(log, TableState(changes=changes)),
    ) == (6, 5)
    versions = [Version("u", number, number) for number in (4, 5, 6)]
    bases = tuple(DatedSnapshot(20 + place, 20 + place, 0, version) for place, version in enumerate(versions))
    assert find_forgotten_sequence(Snapshots(table("m"), bases), TableState(changes=changes)) == 21


DAY_MS = 86_400_000


def make_clone(made_day: int, used_day: int) -> Clone:
    origin = CloneOrigin(table("m"), Version("uuid", 1, 1), table("m__changes"), made_day * DAY_MS, "me")
    return Clone(TableName("lake", "dev", "m"), origin, used_day * DAY_MS)


@pytest.mark.parametrize(
    ("used_day", "ttl_days", "drops_all", "action", "reason"),
    [
        (10, 14, False, "none", "it may be in use until 1970-01-25T00:00:00+00:00, and rows can't be erased"),
        (10, 14, True, "drop", "--drop-clones"),
        (10, None, False, "none", "it may be in use, and rows can't be erased"),
        (10, None, True, "drop", "--drop-clones"),
        (5, 14, False, "drop", "it was not run for 15 days"),
        (5, 14, True, "drop", "it was not run for 15 days"),
        (6, 14, False, "none", "it may be in use"),
    ],
)
def test_a_clone_is_dropped_if_upkeep_would_drop_it_or_if_the_request_drops_all(
    used_day: int, ttl_days: int | None, drops_all: bool, action: str, reason: str
) -> None:
    ttl_seconds = None if ttl_days is None else 86_400.0 * ttl_days
    (planned,) = plan_clones([make_clone(5, used_day)], 20 * DAY_MS, ttl_seconds, drops_all)
    assert (planned.action, planned.reason[: len(reason)]) == (action, reason)
    assert planned.made_at == "1970-01-06T00:00:00+00:00"
    assert planned.used_at == (None if used_day == 5 else f"1970-01-{used_day + 1:02}T00:00:00+00:00")
