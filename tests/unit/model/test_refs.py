"""Changes of branches and tags: what they leave as it is, and when they are refused."""

from __future__ import annotations

import datetime
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.refs import (
    BranchCommit,
    BranchState,
    TableRefs,
    add_branch,
    explain_refused_publish,
    list_abandoned_branches,
    publish_branch,
    remove_refs,
    set_tag,
    walk_lineage,
)

HEAD = 2
COMMITS = {
    1: BranchCommit(None, "append"),
    HEAD: BranchCommit(1, "append"),
    3: BranchCommit(HEAD, "append", "mine"),
    4: BranchCommit(1, "append"),
}


def a_ref(snapshot: int, kind: str = "branch", **parts: Any) -> dict[str, Any]:
    return {"snapshot-id": snapshot, "type": kind, **parts}


def a_table(**refs: dict[str, Any]) -> TableRefs:
    return TableRefs({"main": a_ref(HEAD, **{"min-snapshots-to-keep": 7}), **refs}, COMMITS)


def test_a_branch_is_added_at_a_snapshot() -> None:
    table = a_table(tag=a_ref(1, "tag"))
    assert add_branch(table, "b", 1) == {**table.refs, "b": a_ref(1)}
    assert add_branch(a_table(b=a_ref(3)), "b", 1, may_exist=True) == a_table(b=a_ref(3)).refs


def test_main_moves_to_the_branch_and_keeps_its_own_rules() -> None:
    after = publish_branch(a_table(b=a_ref(3, **{"max-ref-age-ms": 5}), other=a_ref(1)), "b")
    assert after == {"main": a_ref(3, **{"min-snapshots-to-keep": 7}), "other": a_ref(1)}
    assert publish_branch(a_table(b=a_ref(HEAD)), "b") == a_table().refs


def test_a_tag_is_set_and_moved() -> None:
    assert set_tag(a_table(), "t", 1) == a_table(t=a_ref(1, "tag")).refs
    kept = {"max-ref-age-ms": 5}
    assert set_tag(a_table(t=a_ref(1, "tag", **kept)), "t", 3) == a_table(t=a_ref(3, "tag", **kept)).refs


def test_refs_are_removed_as_far_as_they_exist() -> None:
    assert remove_refs(a_table(b=a_ref(3), c=a_ref(3)), ("b", "gone"), "branch") == a_table(c=a_ref(3)).refs


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: add_branch(a_table(b=a_ref(1)), "b", 1), "already exists"),
        (lambda: add_branch(a_table(), "b", 99), "does not have it any more"),
        (lambda: publish_branch(a_table(), "b"), "does not exist"),
        (lambda: publish_branch(a_table(b=a_ref(4)), "b"), "not an ancestor"),
        (lambda: publish_branch(a_table(b=a_ref(1)), "b"), "not an ancestor"),
        (lambda: publish_branch(TableRefs({"b": a_ref(1)}, COMMITS), "b"), "not an ancestor"),
        (lambda: set_tag(a_table(b=a_ref(1)), "b", 1), "a tag"),
        (lambda: set_tag(a_table(), "t", 99), "does not have it any more"),
    ],
)
def test_a_change_that_is_not_possible_is_a_conflict(change: Any, said: str) -> None:
    with pytest.raises(CommitConflict, match=said):
        change()


@pytest.mark.parametrize(("kind", "other"), [("branch", "tag"), ("tag", "branch")])
def test_a_ref_of_another_kind_is_not_removed(kind: Literal["branch", "tag"], other: str) -> None:
    with pytest.raises(CommitConflict, match=f"expected: a {kind}"):
        remove_refs(a_table(r=a_ref(1, other)), ("r",), kind)


NEWEST = 10
KEPT_SECONDS = 24 * 60 * 60
KEPT_MS = 1000 * KEPT_SECONDS
MINE, OTHER = "mine", "other"


def a_state(tip: int | None, *commits: tuple[int, BranchCommit], main: int = NEWEST) -> BranchState:
    return BranchState(main, tip, {NEWEST: BranchCommit(None, "append"), **dict(commits)})


def wrote(
    snapshot: int, parent: int, attempt: str | None = MINE, operation: str = "append"
) -> tuple[int, BranchCommit]:
    return snapshot, BranchCommit(parent, operation, attempt)


PUBLISHED = {
    "a commit of its own": a_state(11, wrote(11, NEWEST)),
    "several commits of its own": a_state(12, wrote(11, NEWEST, operation="delete"), wrote(12, 11)),
    "nothing": a_state(NEWEST),
    "a rewrite of files, which names no attempt": a_state(11, wrote(11, NEWEST, None, "replace")),
    "a rewrite, and what it was merged to": a_state(12, wrote(11, NEWEST, None, "replace"), wrote(12, 11)),
    "a delete without a name on top of its own": a_state(12, wrote(11, NEWEST), wrote(12, 11, None, "delete")),
    "what follows such a delete": a_state(13, wrote(11, NEWEST), wrote(12, 11, None, "delete"), wrote(13, 12)),
    "beside a commit that another attempt lost": a_state(11, wrote(11, NEWEST), wrote(12, NEWEST, OTHER)),
}
REFUSED = {
    "main has moved on": (a_state(11, wrote(11, NEWEST), wrote(12, NEWEST, OTHER), main=12), "main is snapshot 12"),
    "the branch is gone": (a_state(None, wrote(11, NEWEST)), "was dropped"),
    "made anew on a later commit": (a_state(12, wrote(11, NEWEST, OTHER), wrote(12, 11)), "snapshot 11 of another"),
    "made anew on a commit of nobody": (a_state(12, wrote(11, NEWEST, None), wrote(12, 11)), "snapshot 11 of another"),
    "made anew on a delete of nobody": (
        a_state(12, wrote(11, NEWEST, None, "delete"), wrote(12, 11)),
        "snapshot 11 of another",
    ),
    "appended to by nobody": (a_state(12, wrote(11, NEWEST), wrote(12, 11, None)), "snapshot 12 of another"),
    "made anew after a delete": (
        a_state(13, wrote(11, NEWEST), wrote(12, 11, None, "delete"), wrote(13, NEWEST)),
        "lacks snapshot 11",
    ),
    "made anew on a rewrite": (
        a_state(12, wrote(11, NEWEST, OTHER, "replace"), wrote(12, 11)),
        "snapshot 11 of another",
    ),
    "rewritten on top of another's rewrite": (
        a_state(12, wrote(11, NEWEST, None, "replace"), wrote(12, 11, None, "replace")),
        "snapshot 12 of another",
    ),
    "made anew where main went back": (a_state(12, wrote(11, NEWEST), wrote(12, NEWEST)), "lacks snapshot 11"),
    "of another table's past": (a_state(12, wrote(12, 9)), "does not follow"),
}


@pytest.mark.parametrize("state", PUBLISHED.values(), ids=PUBLISHED)
def test_a_branch_becomes_the_table_with(state: BranchState) -> None:
    assert explain_refused_publish(state, NEWEST, MINE) is None


@pytest.mark.parametrize(("state", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_branch_does_not_become_the_table_if(state: BranchState, reason: str) -> None:
    assert reason in str(explain_refused_publish(state, NEWEST, MINE))


def test_processes_that_share_an_attempt_look_for_lost_commits_themselves() -> None:
    state = a_state(12, wrote(11, NEWEST), wrote(12, NEWEST))
    assert explain_refused_publish(state, NEWEST, MINE, is_shared=True) is None


@given(st.data())
def test_a_published_table_has_the_observed_commits_and_those_of_the_attempt_only(
    data: st.DataObject,
) -> None:
    commits = {NEWEST: BranchCommit(None, "append")}
    for snapshot in range(NEWEST + 1, NEWEST + data.draw(st.integers(1, 7))):
        parent = data.draw(st.sampled_from(list(commits)))
        attempt = data.draw(st.sampled_from([MINE, OTHER, None]))
        commits[snapshot] = BranchCommit(parent, data.draw(st.sampled_from(["append", "replace", "delete"])), attempt)
    main, tip = (data.draw(st.sampled_from(list(commits))) for _ in range(2))
    state = BranchState(main, tip, commits)
    if explain_refused_publish(state, NEWEST, MINE) is None:
        behind = list(walk_lineage(tip, {at: commit.parent for at, commit in commits.items()}))
        added = behind[: behind.index(NEWEST)]
        assert main == NEWEST
        assert {at for at, commit in commits.items() if commit.attempt == MINE} <= set(added)
        named = [at for at in added if commits[at].attempt == MINE]
        for at in added[:-1]:
            is_delete = commits[at] == BranchCommit(commits[at].parent, "delete") and at > min(named)
            assert commits[at].attempt == MINE or is_delete
        assert not added or commits[added[-1]].attempt == MINE or commits[added[-1]].operation == "replace"


@pytest.mark.parametrize(
    ("main", "tip", "is_published"), [(12, 11, True), (11, 11, True), (11, 12, False), (11, None, False)]
)
def test_a_branch_is_published_once_main_comes_from_it(main: int, tip: int | None, is_published: bool) -> None:
    state = a_state(tip, wrote(11, NEWEST), wrote(12, 11), main=main)
    assert state.is_published == is_published


HOUR = int(datetime.timedelta(hours=1).total_seconds() * 1000)
PARENTS: dict[int, int | None] = {1: None, 2: 1, 3: 2, 21: 1, 31: 3}
TIMES = {1: 0, 2: 10 * HOUR, 3: 20 * HOUR, 21: 11 * HOUR, 31: 21 * HOUR}


def abandoned(now_ms: int, **branches: int) -> tuple[str, ...]:
    return list_abandoned_branches(branches, PARENTS, TIMES, 3, now_ms - KEPT_MS)


def test_a_branch_is_kept_as_long_as_a_slow_writer_may_take_after_main_has_left_it_behind() -> None:
    assert abandoned(10 * HOUR + KEPT_MS, arctic_new=1, arctic_written=21) == ()
    assert abandoned(10 * HOUR + KEPT_MS + 1, arctic_new=1, arctic_written=21) == ("arctic_new", "arctic_written")
    assert abandoned(20 * HOUR + KEPT_MS, arctic_later=2) == ()


def test_branches_that_can_become_the_table_and_those_of_users_are_never_abandoned() -> None:
    assert abandoned(10**9 * HOUR, arctic_next=31, arctic_now=3, mine=1, main=3) == ()


def test_where_history_is_gone_the_oldest_commit_that_is_kept_tells_when_a_branch_was_left_behind() -> None:
    parents, times = {3: 2, 21: 1}, {3: 20 * HOUR, 21: 11 * HOUR}
    found = [list_abandoned_branches({"arctic_a": 21}, parents, times, 3, before) for before in (0, 40 * HOUR)]
    assert found == [(), ("arctic_a",)]
