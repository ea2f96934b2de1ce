"""Branches and tags of a table: branches of attempts, savepoints, and changes, each one commit to the table's metadata.

A change is computed from the present branches and tags. Whoever commits it makes sure that these are still the same,
and computes it again if they are not.

An attempt is one try of a run or a maintenance operation; it commits to branches of its own. If it commits to a branch
that was dropped in the meantime, Iceberg creates the branch again, on top of the current main. So the name of a branch
does not prove its contents. A branch is published only if it has the attempt's own commits, and no others, on top of
the snapshot that the attempt observed.

A savepoint is a version with a name, which expiry does not delete. A user names it, or a build that is published as a
whole, whose cuts expiry drops when they are old.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from arctic_runtime.errors import CommitConflict
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BRANCH_PREFIX
from arctic_runtime.model.state import Commit


@dataclass(frozen=True)
class BranchCommit:
    """A snapshot of a table: the id of its parent, its Iceberg operation, and the attempt that wrote it.

    `attempt` is None if the snapshot's summary has no entry for the attempt.
    """

    parent: int | None
    operation: str
    attempt: str | None = None


@dataclass(frozen=True)
class BranchState:
    """State of a table's branches: the head of main, the head of one other branch (`tip`), and all snapshots by id.

    `main` and `tip` are None if there is no such branch.
    """

    main: int | None
    tip: int | None
    commits: Mapping[int, BranchCommit]

    @property
    def is_published(self) -> bool:
        """Whether main contains `tip`, so that all commits of the other branch are published."""
        return self.tip is not None and self.is_in_main(self.tip)

    def is_in_branch(self, snapshot: int) -> bool:
        """Whether a snapshot is `tip` or one of its ancestors."""
        return snapshot in walk_lineage(self.tip, _map_parents(self.commits))

    def is_in_main(self, snapshot: int) -> bool:
        """Whether a snapshot is the head of main or one of its ancestors."""
        return snapshot in walk_lineage(self.main, _map_parents(self.commits))


def walk_lineage(snapshot: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    """Yields `snapshot` and its ancestors, newest first; `parents` maps each snapshot to its parent.

    Yields nothing if `snapshot` is None.
    """
    while snapshot is not None:
        yield snapshot
        snapshot = parents.get(snapshot)


def explain_refused_publish(state: BranchState, expected: int, attempt: str, is_shared: bool = False) -> str | None:
    """Returns the reason for which an attempt's branch can't be published as main; None if it can be published.

    It can be published if main still is the snapshot `expected`, and if the branch has all commits of `attempt`, and no
    others, on top of `expected`. If several processes share the attempt (`is_shared`), the caller must check itself
    that none of the attempt's commits was lost with a dropped branch.

    Two kinds of commits count as the attempt's own although their summaries don't name the attempt: a rewrite of files
    directly on top of `expected`, because Iceberg's procedure can't add entries to the summary; and a delete on top of
    a commit of the attempt, because Spark deletes whole files without such entries.
    """
    if state.main != expected:
        return f"main is snapshot {state.main} by now"
    if state.tip is None:
        return "the branch was dropped meanwhile"
    own = {snapshot for snapshot, commit in state.commits.items() if commit.attempt == attempt}
    chain = []
    for snapshot in walk_lineage(state.tip, _map_parents(state.commits)):
        if snapshot == expected:
            break
        chain.append(snapshot)
    else:
        return f"the branch does not follow from snapshot {expected}"
    is_named = False
    for snapshot in reversed(chain):
        is_own = snapshot in own or _is_rewrite(state, snapshot, expected)
        if not is_own and not (is_named and _is_delete_without_name(state.commits[snapshot])):
            return f"the branch holds snapshot {snapshot} of another writer"
        is_named |= snapshot in own
    lost = [] if is_shared else sorted(own.difference(chain))
    return f"the branch lacks snapshot {lost[0]}, which this attempt wrote" if lost else None


def _is_rewrite(state: BranchState, snapshot: int, expected: int) -> bool:
    commit = state.commits.get(snapshot)
    return commit == BranchCommit(expected, "replace")


def _is_delete_without_name(commit: BranchCommit) -> bool:
    return commit.operation == "delete" and commit.attempt is None


def _map_parents(commits: Mapping[int, BranchCommit]) -> dict[int, int | None]:
    return {snapshot: commit.parent for snapshot, commit in commits.items()}


def list_abandoned_branches(
    branches: Mapping[str, int],
    parents: Mapping[int, int | None],
    times: Mapping[int, int],
    head: int | None,
    before_ms: int,
) -> tuple[str, ...]:
    """Lists, sorted, the branches of attempts that can't be published any more, because main has newer commits.

    `branches` maps names to heads, `parents` maps each snapshot to its parent, and `times` maps each snapshot to its
    commit time in milliseconds since 1970; `head` is the head of main. A branch is listed only if the first commit of
    main that it lacks is older than `before_ms`. A slow writer might otherwise still commit to the branch, which would
    create the branch again after it is dropped.
    """
    own = {name: tip for name, tip in branches.items() if name.startswith(BRANCH_PREFIX)}
    left = {name: _find_fork_commit(tip, parents, head) for name, tip in own.items()}
    return tuple(sorted(name for name, at in left.items() if at and times.get(at, before_ms) < before_ms))


def _find_fork_commit(tip: int, parents: Mapping[int, int | None], head: int | None) -> int | None:
    """Returns the oldest commit of main that the branch with the head `tip` lacks; None if it has all of them.

    If that commit has expired, the oldest commit of main that has not expired is returned.
    """
    own, at = set(walk_lineage(tip, parents)), None
    for snapshot in walk_lineage(head, parents):
        if snapshot in own:
            return at
        at = snapshot if snapshot in parents else at
    return at


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


_CUT = re.compile(r"build_\d{8}T\d{6}Z_[0-9a-f]{4}")


def format_cut(at_ms: int, suffix: str) -> str:
    """Returns the name of the cut of a build: the tag that all tables of the build get when it is published.

    `at_ms` is the time in milliseconds since 1970, and `suffix` four hexadecimal digits that tell two builds of one
    second apart.
    """
    return f"build_{datetime.fromtimestamp(at_ms / 1000, timezone.utc):%Y%m%dT%H%M%SZ}_{suffix}"


def parse_cut(name: str) -> int | None:
    """Returns the time of a cut in milliseconds since 1970; None if `name` is not the name of a cut."""
    if not _CUT.fullmatch(name):
        return None
    try:
        at = datetime.strptime(name[6:22], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return round(at.timestamp() * 1000)


@dataclass(frozen=True)
class Savepoint:
    """A named version of a table: the name, and the commit of the change table that the Iceberg tag `name` marks."""

    name: str
    commit: Commit


@dataclass(frozen=True)
class SetTag:
    """Step: create the tag `name` at a snapshot of a table, or drop it if `snapshot` is None."""

    table: TableName
    name: str
    snapshot: int | None
