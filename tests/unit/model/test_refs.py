"""Changes of branches and tags: what they leave as it is, and when they are refused."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.branch import BranchCommit
from arctic_runtime.model.refs import TableRefs, add_branch, publish_branch, remove_refs, set_tag

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
