"""Snapshots of tables as they are kept, and which of them go, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL, VIEW_TAG_PREFIX
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

    `held` are those that a tag or a branch keeps; nobody but their owner lets them go. `view_tags` are tags of our own,
    by name, with the snapshot that each keeps for a view.
    """

    table: TableName
    lineage: tuple[Snapshot, ...]
    others: tuple[Snapshot, ...] = ()
    held: frozenset[int] = frozenset()
    view_tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SnapshotUse:
    """All snapshots of a model's `tables`, and what each of its `consumers`, models that read it, has read of it."""

    tables: Sequence[Snapshots]
    consumers: Mapping[str, Version] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpireSnapshots:
    """These snapshots go, and the files that only they have."""

    table: TableName
    snapshots: tuple[int, ...]


@dataclass(frozen=True)
class DropTags:
    """These tags go, which keep snapshots for a view that has moved on."""

    table: TableName
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Age:
    """The time of a commit to a change table, kept for commits whose snapshots have expired."""

    sequence: int
    at_ms: int


@dataclass(frozen=True)
class CompactChangelog:
    """Change rows up to a commit go where one as old has replaced them, if the table's head still is `expected`.

    The newest row of every key stays, so what the changes fold to is the same at every version from that commit on, and
    one that tells the key's last place in the order of events.
    """

    table: TableName
    expected: int
    until: Age


@dataclass(frozen=True)
class AppendedFile:
    """A data file of a landing table, and the sequence number of the commit that added its rows, or put them together.

    A landing table is one that other programs append events to.
    """

    path: str
    sequence: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class LandingState:
    """A landing table: its files, its snapshots, and what its properties keep of earlier expiry.

    `ages` are times of commits whose snapshots may be gone, and `deleted` says up to which one rows may be.
    """

    table: TableName
    uuid: str
    files: tuple[AppendedFile, ...]
    snapshots: Snapshots
    ages: tuple[Age, ...] = ()
    deleted: Age = Age(0, 0)


@dataclass(frozen=True)
class DeleteFiles:
    """These files of a landing table go, whose rows came up to a commit and were read by all."""

    table: TableName
    files: tuple[AppendedFile, ...]
    until: Age


@dataclass(frozen=True)
class LandingPlan:
    """Rows and snapshots of a landing table to expire, and those that are kept.

    `waits_for` says what keeps rows that are old enough. `ages` are those of commits, as the table is to keep them.
    `unread` are readers that have not read anything yet.
    """

    table: TableName
    delete: DeleteFiles | None = None
    expire: ExpireSnapshots | None = None
    kept: tuple[Kept, ...] = ()
    waits_for: tuple[str, ...] = ()
    ages: tuple[Age, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """A snapshot that is kept for a reason; those after it are kept with it, unless it is kept `alone`."""

    table: TableName
    snapshot: int
    reason: str
    alone: bool = False


@dataclass(frozen=True)
class ExpiryPlan:
    """Snapshots and change rows to expire, and those that are kept.

    `waits_for` says what keeps change rows that are old enough to go. `ages` are those of commits, as the change table
    is to keep them before the snapshots that know them go.
    """

    steps: tuple[ExpireSnapshots, ...]
    kept: tuple[Kept, ...]
    trim: CompactChangelog | None = None
    ages: tuple[Age, ...] = ()
    waits_for: tuple[str, ...] = ()
    tags: tuple[DropTags, ...] = ()


def format_view_tag(snapshot: int) -> str:
    """The name of the tag that keeps a snapshot of a base for a view."""
    return f"{VIEW_TAG_PREFIX}{snapshot}"


def format_ages(ages: Iterable[Age]) -> str:
    """Ages as a property keeps them."""
    return " ".join(f"{age.sequence}:{age.at_ms}" for age in ages)


def read_ages(text: str | None) -> tuple[Age, ...]:
    """Reads the text that `format_ages` wrote; a property that is not there is none."""
    pairs = (part.split(":") for part in (text or "").split())
    return tuple(Age(int(sequence), int(at_ms)) for sequence, at_ms in pairs)


def read_trimmed_age(properties: Mapping[str, str]) -> Age:
    """Up to which commit change rows of a table are no longer all there, by its properties."""
    return next(iter(read_ages(properties.get(COMPACTED_UNTIL))), Age(0, 0))
