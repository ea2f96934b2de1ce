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
    """Value of one partition transform for all rows of a file, as a text of the Spark type `type`; None for null.

    If the type is empty, no SQL condition can be built that selects these rows.
    """

    transform: Transform
    value: str | None
    type: str

    def __str__(self) -> str:
        return f"{self.transform} = {'null' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file; `deleted` of its `rows` are marked as deleted.

    `bytes` is the size of the file, including the deleted rows, but without the file that marks them.
    """

    bytes: int
    rows: int
    deleted: int = 0


@dataclass(frozen=True)
class FileGroup:
    """The files of one table that share a partition spec and its values; all files of a table without partitions."""

    spec: int
    partition: tuple[PartitionValue, ...]
    files: tuple[DataFile, ...]

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def deleted_share(self) -> float:
        """The part of its stored rows that are deleted."""
        return sum(file.deleted for file in self.files) / max(1, sum(file.rows for file in self.files))

    def __str__(self) -> str:
        return ", ".join(map(str, self.partition)) or "all rows"


Place = tuple[TableName, int, tuple[PartitionValue, ...]]
"""Identifies a node across snapshots: its table, its partition spec and its partition values."""


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one snapshot; `target_bytes` is the target size of the files that are written.

    New files get the partition spec `spec`, which consists of `transforms`. `progress` are rewrites of the table that
    were interrupted. `finished_groups` are nodes that need no rewrite, since a job has just written them.
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
        """Whether a job has just written all of `nodes`."""
        return bool(self.finished_groups) and all(self.locate_group(node) in self.finished_groups for node in nodes)


@dataclass(frozen=True)
class Specs:
    """The transforms of a table's partition specs, by spec id; new files get the spec `default`."""

    default: int
    transforms: Mapping[int, tuple[Transform, ...]]


@dataclass(frozen=True)
class FileTotals:
    """Counts from the summaries of a table's snapshots: the current data files, their bytes, and their deleted rows.

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
    """Merge all unmerged changes into the base."""

    table: TableName
    commits: int
    rows: int
    bytes: int
    reason: str


@dataclass(frozen=True)
class RewriteFiles:
    """Rewrite files of some nodes in one commit, if the table's head still is `expected`.

    The `way` `join` rewrites only the small files; `sort` rewrites all files and sorts their rows. `whole`: `nodes` are
    all nodes of the table. `bytes` are read and written once. `waste` are the bytes that each reader of these nodes
    loses until then; a file to open counts as a number of bytes. Files below `small_bytes` are small; new ones have
    `target_bytes`. New files get the partition spec `spec`; None: the default spec of the table. `buckets` are all
    numbers of buckets in the table, by which the files of these nodes are distinguished from others.
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
    """Move nodes to another `depth` of the hash tree in one commit, if the table's head still is `expected`.

    Their files are rewritten, sorted and without deleted rows. Later writes to any node use `default_depth`. The other
    fields are those of a `RewriteFiles`.
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
    """The nodes with buckets from `first` to `last`, in all partitions."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True)
class PartialProgress:
    """An unfinished merge on a branch of a base.

    It merges up to the change table's snapshot `end`, and has finished the bucket ranges `done`.
    """

    branch: str
    end: int
    done: frozenset[BucketRange]


@dataclass(frozen=True)
class RewriteBase:
    """Rewrite all nodes of a base, and merge the changes after `start` and up to `end` into it.

    The base is read once, without a shuffle of its rows: they are joined with their changes inside each node. Each
    bucket range is one commit; several ranges are committed to a branch. The branch becomes the table if the table's
    head still is `expected`. `meeting` is how rows and changes are joined: with `hash`, changes are held in memory;
    with `sort`, they are sorted together with the base. `transforms` are those of the files' spec, the bucket last.
    `order` are the columns by which rows are sorted inside a node; empty if they are not sorted. Ranges in `done` are
    on the branch already. `bytes` are those of the base, which are read and written once. `waste` are the bytes of the
    changes, which each reader has to merge until then.
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
        """The branch of this rewrite; a process that continues the rewrite computes the same name."""
        return format_rewrite_branch(self.expected, self.end.snapshot)

    @property
    def remaining(self) -> tuple[BucketRange, ...]:
        return tuple(part for part in self.ranges if part not in self.done)


def format_rewrite_branch(expected: int, end: int) -> str:
    """Returns the branch for a rewrite of the base at snapshot `expected` that merges up to change snapshot `end`."""
    return f"{BASE_REWRITE_PREFIX}{expected}_{end}"


def parse_rewrite_branch(branch: str, expected: int) -> int | None:
    """Reads from a branch name the change snapshot up to which the rewrite merges.

    Returns None if the branch is not that of a rewrite of the base at snapshot `expected`.
    """
    start = f"{BASE_REWRITE_PREFIX}{expected}_"
    end = branch.removeprefix(start)
    return int(end) if branch.startswith(start) and end.isdecimal() else None


CompactionStep = MergeUnmerged | RewriteBase | RewriteFiles | ResizeBuckets


@dataclass(frozen=True)
class LeftAlone:
    """A node that is not rewritten, with the reason."""

    table: TableName
    node: FileGroup
    reason: str


@dataclass(frozen=True)
class CompactionPlan:
    """The steps of a compaction in order, and the nodes that are left alone."""

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
