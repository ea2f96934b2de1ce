"""Snapshots of tables as they are kept, and which of them go, as data."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.model.names import TableName
from arctic_runtime.model.version import Version


@dataclass(frozen=True)
class Snapshot:
    """One snapshot; `merged` is what a base says there of the version that it is merged to."""

    id: int
    sequence: int
    at_ms: int
    merged: Version | None = None


@dataclass(frozen=True)
class Snapshots:
    """All snapshots of a table, oldest first: those behind its head, and `others`, which attempts that lost left.

    `held` are those that a tag or a branch keeps; nobody but their owner lets them go.
    """

    table: TableName
    lineage: tuple[Snapshot, ...]
    others: tuple[Snapshot, ...] = ()
    held: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Expire:
    """These snapshots go, and the files that only they have."""

    table: TableName
    snapshots: tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """A snapshot that is kept for a reason; those after it are kept with it, unless it is kept `alone`."""

    table: TableName
    snapshot: int
    reason: str
    alone: bool = False


@dataclass(frozen=True)
class ExpiryPlan:
    """What goes, and what is kept for whom."""

    steps: tuple[Expire, ...]
    kept: tuple[Kept, ...]
