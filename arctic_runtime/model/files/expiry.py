"""Data classes for the snapshots of tables, and for plans of expiry: snapshots, change rows and files to delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from arctic_runtime.model.clone import ReleaseClone
from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import COMPACTED_UNTIL, VIEW_TAG_PREFIX
from arctic_runtime.model.version import Version


@dataclass(frozen=True)
class DatedSnapshot:
    """One snapshot of a table; `at_ms` is its commit time in milliseconds since 1970.

    For a snapshot of a base table, `merged` is the version of the change table up to which it is merged; None if its
    summary has no entry for this.
    """

    id: int
    sequence: int
    at_ms: int
    merged: Version | None = None


@dataclass(frozen=True)
class Snapshots:
    """All snapshots of a table, oldest first."""

    table: TableName
    lineage: tuple[DatedSnapshot, ...]
    """Snapshots of the main branch."""

    others: tuple[DatedSnapshot, ...] = ()
    """Snapshots of other branches."""

    held: frozenset[int] = frozenset()
    """Ids of snapshots that a tag or a branch of a user keeps."""

    view_tags: Mapping[str, int] = field(default_factory=dict)
    """Maps each tag that arctic set for a view to the id of the snapshot that the tag keeps."""

    cut_tags: Mapping[str, int] = field(default_factory=dict)
    """Maps the name of each cut of a build to the id of the snapshot that it keeps."""

    shares_files: bool = False
    """Whether files of the table may belong to another table as well, so that expiry may not delete any."""

    can_expire: bool = True
    """Whether snapshots can expire: if files are shared, the catalog has to allow that without a deletion of files."""


@dataclass(frozen=True)
class SnapshotUse:
    """Snapshots of all `tables` of a model, and the versions up to which other models have read it.

    `consumers` maps the names of these models to the versions.
    """

    tables: Sequence[Snapshots]
    consumers: Mapping[str, Version] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpireSnapshots:
    """Step: expire snapshots of a table, and delete the files that only these contain.

    If `keeps_files`, no file is deleted: some may belong to another table as well.
    """

    table: TableName
    snapshots: tuple[int, ...]
    keeps_files: bool = False


@dataclass(frozen=True)
class DropTags:
    """Step: drop tags that keep snapshots for a view which no longer reads them."""

    table: TableName
    tags: tuple[str, ...]


@dataclass(frozen=True)
class Age:
    """Sequence number of a commit, and its time in milliseconds since 1970.

    Ages are stored in table properties, so that the times of commits are known after their snapshots have expired.
    """

    sequence: int
    at_ms: int


@dataclass(frozen=True)
class CompactChangelog:
    """Step: delete replaced change rows of commits up to `until`, if the table's newest snapshot still is `expected`.

    A change row is replaced if these commits have a newer change row of the same key. The newest row of each key is
    kept, so that the change rows result in the same table at `until` and at every later version. The row with a key's
    highest `sequence_by` value is kept as well, because late events are compared with it.
    """

    table: TableName
    expected: int
    until: Age


@dataclass(frozen=True)
class AppendedFile:
    """A data file of a landing table: a table to which other programs append change events.

    `sequence` is the sequence number of the commit that added the file's rows, or that compacted them into this file.
    """

    path: str
    sequence: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class LandingState:
    """State of a landing table: its files, its snapshots, and the record of earlier expiry in its properties."""

    table: TableName
    uuid: str
    """Iceberg's id of the table, which a new table of the same name does not have."""

    files: tuple[AppendedFile, ...]
    snapshots: Snapshots
    ages: tuple[Age, ...] = ()
    """Times of commits whose snapshots may have expired."""

    deleted: Age = Age(0, 0)
    """Newest commit whose rows may have been deleted; `Age(0, 0)` if there is none."""


@dataclass(frozen=True)
class DeleteFiles:
    """Step: delete `files` of a landing table, whose rows all readers have read and commits up to `until` added."""

    table: TableName
    files: tuple[AppendedFile, ...]
    until: Age


@dataclass(frozen=True)
class LandingPlan:
    """Plan of expiry for a landing table."""

    table: TableName
    delete: DeleteFiles | None = None
    """Step that deletes files; None if there is nothing to delete."""

    expire: ExpireSnapshots | None = None
    """Step that expires snapshots; None if there is nothing to expire."""

    kept: tuple[RetainedSnapshot, ...] = ()
    """Snapshots that are kept, with the reasons."""

    waits_for: tuple[str, ...] = ()
    """Reasons for which rows are kept although they are old enough."""

    ages: tuple[Age, ...] = ()
    """Commit times to be stored in the table's properties."""

    unread: tuple[str, ...] = ()
    """Names of models that have not read the table yet."""


@dataclass(frozen=True)
class RetainedSnapshot:
    """A snapshot that expiry keeps, with the reason.

    All newer snapshots of the table are kept as well, unless `alone` is True.
    """

    table: TableName
    snapshot: int
    reason: str
    alone: bool = False


@dataclass(frozen=True)
class ExpiryPlan:
    """Plan of expiry for a model: the snapshots, change rows and tags to delete, and the snapshots that are kept.

    `changelog_compaction` deletes replaced change rows; None if there is nothing to delete. `waits_for` are the reasons
    for which change rows are kept although they are old enough. `ages` are the commit times to be stored in the change
    table's properties before the snapshots with these times expire.
    """

    steps: tuple[ExpireSnapshots, ...]
    kept: tuple[RetainedSnapshot, ...]
    changelog_compaction: CompactChangelog | None = None
    ages: tuple[Age, ...] = ()
    waits_for: tuple[str, ...] = ()
    tags: tuple[DropTags, ...] = ()
    clones: tuple[ReleaseClone, ...] = ()
    """Clones of the model whose tags are dropped."""


def format_view_tag(snapshot: int) -> str:
    """Returns the name of the tag that keeps a base table's snapshot for a view."""
    return f"{VIEW_TAG_PREFIX}{snapshot}"


def format_ages(ages: Iterable[Age]) -> str:
    """Formats sequence numbers and times of commits as text for a table property; `read_ages` parses it."""
    return " ".join(f"{age.sequence}:{age.at_ms}" for age in ages)


def read_ages(text: str | None) -> tuple[Age, ...]:
    """Parses text of `format_ages`; empty for None."""
    pairs = (part.split(":") for part in (text or "").split())
    return tuple(Age(int(sequence), int(at_ms)) for sequence, at_ms in pairs)


def read_trimmed_age(properties: Mapping[str, str]) -> Age:
    """Reads from a table's properties the newest commit whose change rows may have been deleted.

    Returns `Age(0, 0)` if there is none.
    """
    return next(iter(read_ages(properties.get(COMPACTED_UNTIL))), Age(0, 0))
