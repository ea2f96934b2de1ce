"""Branches and tags of a table, and changes of them, each of which is one commit to the table's metadata.

A change is computed from the present branches and tags. Whoever commits it makes sure that these are still the same,
and computes it again if they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.branch import BranchCommit, BranchState

MAIN = "main"

Ref = Mapping[str, Any]
"""A branch or tag as metadata files have it: `snapshot-id`, `type`, and how long snapshots are kept."""

Refs = Mapping[str, Ref]
"""Branches and tags by name."""


@dataclass(frozen=True)
class TableRefs:
    """The branches and tags of a table, and all its snapshots by id."""

    refs: Refs
    commits: Mapping[int, BranchCommit]

    def find_snapshot(self, name: str) -> int | None:
        """Returns the snapshot of a branch or tag; None if there is no such branch or tag."""
        ref = self.refs.get(name)
        return None if ref is None else int(ref["snapshot-id"])

    def read_state(self, branch: str) -> BranchState:
        """Returns the state of main and of `branch`."""
        return BranchState(self.find_snapshot(MAIN), self.find_snapshot(branch), self.commits)


RefChange = Callable[[TableRefs], Refs]
"""Computes the branches and tags that a table is to have; raises CommitConflict if the change is not possible."""


def add_branch(table: TableRefs, branch: str, snapshot: int, may_exist: bool = False) -> Refs:
    """Returns the refs with a new branch at a snapshot; if the branch `may_exist`, an existing one stays as it is.

    Raises CommitConflict if the branch exists and may not, or if the table has no such snapshot.
    """
    if branch in table.refs:
        if may_exist:
            return table.refs
        raise CommitConflict(f"The branch {branch} already exists.")
    _check_snapshot(table, branch, snapshot)
    return {**table.refs, branch: {"snapshot-id": snapshot, "type": "branch"}}


def publish_branch(table: TableRefs, branch: str) -> Refs:
    """Returns the refs with main at the head of `branch`, and without this branch.

    Raises CommitConflict if there is no such branch, or if the head of main is not one of its commits.
    """
    state = table.read_state(branch)
    if state.tip is None:
        raise CommitConflict(f"The branch {branch} does not exist.")
    if state.main is None or not state.is_in_branch(state.main):
        raise CommitConflict(f"Can't fast-forward main to the branch {branch}: main is not an ancestor of it.")
    others = {name: ref for name, ref in table.refs.items() if name != branch}
    return {**others, MAIN: {**table.refs[MAIN], "snapshot-id": state.tip}}


def set_tag(table: TableRefs, tag: str, snapshot: int) -> Refs:
    """Returns the refs with a tag at a snapshot; an existing tag keeps its other parts.

    Raises CommitConflict if a branch has the name, or if the table has no such snapshot.
    """
    former = table.refs.get(tag, {"type": "tag"})
    _check_type(former, tag, "tag")
    _check_snapshot(table, tag, snapshot)
    return {**table.refs, tag: {**former, "snapshot-id": snapshot}}


def remove_refs(table: TableRefs, names: Collection[str], kind: Literal["branch", "tag"]) -> Refs:
    """Returns the refs without those called `names`, as far as they exist.

    Raises CommitConflict if one of them is not of this kind.
    """
    for name in names:
        if name in table.refs:
            _check_type(table.refs[name], name, kind)
    return {name: ref for name, ref in table.refs.items() if name not in names}


def _check_type(ref: Ref, name: str, kind: str) -> None:
    if ref["type"] != kind:
        raise CommitConflict(f"{name} can't be changed as a {kind}.", expected=f"a {kind}", actual=f"a {ref['type']}")


def _check_snapshot(table: TableRefs, name: str, snapshot: int) -> None:
    if snapshot not in table.commits:
        raise CommitConflict(f"{name} can't be set to the snapshot {snapshot}: the table does not have it any more.")
