"""Branches to which attempts commit, and the checks before such a branch is published as the table's main branch.

If a commit names a branch that was dropped in the meantime, Iceberg creates it again on top of the current main. So the
name of a branch proves nothing. An attempt is published only if its branch contains the attempt's own commits on top of
the snapshot that it observed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arctic_runtime.model.properties import BRANCH_PREFIX


@dataclass(frozen=True)
class BranchCommit:
    """A snapshot of a table: its parent, its operation, and the attempt that wrote it.

    `attempt` is None if the snapshot's summary names none.
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
        """Whether main contains the head of the other branch."""
        return self.tip is not None and self.tip in walk_lineage(self.main, _map_parents(self.commits))


def walk_lineage(snapshot: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    """Yields `snapshot` and its ancestors, newest first; nothing for None. `parents` maps a snapshot to its parent."""
    while snapshot is not None:
        yield snapshot
        snapshot = parents.get(snapshot)


def explain_refused_publish(state: BranchState, expected: int, attempt: str, is_shared: bool = False) -> str | None:
    """Returns the reason why an attempt's branch can't be published as main; None if it can.

    It can if it contains all commits of `attempt` on top of the snapshot `expected`, and no others. If several
    processes share an attempt (`is_shared`), a dropped branch may have lost some of its commits; the caller checks
    that. Two kinds of commits count as the attempt's own although their summaries don't name it. One is a rewrite of
    files directly on top of `expected`, since Iceberg's procedure can't add properties to its commit. Commits of other
    writers have another parent or an attempt. The other is a delete on top of a commit of the attempt, since Spark
    deletes whole files without properties. A branch that was dropped and created again lacks this commit below.
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
    """Lists, sorted, the branches of attempts that can't be published any more, since main has newer commits.

    `branches` maps names to heads, `parents` each snapshot to its parent, and `times` each snapshot to the milliseconds
    at which it was committed; `head` is the head of main. Main's first newer commit must be older than `before_ms`, so
    that no slow writer is still at work: its commit to a dropped branch would create the branch again.
    """
    own = {name: tip for name, tip in branches.items() if name.startswith(BRANCH_PREFIX)}
    left = {name: _find_fork_commit(tip, parents, head) for name, tip in own.items()}
    return tuple(sorted(name for name, at in left.items() if at and times.get(at, before_ms) < before_ms))


def _find_fork_commit(tip: int, parents: Mapping[int, int | None], head: int | None) -> int | None:
    """Returns the oldest commit of main that the branch with the head `tip` lacks; None if it has main's head.

    If that commit has expired, it is the oldest commit of main that is kept.
    """
    own, at = set(walk_lineage(tip, parents)), None
    for snapshot in walk_lineage(head, parents):
        if snapshot in own:
            return at
        at = snapshot if snapshot in parents else at
    return at
