"""Determines which commits of a table were made before a dead letter's batch, by it, and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from arctic_runtime.ingest.dead_letters.letters import decode_version
from arctic_runtime.model.properties import POSITION, POSITION_EVENTS, REASON
from arctic_runtime.model.state import ChangeTableState, Commit

CommitKind = Literal["events", "replay", "snapshot"]
"""Origin of the rows of a commit: events of a batch, dead letters, or a snapshot of the source."""

_KINDS: Mapping[str, CommitKind] = MappingProxyType(
    {"FIRST_RUN": "events", "CHANGES": "events", "REPLAYED": "replay", "RESYNCED": "snapshot"}
)
"""The kind of a commit by its reason.

Commits with other reasons, such as a restore, have no kind, since they can't be ordered among events.
"""


@dataclass(frozen=True)
class CommitWindow:
    """Sequence numbers that divide a table's commits into those before a dead letter's batch and those since."""

    after: int
    """Sequence number up to which commits were made before the batch; -1 if none is known to be."""

    end: int | None
    """Sequence number of the first later commit that completes a batch and has not expired; None if there is none."""

    is_own: bool
    """True if that commit completes the dead letter's own batch."""

    is_known: bool
    """False if the order is unknown.

    It is unknown if the table was created again since, or if the dead letter has no version.
    """


def find_commit_window(changes: ChangeTableState | None, since: str | None, position: str | None) -> CommitWindow:
    """Returns the CommitWindow of a dead letter's batch.

    `since` is the table's version before the batch (as by `encode_version`), and `position` the end of the batch in the
    source; both are columns of the dead letter table. `changes` is None if the table does not exist.
    """
    if changes is None:
        return CommitWindow(-1, None, is_own=False, is_known=True)
    table, after = (None, -1) if since is None else decode_version(since) or (changes.uuid, -1)
    if table != changes.uuid:
        return CommitWindow(-1, None, is_own=False, is_known=False)
    ends = (commit for commit in changes.commits if commit.version.sequence > after and _is_end_of_batch(commit))
    end = next(ends, None)
    if end is None:
        return CommitWindow(after, None, is_own=False, is_known=True)
    return CommitWindow(after, end.version.sequence, end.summary[POSITION] == position, is_known=True)


def list_commit_kinds(changes: ChangeTableState) -> dict[int, CommitKind]:
    """Maps the sequence number of each existing commit of a change table to its kind.

    Commits without a kind, such as a restore, are left out.
    """
    kinds = {commit.version.sequence: _find_commit_kind(commit) for commit in changes.commits}
    return {sequence: kind for sequence, kind in kinds.items() if kind is not None}


def _find_commit_kind(commit: Commit) -> CommitKind | None:
    return _KINDS.get(commit.summary.get(REASON, ""))


def _is_end_of_batch(commit: Commit) -> bool:
    return (
        _find_commit_kind(commit) == "events" and POSITION in commit.summary and POSITION_EVENTS not in commit.summary
    )
