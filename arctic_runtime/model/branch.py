"""Branches that attempts to commit write to, and what has to hold before such a branch becomes the table.

Iceberg makes a branch anew where a commit names one that was dropped meanwhile, on top of what main is by then. So a
branch proves nothing by its name: an attempt is published only if its branch holds the attempt's own commits on top of
the snapshot that it observed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from arctic_runtime.model.properties import BRANCH_PREFIX


@dataclass(frozen=True)
class BranchCommit:
    """A snapshot of a table; `attempt` names the attempt that wrote it, None if its summary names none."""

    parent: int | None
    operation: str
    attempt: str | None = None


@dataclass(frozen=True)
class BranchState:
    """Heads of main and of a branch, None if there is no such ref, and all snapshots that are kept."""

    main: int | None
    tip: int | None
    commits: Mapping[int, BranchCommit]

    @property
    def is_published(self) -> bool:
        """Whether main is the branch, or has gone on from it."""
        return self.tip is not None and self.tip in walk_lineage(self.main, _map_parents(self.commits))


def walk_lineage(snapshot: int | None, parents: Mapping[int, int | None]) -> Iterator[int]:
    """A snapshot and those behind it, newest first."""
    while snapshot is not None:
        yield snapshot
        snapshot = parents.get(snapshot)


def explain_refused_publish(state: BranchState, expected: int, attempt: str, is_shared: bool = False) -> str | None:
    """Why a branch can't become the table; None if it can.

    It can where it holds all commits of the attempt on top of `expected`, and no others. Where several processes share
    an attempt, some of its commits may have been lost with a branch that was dropped: the caller looks for them.
    A commit without an attempt is the attempt's own where it rewrites files right on top of `expected`: Iceberg's
    procedure takes no properties for its commit. Other writers' commits there have another parent or an attempt.
    So is a delete without an attempt on top of a commit that names it: Spark deletes whole files without properties,
    and a branch that was dropped and made anew lacks the commit below.
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
    """Branches of attempts that can't become the table, and that main has left behind before a time, by name.

    `times` are the milliseconds at which snapshots were committed. `before_ms` is so long ago that no slow writer is
    at work any more: its commit to a branch that was dropped would make it anew.
    """
    own = {name: tip for name, tip in branches.items() if name.startswith(BRANCH_PREFIX)}
    left = {name: _find_fork_commit(tip, parents, head) for name, tip in own.items()}
    return tuple(sorted(name for name, at in left.items() if at and times.get(at, before_ms) < before_ms))


def _find_fork_commit(tip: int, parents: Mapping[int, int | None], head: int | None) -> int | None:
    """The commit of main that left a branch behind, the oldest kept where that is gone; None if main is in it."""
    own, at = set(walk_lineage(tip, parents)), None
    for snapshot in walk_lineage(head, parents):
        if snapshot in own:
            return at
        at = snapshot if snapshot in parents else at
    return at
