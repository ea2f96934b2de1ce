"""Branches of attempts, and the checks before such a branch is published as the table's main branch.

An attempt is one try of a run or a maintenance operation; it commits to branches of its own. If it commits to a branch
that was dropped in the meantime, Iceberg creates the branch again, on top of the current main. So the name of a branch
does not prove its contents. A branch is published only if it has the attempt's own commits, and no others, on top of
the snapshot that the attempt observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arctic_runtime.model.properties import BRANCH_PREFIX


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
