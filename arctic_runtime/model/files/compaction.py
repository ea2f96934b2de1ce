"""Files of tables as they lie, and what can be done to them, as data."""

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
    """Value of one transform for all rows of a file, as a text of the Spark type `type`; None for null.

    Without a type nothing is known that a statement could say of these rows.
    """

    transform: Transform
    value: str | None
    type: str

    def __str__(self) -> str:
        return f"{self.transform} = {'null' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file; `deleted` of its rows are no longer there.

    `bytes` are what is stored, with the deleted rows and without the file that tells which these are.
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
"""What tells a node from one snapshot to the next: its table, its partition spec and that one's values."""


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one snapshot; `target_bytes` is the size at which its writers cut files.

    What is written next comes under the partition spec `spec`, which has these `transforms`. `progress` tells of
    rewrites of the table that have stopped halfway; `finished_groups` need no look, since a job has just written them.
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
        """Whether all of some nodes have just been written."""
        return bool(self.finished_groups) and all(self.locate_group(node) in self.finished_groups for node in nodes)


@dataclass(frozen=True)
class Specs:
    """The partition specs of a table by their number; what is written next comes under `default`."""

    default: int
    transforms: Mapping[int, tuple[Transform, ...]]


@dataclass(frozen=True)
class FileTotals:
    """Counts in the summaries of a table's snapshots: data files now, their bytes, and rows that are deleted in them.

    `appends` are the commits that brought rows since files were rewritten last, as far back as snapshots are kept,
    and `added_bytes` what these brought.
    """

    files: int
    deleted: int
    appends: int = 0
    bytes: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class MergeUnmerged:
    """All changes that are not merged yet come into the base."""

    table: TableName
    commits: int
    rows: int
    bytes: int
    reason: str


@dataclass(frozen=True)
class RewriteFiles:
    """Files of some nodes are rewritten in one commit, if the table's head still is `expected`.

    `join` takes the small files alone; `sort` takes all, and puts their rows in order. `whole` where these are all
    nodes of the table. `bytes` are read and written once; `waste` is what every reader of these nodes pays until
    then, a file to open counted as so many bytes. Files below `small_bytes` are small; new ones have `target_bytes`.
    They come under the partition spec `spec`; None: the one that all that is written comes under. `buckets` are the
    numbers of buckets that files of the table lie in, which distinguish them from the files of other nodes.
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
    """Nodes go to another `depth` of the hash tree, alone and in one commit, if the table's head still is `expected`.

    Their files are rewritten, sorted and without deleted rows. What is written from now on to any node comes to
    lie at `default_depth`. The other fields are those of a `RewriteFiles`.
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
    """Nodes from `first` to `last`, by their buckets and whatever their partitions."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True)
class PartialProgress:
    """A merge that somebody began on a branch of a base: up to which change snapshot, and what nodes it has done."""

    branch: str
    end: int
    done: frozenset[BucketRange]


@dataclass(frozen=True)
class RewriteBase:
    """The changes after `start` and up to `end` come into a base while all of its nodes are rewritten.

    One pass: the base is read once and moved nowhere, its rows meet their changes in their node, and every range of
    nodes is one commit, on a branch where there are several. They become the table if its head still is `expected`.
    Changes are held in memory where they meet by `hash`, sorted with the base where by `sort`. `transforms` are those
    of the files' spec, the bucket last. `order` is what rows are sorted by inside a node, nothing if they stay as
    they come. Ranges in `done` are on the branch already. `bytes` are the base's, which are read and written once;
    `waste` are those of the changes, which every reader lays over it until then.
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
        """One name for one piece of work, so that the process that continues with it finds it."""
        return format_rewrite_branch(self.expected, self.end.snapshot)

    @property
    def remaining(self) -> tuple[BucketRange, ...]:
        return tuple(part for part in self.ranges if part not in self.done)


def format_rewrite_branch(expected: int, end: int) -> str:
    """The branch on which a base at one snapshot is merged to one change snapshot."""
    return f"{BASE_REWRITE_PREFIX}{expected}_{end}"


def parse_rewrite_branch(branch: str, expected: int) -> int | None:
    """The change snapshot that a branch of a base is being merged to; None if it is no such branch of `expected`."""
    start = f"{BASE_REWRITE_PREFIX}{expected}_"
    end = branch.removeprefix(start)
    return int(end) if branch.startswith(start) and end.isdecimal() else None


CompactionStep = MergeUnmerged | RewriteBase | RewriteFiles | ResizeBuckets


@dataclass(frozen=True)
class LeftAlone:
    """A node where nothing is to be done, and why."""

    table: TableName
    node: FileGroup
    reason: str


@dataclass(frozen=True)
class CompactionPlan:
    """Steps of a compaction in order, and the skipped parts."""

    steps: tuple[CompactionStep, ...]
    left: tuple[LeftAlone, ...]


def describe_compaction(step: CompactionStep) -> str:
    """One line for people."""
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
