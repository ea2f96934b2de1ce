"""Data classes for the files of tables, and for the steps by which compaction rewrites them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from arctic_runtime.model.names import TableName
from arctic_runtime.model.properties import BASE_REWRITE_PREFIX
from arctic_runtime.model.table import Transform
from arctic_runtime.model.version import Version

CompactionMode = Literal["auto", "minor", "major", "full"]
Way = Literal["join", "sort"]
Meeting = Literal["hash", "sort"]
Direction = Literal["split", "merge"]


@dataclass(frozen=True)
class PartitionValue:
    """The value of one partition transform for all rows of a file, as a text that casts to the Spark type `type`.

    `value` is None for null. If the type is empty, no SQL condition can be built that selects these rows.
    """

    transform: Transform
    value: str | None
    type: str

    def __str__(self) -> str:
        return f"{self.transform} = {'null' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """Size of a data file: it has `rows` rows, of which `deleted` are marked as deleted.

    `bytes` is the size of the file, including the deleted rows, but without the file that marks them.
    """

    bytes: int
    rows: int
    deleted: int = 0


@dataclass(frozen=True)
class FileGroup:
    """The files of one table in one partition and bucket; all files of a table without partitions.

    They share the partition spec `spec` and its values. In a base table, a file group is a hash node of one partition.
    """

    spec: int
    partition: tuple[PartitionValue, ...]
    files: tuple[DataFile, ...]

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def deleted_share(self) -> float:
        """The part of its rows that are marked as deleted, from 0 to 1."""
        return sum(file.deleted for file in self.files) / max(1, sum(file.rows for file in self.files))

    def __str__(self) -> str:
        return ", ".join(map(str, self.partition)) or "all rows"


Place = tuple[TableName, int, tuple[PartitionValue, ...]]
"""Identifies a node across snapshots: its table, its partition spec and its partition values."""


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one snapshot; `target_bytes` is the target size of the files that are written.

    New files get the partition spec `spec`, which consists of `transforms`. `progress` are rewrites of the table that
    were interrupted. `finished_groups` are file groups that need no rewrite, since a job has just written them.
    """

    table: TableName
    snapshot: int
    nodes: tuple[FileGroup, ...]
    target_bytes: int
    spec: int = 0
    transforms: tuple[Transform, ...] = ()
    progress: tuple[PartialProgress, ...] = ()
    finished_groups: frozenset[Place] = frozenset()

    def locate_group(self, node: FileGroup) -> Place:
        return self.table, node.spec, node.partition

    def has_finished(self, nodes: Iterable[FileGroup]) -> bool:
        """Whether all of `nodes` are file groups that a job has just written."""
        return bool(self.finished_groups) and all(self.locate_group(node) in self.finished_groups for node in nodes)


@dataclass(frozen=True)
class Specs:
    """The partition specs of a table: their transforms by spec id, and the id `default` of the spec for new files."""

    default: int
    transforms: Mapping[int, tuple[Transform, ...]]


@dataclass(frozen=True)
class FileTotals:
    """Counts for a table from snapshot summaries: current data files, their bytes, and their rows marked as deleted.

    `appends` is the number of commits that added rows since files were last rewritten, as far as snapshots are kept.
    `added_bytes` are the bytes that these commits added.
    """

    files: int
    deleted: int
    appends: int = 0
    bytes: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class MergeUnmerged:
    """Step: merge all unmerged change rows into the base table; the counts are those of the change rows."""

    table: TableName
    commits: int
    rows: int
    bytes: int
    reason: str


@dataclass(frozen=True)
class RewriteFiles:
    """Step: rewrite files of the file groups `nodes` in one commit, if the table's newest snapshot still is `expected`.

    With the `way` `join`, only the small files are rewritten; with `sort`, all files, with sorted rows. `whole` says
    that `nodes` are all file groups of the table. `bytes` are read and written once. `waste` is the cost for each
    reader of these groups until then, in bytes; opening a file counts as a number of bytes. Files below `small_bytes`
    are small; new ones have `target_bytes`. New files get the partition spec `spec`, for None the table's default.
    `buckets` are all numbers of buckets in the table, by which the files of these groups are distinguished from others.
    """

    table: TableName
    expected: int
    way: Way
    nodes: tuple[FileGroup, ...]
    whole: bool
    files: int
    bytes: int
    waste: int
    small_bytes: int
    target_bytes: int
    reason: str
    spec: int | None = None
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True)
class ResizeBuckets:
    """Step: split or merge the buckets `nodes` in one commit, if the table's newest snapshot still is `expected`.

    Their rows move to hash nodes of the depth `depth`, so that there are 2^depth buckets. Their files are rewritten,
    sorted and without deleted rows. Later writes to any bucket use `default_depth`. The other fields are those of
    `RewriteFiles`.
    """

    table: TableName
    expected: int
    direction: Direction
    nodes: tuple[FileGroup, ...]
    depth: int
    default_depth: int
    whole: bool
    files: int
    bytes: int
    target_bytes: int
    reason: str
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, order=True)
class BucketRange:
    """The buckets from number `first` to `last`, both included, in all partitions."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True)
class PartialProgress:
    """An interrupted base rewrite, whose finished parts are on the branch `branch` of the base table.

    It merges up to the change table's snapshot `end`; the bucket ranges `done` are finished.
    """

    branch: str
    end: int
    done: frozenset[BucketRange]


@dataclass(frozen=True)
class RewriteBase:
    """Step: rewrite a whole base table, and merge the changes after `start` and up to `end` into it.

    The base is read once, without a shuffle of its rows: they are joined with their changes inside each bucket. Each
    bucket range is one commit; several ranges are committed to a branch. The branch becomes the table if the table's
    newest snapshot still is `expected`. `meeting` is how rows and changes are joined: with `hash`, changes are held in
    memory; with `sort`, they are sorted together with the base. `transforms` are those of the files' spec, the bucket
    last. `order` are the columns by which rows are sorted inside a bucket; empty if they are not sorted. Ranges in
    `done` are on the branch already. `bytes` are those of the base, which are read and written once. `waste` are the
    bytes of the changes, which each reader has to merge until then.
    """

    table: TableName
    expected: int
    start: Version
    end: Version
    commits: int
    rows: int
    bytes: int
    waste: int
    spec: int
    transforms: tuple[Transform, ...]
    ranges: tuple[BucketRange, ...]
    done: tuple[BucketRange, ...]
    meeting: Meeting
    order: tuple[str, ...]
    reason: str

    @property
    def branch(self) -> str:
        """Name of the branch of this rewrite; a process that continues the rewrite computes the same name."""
        return format_rewrite_branch(self.expected, self.end.snapshot)

    @property
    def remaining(self) -> tuple[BucketRange, ...]:
        return tuple(part for part in self.ranges if part not in self.done)


def format_rewrite_branch(expected: int, end: int) -> str:
    """Returns the name of the branch for a base rewrite.

    `expected` is the base table's snapshot, and `end` the change table's snapshot up to which changes are merged.
    """
    return f"{BASE_REWRITE_PREFIX}{expected}_{end}"


def parse_rewrite_branch(branch: str, expected: int) -> int | None:
    """Parses the change table's snapshot up to which a base rewrite merges from the name of its branch.

    Returns None if the branch is not that of a rewrite of the base table at snapshot `expected`.
    """
    start = f"{BASE_REWRITE_PREFIX}{expected}_"
    end = branch.removeprefix(start)
    return int(end) if branch.startswith(start) and end.isdecimal() else None


CompactionStep = MergeUnmerged | RewriteBase | RewriteFiles | ResizeBuckets


@dataclass(frozen=True)
class LeftAlone:
    """A file group that a compaction does not rewrite, with the reason."""

    table: TableName
    node: FileGroup
    reason: str


@dataclass(frozen=True)
class CompactionPlan:
    """Plan of a compaction: its steps in order, and the file groups that it does not rewrite."""

    steps: tuple[CompactionStep, ...]
    left: tuple[LeftAlone, ...]


def describe_compaction(step: CompactionStep) -> str:
    """Describes a compaction step in one line for people."""
    match step:
        case MergeUnmerged(table, commits, rows, size, reason):
            return f"merge {commits} commit(s) of {rows:,} change rows, {size:,} bytes, into {table}: {reason}"
        case RewriteBase():
            again = f", {len(step.done)} of {len(step.ranges)} part(s) done before" if step.done else ""
            return (
                f"write {step.table} anew, {step.bytes:,} bytes, with {step.commits} commit(s) of {step.rows:,} change "
                f"rows merged in{again}: {step.reason}"
            )
        case RewriteFiles(table, _, way, nodes, _, files, size, _, _, _, reason):
            done = f"join {files} small" if way == "join" else f"rewrite {files}"
            return f"{done} files of {table}, {size:,} bytes, in {len(nodes)} node(s): {reason}"
        case ResizeBuckets(table, _, direction, nodes, depth, _, _, _, size, _, reason):
            return f"{direction} {len(nodes)} node(s) of {table}, {size:,} bytes, to {1 << depth} buckets: {reason}"
