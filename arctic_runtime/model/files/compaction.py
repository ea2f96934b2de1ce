"""Data classes for the data files of tables, and for the steps by which compaction rewrites them."""

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
    """Value of one partition transform for all rows of a file, as a text that can be cast to the Spark type `type`.

    `value` is None for null. `type` is empty if no SQL condition can select the rows with this value.
    """

    transform: Transform
    value: str | None
    type: str

    def __str__(self) -> str:
        return f"{self.transform} = {'null' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """Size of a data file: it has `rows` rows, of which `deleted` are marked as deleted.

    `bytes` is the size of the data file itself, without the delete file or deletion vector that marks rows.
    """

    bytes: int
    rows: int
    deleted: int = 0


@dataclass(frozen=True)
class FileGroup:
    """The files of one table in one partition and bucket; all files of the table if it is not partitioned.

    `spec` is the id of their partition spec, and `partition` are the values of its transforms. In a base table, a file
    group is a hash node (see `hash_tree`) of one partition.
    """

    spec: int
    partition: tuple[PartitionValue, ...]
    files: tuple[DataFile, ...]

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def deleted_share(self) -> float:
        """Share of the rows that are marked as deleted, from 0 to 1."""
        return sum(file.deleted for file in self.files) / max(1, sum(file.rows for file in self.files))

    def __str__(self) -> str:
        return ", ".join(map(str, self.partition)) or "all rows"


GroupId = tuple[TableName, int, tuple[PartitionValue, ...]]
"""Identifies a file group across snapshots: its table, the id of its partition spec, and its partition values."""


@dataclass(frozen=True)
class TableFiles:
    """The files of a table at one snapshot, as `file_groups`, and the settings for new files.

    New files have `target_bytes` and the partition spec with the id `spec`, which consists of `transforms`. `progress`
    are base rewrites of the table that were interrupted. `finished_groups` are file groups that need no rewrite,
    because a job has just written them.
    """

    table: TableName
    snapshot: int
    file_groups: tuple[FileGroup, ...]
    target_bytes: int
    spec: int = 0
    transforms: tuple[Transform, ...] = ()
    progress: tuple[PartialProgress, ...] = ()
    finished_groups: frozenset[GroupId] = frozenset()

    def identify_group(self, node: FileGroup) -> GroupId:
        return self.table, node.spec, node.partition

    def has_finished(self, nodes: Iterable[FileGroup]) -> bool:
        """Whether all `nodes` are in `finished_groups`, so that they need no rewrite."""
        return bool(self.finished_groups) and all(self.identify_group(node) in self.finished_groups for node in nodes)


@dataclass(frozen=True)
class Specs:
    """Partition specs of a table: the transforms of each by its id, and the id `default` of the spec for new files."""

    default: int
    transforms: Mapping[int, tuple[Transform, ...]]


@dataclass(frozen=True)
class FileTotals:
    """Totals of a table from the summaries of its snapshots."""

    files: int
    """Number of current data files."""

    deleted: int
    """Number of rows in them that are marked as deleted."""

    appends: int = 0
    """Number of commits that added rows since files were last rewritten; expired ones don't count."""

    bytes: int = 0
    """Bytes of the current data files."""

    added_bytes: int = 0
    """Bytes that the commits counted by `appends` added."""


@dataclass(frozen=True)
class MergeUnmerged:
    """Step: merge all unmerged change rows into the base table.

    `commits`, `rows` and `bytes` are those of the change rows.
    """

    table: TableName
    commits: int
    rows: int
    bytes: int
    reason: str


@dataclass(frozen=True)
class RewriteFiles:
    """Step: rewrite files of some file groups in one commit, if the table's newest snapshot still is `expected`."""

    table: TableName
    expected: int
    """Snapshot id that the plan was made for; if the table has a newer one, nothing is committed."""

    way: Way
    """With `join`, only files below `small_bytes` are rewritten; with `sort`, all files, with sorted rows."""

    nodes: tuple[FileGroup, ...]
    """The file groups with the files."""

    whole: bool
    """True if `nodes` are all file groups of the table."""

    files: int
    """Number of files to be rewritten."""

    bytes: int
    """Bytes of the files to be rewritten."""

    waste: int
    """Cost of the present files for each reader, in bytes that it would not have to read after the rewrite.

    Each file that a reader opens counts as a number of bytes.
    """

    small_bytes: int
    """Size below which a file counts as small."""

    target_bytes: int
    """Size of new files."""

    reason: str
    """Text for users."""

    spec: int | None = None
    """Id of the partition spec of new files; None for the table's default."""

    buckets: tuple[int, ...] = ()
    """All bucket counts in use in the table, which tell its file groups apart."""


@dataclass(frozen=True)
class ResizeBuckets:
    """Step: split or merge buckets in one commit, if the table's newest snapshot still is `expected`.

    The rows of the buckets are rewritten, sorted and without deleted rows. Fields without a description are as in
    `RewriteFiles`.
    """

    table: TableName
    expected: int
    direction: Direction
    """Whether buckets are split or merged."""

    nodes: tuple[FileGroup, ...]
    """The buckets that are rewritten."""

    depth: int
    """Depth in the hash tree of the new buckets: there are 2^depth buckets if all have this depth."""

    default_depth: int
    """Depth in the hash tree to which later writes add rows."""

    whole: bool
    files: int
    bytes: int
    target_bytes: int
    reason: str
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, order=True)
class BucketRange:
    """Buckets from number `first` to `last`, both included, in all partitions of a table."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@dataclass(frozen=True)
class PartialProgress:
    """An interrupted base rewrite, whose finished parts are on the branch `branch` of the base table.

    The rewrite merges change rows up to the change table's snapshot `end`; the bucket ranges `done` are finished.
    """

    branch: str
    end: int
    done: frozenset[BucketRange]


@dataclass(frozen=True)
class RewriteBase:
    """Step: rewrite a whole base table, and merge the change rows after `start` and up to `end` into it.

    The base is read once, without a shuffle: its rows are joined with their change rows inside each bucket. Each range
    of buckets is one commit. Several ranges are committed to a branch of their own, which is then published as the
    table.
    """

    table: TableName
    expected: int
    """Snapshot id that the plan was made for; if the table has a newer one, the result is not published."""

    start: Version
    """Version of the change table up to which the base contains the changes."""

    end: Version
    """Version of the change table up to which the result contains the changes."""

    commits: int
    """Number of commits with the change rows."""

    rows: int
    """Number of change rows."""

    bytes: int
    """Bytes of the base."""

    waste: int
    """Bytes of the change rows, which each reader has to merge until the rewrite is done."""

    spec: int
    """Id of the partition spec of the files."""

    transforms: tuple[Transform, ...]
    """Transforms of the partition spec, the bucket last."""

    ranges: tuple[BucketRange, ...]
    """Ranges of buckets, each of which is one commit."""

    done: tuple[BucketRange, ...]
    """Ranges that an earlier attempt has committed to the branch already."""

    meeting: Meeting
    """Method of the join: `hash` holds change rows in memory; `sort` sorts them together with the base."""

    order: tuple[str, ...]
    """Columns by which rows are sorted inside a bucket; empty if they are not sorted."""

    reason: str
    """Text for users."""

    @property
    def branch(self) -> str:
        """Name of the branch of this rewrite; a process that continues the rewrite computes the same name."""
        return format_rewrite_branch(self.expected, self.end.snapshot)

    @property
    def remaining(self) -> tuple[BucketRange, ...]:
        return tuple(part for part in self.ranges if part not in self.done)


def format_rewrite_branch(expected: int, end: int) -> str:
    """Returns the name of the branch of a base rewrite.

    `expected` is the base table's snapshot, and `end` the change table's snapshot up to which change rows are merged.
    """
    return f"{BASE_REWRITE_PREFIX}{expected}_{end}"


def parse_rewrite_branch(branch: str, expected: int) -> int | None:
    """Parses the name of a base rewrite's branch; returns the change table's snapshot up to which the rewrite merges.

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
    """Describes a compaction step in one line for users."""
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
