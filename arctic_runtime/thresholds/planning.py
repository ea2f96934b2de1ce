"""Weights for planning refreshes, merges, compaction and expiry."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.thresholds.units import GIB, MIB


@dataclass(frozen=True)
class CostThresholds:
    """Prices of a refresh, and when a full refresh is chosen over an incremental one."""

    run_seconds: float = 0.75
    """Fixed cost of any run that commits."""

    scan_seconds: float = 0.25
    """Fixed cost of each table scan: planning a stage and starting its tasks."""

    full_row_seconds: float = 1.5e-7
    """Cost of each row that a full refresh reads, with all work done on it."""

    incremental_row_seconds: float = 8e-8
    """Cost of each row that an incremental refresh reads; lower, since most rows are only filtered out."""

    change_row_seconds: float = 1.5e-6
    """Extra cost of each change row: it has an image before and after, and its results are written once more."""

    repeated_change_row_seconds: float = 5e-7
    """Extra cost of each further read of a change row."""

    merged_change_row_seconds: float = 3e-6
    """Extra cost of each change row of a window with several commits, whose rows are combined by key."""

    extra_scans: int = 10
    """An incremental plan with more scans than a full refresh plus these is never worth it."""

    small_table_saving_seconds: float = 0.5
    """For small tables a full refresh is chosen only if it saves more than this, and an earlier run has shown it."""

    untried_ratio: float = 1.2
    """Incremental maintenance that never ran is tried if its estimate is at most this multiple of a full refresh's."""

    correction_decay: float = 0.98
    """Factor on the correction of an estimate for each run that chose the other way, so that it is tried again."""

    correction_limit: float = 50.0
    """The largest factor by which measured runs may correct an estimate: clocks can differ."""


@dataclass(frozen=True)
class IncrementalThresholds:
    """Limits of incremental maintenance, and choice among its plans."""

    changed_share: float = 0.3
    """A larger share of changed rows in an upstream means a full refresh."""

    always_incremental_rows: int = 10_000
    """Up to this many changed rows never mean a full refresh by their share."""

    large_source_rows: int = 1_000_000
    """A query that reads fewer rows is small: it does not matter how often they are read."""

    state_groups: int = 100_000
    """Aggregate state of more groups is not kept: each run rewrites all of it."""

    compared_groups: int = 10_000
    """Up to this many groups all groups are compared, instead of those whose aggregate state changed."""

    paired_table_rows: int = 1_000_000
    """A table with more rows is not read twice to pair the old and the new join partners of a changed row."""

    repeated_read_rows: int = 10_000_000
    """When the terms of a plan read more rows of one source again, the rows that all need are read once."""

    unmerged_table_rows: int = 3_000_000
    """For a larger table with unmerged changes, needed rows are filtered before the changes are overlaid."""

    reducer_row_ratio: int = 3
    """A semi-join reducer filters changes if their table has at least this multiple of the reducer's rows."""

    compared_version_rows: int = 1_000_000
    """Two versions of a plain Iceberg table with more rows are not compared to find its changes."""

    affected_share: float = 0.5
    """A larger share of affected rows in a large table means a full refresh."""

    single_task_rows: int = 100_000
    """Up to this many rows are compared in one task: moving them between tasks costs more."""

    cached_change_rows: int = 100_000
    """More change rows that are read several times are cached; fewer are read from storage each time."""

    reducer_values: int = 2_000_000
    """Up to this many values of a semi-join reducer are broadcast to every executor."""

    plan_scans: int = 500
    """An incremental plan with more scans is refused as too complex."""


@dataclass(frozen=True)
class JoinThresholds:
    """Choice of the broadcast side of a join."""

    broadcast_rows: int = 2_000_000
    """The most rows of a side that is broadcast."""

    broadcast_bytes: int = 32_000_000
    """The most bytes of a side that is broadcast, as stored; it takes several times as much in memory."""

    shuffled_rows: int = 1_000_000
    """Broadcasting pays only if the other side has more rows than this; fewer are as well shuffled."""

    unknown_value_bytes: float = 16.0
    """The stored size of a value when no commit tells it."""


@dataclass(frozen=True)
class PruningThresholds:
    """Lookup of keys in a table: file pruning, bucket pruning, broadcasts."""

    in_list_values: int = 200
    """Iceberg prunes files by IN-lists of up to this many values."""

    scanned_table_rows: int = 1_000_000
    """A table with no more rows is scanned without collecting key ranges: that costs as much as the scan."""

    scanned_table_ratio: int = 4
    """So is a table with at most this multiple of the number of keys."""

    broadcast_keys: int = 2_000_000
    """Up to this many keys, some 100 MB, are broadcast; more are moved to the buckets of their rows.

    Measured on 10 million rows in buckets with 1 million keys: broadcast 3.2 s, keys moved to buckets 4.1 s, both
    sides shuffled by hash 6.8 s.
    """

    bucket_pruning_keys: int = 10_000
    """More keys hit every bucket, and Spark needs a second for each million of them to find that out."""


@dataclass(frozen=True)
class MergeThresholds:
    """Times at which unmerged changes are merged into a base."""

    unmerged_share: float = 0.25
    """Unmerged change rows of an `on_read` table, as a share of its base, from which on they are merged."""

    unmerged_commits: int = 50
    """Unmerged commits from which on they are merged: each is at least one file to open."""

    merged_rows_per_second: int = 500_000
    """Rows of a base that a merge passes in a second."""

    longest_wait_factor: float = 4.0
    """The most by which the two limits above grow while commits arrive faster than merges keep up with."""

    overwritten_base_rows: int = 100_000
    """An unpartitioned base with no more rows is overwritten: one small commit, where MERGE takes two."""

    settling_rounds: int = 20
    """Rounds of steps after which a base and view that did not converge with their change table are an error."""


@dataclass(frozen=True)
class CompactionThresholds:
    """Costs and savings of compaction, and the division of its work into commits."""

    small_file_bytes: int = 16 * MIB
    """Smaller files are worth joining."""

    open_file_bytes: int = 4 * MIB
    """Opening a file costs a reader as much as reading this many bytes; Spark counts the same."""

    commit_bytes: int = 64 * MIB
    """Fixed cost of a commit: automatic compaction must save readers at least this many bytes."""

    group_bytes: int = 1 * GIB
    """The most bytes that one commit rewrites; finished commits stay when a process dies."""

    group_nodes: int = 50
    """The most file groups that one commit rewrites."""

    conflicts: int = 5
    """Lost commit races after which a compaction gives up."""

    conflict_wait_seconds: float = 0.5
    """Pause after a lost commit race."""


@dataclass(frozen=True)
class BaseRewriteThresholds:
    """Conditions for merging changes by rewriting the whole base, and the parts of the rewrite."""

    changed_share: float = 0.05
    """Change rows, as a share of the base's rows, from which on a rewrite costs less than delete and append."""

    changed_rows_per_bucket: int = 3
    """From this many change rows per bucket on, nearly every bucket has some: full compaction rewrites them all."""

    part_bytes: int = 1 * GIB
    """The least bytes of one part of a rewrite."""

    parts: int = 16
    """The most parts of a rewrite: each part reads all changes."""

    task_bytes: int = 1 * GIB
    """A base with a larger bucket is merged by delete and append: one bucket is one task."""

    hashed_change_bytes: int = 32 * MIB
    """Changes per bucket, as stored, that a task holds in memory; more are sorted, which can spill."""


@dataclass(frozen=True)
class BucketThresholds:
    """Number of buckets of a table, and limits at which buckets split and merge."""

    small_bucket_bytes: int = 16 * MIB
    """Buckets of a new table have at least this size, unless that is less than one per core."""

    level_split_share: float = 0.75
    """If the mean bucket of a level is above this share of the limit, the first split takes the whole level."""

    merged_limit_parts: int = 16
    """Buckets merge only if the result has at most one such part of the limit, so that it does not split soon."""


@dataclass(frozen=True)
class ChangelogThresholds:
    """Changelog compaction: superseded change rows go after `retention: changes`."""

    kept_ages: int = 8
    """Commit times kept per span of `retention: changes`, of commits whose snapshots expired."""

    compactions: int = 4
    """Automatic changelog compactions per span of `retention: changes`: each reads the change table once."""


@dataclass(frozen=True)
class ExpiryThresholds:
    """Conditions for the expiry of snapshots, tags, branches and orphan files."""

    snapshots: int = 20
    """Automatic expiry waits for this many snapshots: a call takes a second, however few it expires."""

    snapshot_share: float = 0.05
    """It also waits for this share of all snapshots: a call reads and writes metadata of all of them."""

    view_tag_seconds: int = 86_400
    """A tag for a view is kept this long after its snapshot was replaced: the view may be about to move there."""

    abandoned_branch_seconds: int = 86_400
    """A branch that main has left behind is kept this long: a slow writer may still commit to it."""

    deleted_files: int = 1_000
    """Files of a landing table that one commit deletes at most; each is named in its statement."""

    orphan_seconds: int = 86_400
    """Younger files may belong to writes in progress and are never taken for orphans."""


@dataclass(frozen=True)
class LayoutThresholds:
    """Sizes of new files."""

    row_group_share: int = 64
    """A row group, the least that a lookup reads of a file, is one such part of the table, within the two bounds."""

    least_row_group_bytes: int = 2 * MIB
    """Scans are no slower from this size of row groups on."""

    most_row_group_bytes: int = 16 * MIB
    """Larger row groups help no reader."""
