"""Data classes for the snapshots of tables, and for plans of what expires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL, VIEW_TAG_PREFIX
from arctic_runtime.model.version import Version


@dataclass(frozen=True)
class Snapshot:
    """One snapshot; `merged` is the merged version that a snapshot of a base records, None if it records none."""

    id: int
    sequence: int
    at_ms: int
    merged: Version | None = None


@dataclass(frozen=True)
class Snapshots:
    """All snapshots of a table, oldest first: the `lineage` of its head, and `others`, which failed attempts left.

    `held` are the snapshots that a tag or a branch keeps; only its owner may release them. `view_tags` are tags of
    arctic, by name, with the snapshot that each keeps for a view.
    """

    table: TableName
    lineage: tuple[Snapshot, ...]
    others: tuple[Snapshot, ...] = ()
    held: frozenset[int] = frozenset()
    view_tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SnapshotUse:
    """All snapshots of a model's `tables`, and the version up to which each consumer has read the model.

    `consumers` are the models that read it, by name.
    """

    tables: Sequence[Snapshots]
    consumers: Mapping[str, Version] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpireSnapshots:
    """Expire snapshots of a table, and delete the files that only these contain."""

    table: TableName
    snapshots: tuple[int, ...]


@dataclass(frozen=True)
class DropTags:
    """Drop tags that kept snapshots for a view which no longer reads them."""

    table: TableName
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Age:
    """The time of a commit to a change table, kept for commits whose snapshots have expired."""

    sequence: int
    at_ms: int


@dataclass(frozen=True)
class CompactChangelog:
    """Delete replaced change rows from the commits up to `until`, if the table's head still is `expected`.

    A change row is replaced if a newer one of its key is in these commits as well. The newest row of each key stays, so
    the changes fold to the same rows at every version from `until` on. A row with the key's last place in the order of
    events stays as well.
    """

    table: TableName
    expected: int
    until: Age


@dataclass(frozen=True)
class AppendedFile:
    """A data file of a landing table, to which other programs append events.

    `sequence` is the sequence number of the commit that added its rows, or that compacted them into this file.
    """

    path: str
    sequence: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class LandingState:
    """A landing table: its files, its snapshots, and the record of earlier expiry in its properties.

    `ages` are times of commits whose snapshots may have expired. Rows of commits up to `deleted` may have been deleted.
    """

    table: TableName
    uuid: str
    files: tuple[AppendedFile, ...]
    snapshots: Snapshots
    ages: tuple[Age, ...] = ()
    deleted: Age = Age(0, 0)


@dataclass(frozen=True)
class DeleteFiles:
    """Delete files of a landing table; their rows are from commits up to `until`, and all readers have read them."""

    table: TableName
    files: tuple[AppendedFile, ...]
    until: Age


@dataclass(frozen=True)
class LandingPlan:
    """Rows and snapshots of a landing table that expire, and those that are kept.

    `waits_for` are the reasons for which rows are kept although they are old enough. `ages` are the commit times that
    the table's properties are to keep. `unread` are readers that have not read anything yet.
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
    """Snapshots, change rows and tags that expire, and the snapshots that are kept.

    `waits_for` are the reasons for which change rows are kept although they are old enough. `ages` are the commit times
    that the change table's properties are to keep, before the snapshots with these times expire.
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
    """Formats ages as text for a table property; `read_ages` is the reverse."""
    return " ".join(f"{age.sequence}:{age.at_ms}" for age in ages)


def read_ages(text: str | None) -> tuple[Age, ...]:
    """Parses the text that `format_ages` wrote; None gives no ages."""
    pairs = (part.split(":") for part in (text or "").split())
    return tuple(Age(int(sequence), int(at_ms)) for sequence, at_ms in pairs)


def read_trimmed_age(properties: Mapping[str, str]) -> Age:
    """Reads from a table's properties up to which commit change rows may have been deleted; `Age(0, 0)` for none."""
    return next(iter(read_ages(properties.get(COMPACTED_UNTIL))), Age(0, 0))
