"""Thresholds and prices for planning refreshes, merges, compaction and expiry."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.thresholds.units import GIB, MIB


@dataclass(frozen=True)
class CostThresholds:
    """Prices from which the costs of a full and of an incremental refresh are estimated, to choose the cheaper one."""

    run_seconds: float = 0.75
    """Fixed cost of any run that commits."""

    scan_seconds: float = 0.25
    """Fixed cost of each table scan, for planning a stage and starting its tasks."""

    full_row_seconds: float = 1.5e-7
    """Cost of each row that a full refresh reads, including all work on the row."""

    incremental_row_seconds: float = 8e-8
    """Cost of each row that an incremental refresh reads; lower, since most rows are only filtered out."""

    change_row_seconds: float = 1.5e-6
    """Extra cost of each change row: it has an old and a new row, and its results are written once more."""

    repeated_change_row_seconds: float = 5e-7
    """Extra cost of each further read of a change row."""

    merged_change_row_seconds: float = 3e-6
    """Extra cost of each change row of a window with several commits, whose rows are combined by key."""

    extra_scans: int = 10
    """An incremental plan with over this many scans more than a full refresh that is estimated cheaper is not tried."""

    small_table_saving_seconds: float = 0.5
    """For small tables a full refresh is chosen only if it saves more than this and a run was incremental before."""

    untried_ratio: float = 1.2
    """Incremental maintenance that never ran is tried if its estimate is at most this multiple of a full refresh's."""

    correction_decay: float = 0.98
    """Factor by which the correction of an estimate fades with each run that chose the other kind of refresh.

    So a kind whose estimate was corrected upwards is tried again.
    """

    correction_limit: float = 50.0
    """The largest factor by which measured runs may correct an estimate, since clocks can differ."""


@dataclass(frozen=True)
class IncrementalThresholds:
    """Limits of incremental maintenance, and of the choice among its plans."""

    changed_share: float = 0.3
    """If a larger share of an upstream's rows has changed, a full refresh is chosen."""

    always_incremental_rows: int = 10_000
    """Up to this many changed rows, their share is no reason for a full refresh."""

    large_source_rows: int = 1_000_000
    """A query that reads fewer rows counts as small, so that it does not matter how often they are read."""

    state_groups: int = 100_000
    """An aggregate state with more groups is not kept, since each run would rewrite all of it."""

    compared_groups: int = 10_000
    """Up to this many groups, all groups are compared instead of only those whose aggregate state changed."""

    paired_table_rows: int = 1_000_000
    """A table with more rows is not read twice to pair the old and the new join partners of a changed row."""

    repeated_read_rows: int = 10_000_000
    """If the terms of a plan repeatedly read more rows of one source in sum, the rows that all need are read once."""

    unmerged_table_rows: int = 3_000_000
    """In a table with more rows and with unmerged changes, the needed rows are filtered before changes are applied."""

    reducer_row_ratio: int = 3
    """A semi-join reducer filters changes if these come from a table with at least this multiple of its rows."""

    compared_version_rows: int = 1_000_000
    """A plain Iceberg table with more rows is not compared with its earlier version to find its changes."""

    affected_share: float = 0.5
    """If a larger share of the rows of a large table is affected, a full refresh is chosen."""

    single_task_rows: int = 100_000
    """Up to this many rows are compared in one task, since moving them between tasks would cost more."""

    cached_change_rows: int = 100_000
    """If more change rows are read several times, they are cached; fewer are read from storage each time."""

    reducer_values: int = 2_000_000
    """Up to this many values of a semi-join reducer are broadcast to every executor."""

    plan_scans: int = 500
    """An incremental plan with more scans is refused as too complex."""


@dataclass(frozen=True)
class JoinThresholds:
    """Limits for the choice of the broadcast side of a join."""

    broadcast_rows: int = 2_000_000
    """The most rows of a side that is broadcast."""

    broadcast_bytes: int = 32_000_000
    """The most bytes of a side that is broadcast, as stored; it takes several times as much in memory."""

    shuffled_rows: int = 1_000_000
    """Broadcasting pays only if the other side has more rows than this; shuffling fewer costs no more."""

    unknown_value_bytes: float = 16.0
    """Assumed stored size of a value if it can't be computed from any commit."""


@dataclass(frozen=True)
class PruningThresholds:
    """Limits for looking up keys in a table, by skipping files and buckets, and by broadcasts."""

    in_list_values: int = 200
    """Iceberg prunes files by IN-lists of up to this many values."""

    scanned_table_rows: int = 1_000_000
    """A table with at most this many rows is scanned without collecting key ranges, which would cost as much."""

    scanned_table_ratio: int = 4
    """A table whose rows are at most this multiple of the keys is scanned without collecting key ranges too."""

    broadcast_keys: int = 2_000_000
    """Up to this many keys, some 100 MB, are broadcast; more are moved to the buckets of their rows.

    Measured on 10 million rows in buckets with 1 million keys: broadcast 3.2 s, keys moved to buckets 4.1 s, both
    sides shuffled by hash 6.8 s.
    """

    bucket_pruning_keys: int = 10_000
    """Buckets are not pruned for more keys: every bucket has some, and Spark takes a second per million to see it."""


@dataclass(frozen=True)
class MergeThresholds:
    """Limits from which on unmerged changes are merged into a model's base table."""

    unmerged_share: float = 0.25
    """Share of an `on_read` table's base rows above which the unmerged change rows are merged."""

    unmerged_commits: int = 50
    """Number of unmerged commits from which on they are merged; readers open at least one file for each."""

    merged_rows_per_second: int = 500_000
    """Rows of a base that a merge processes in a second."""

    longest_wait_factor: float = 4.0
    """The largest factor on the two limits above, while commits arrive faster than merges can process them."""

    overwritten_base_rows: int = 100_000
    """An unpartitioned base with at most this many rows is overwritten in one small commit; MERGE takes two."""

    settling_rounds: int = 20
    """Rounds of steps after which it is an error if base and view still do not agree with their change table."""


@dataclass(frozen=True)
class CompactionThresholds:
    """Costs and savings of compaction, and limits by which its work is divided into commits."""

    small_file_bytes: int = 16 * MIB
    """Files smaller than this are worth joining."""

    open_file_bytes: int = 4 * MIB
    """Opening a file costs a reader as much as reading this many bytes; Spark counts the same."""

    commit_bytes: int = 64 * MIB
    """Fixed cost of a commit: automatic compaction must save readers at least this many bytes."""

    group_bytes: int = 1 * GIB
    """The most bytes that one commit rewrites; finished commits remain if the process dies."""

    group_nodes: int = 50
    """The most file groups that one commit rewrites."""

    conflicts: int = 5
    """Number of lost commit races after which a compaction gives up."""

    conflict_wait_seconds: float = 0.5
    """Pause after a lost commit race."""


@dataclass(frozen=True)
class BaseRewriteThresholds:
    """Conditions for merging changes by a rewrite of the whole base table, and sizes of the parts of the rewrite."""

    changed_share: float = 0.05
    """Ratio of change rows to the base's rows from which on a rewrite costs less than delete and append."""

    changed_rows_per_bucket: int = 3
    """Change rows per bucket from which on nearly every bucket has some, so that full compaction rewrites all."""

    part_bytes: int = 1 * GIB
    """The smallest size of one part of a rewrite."""

    parts: int = 16
    """The most parts of a rewrite; each part reads all changes."""

    task_bytes: int = 1 * GIB
    """A base with a larger bucket is merged by delete and append, since one task would rewrite the bucket."""

    hashed_change_bytes: int = 32 * MIB
    """The most stored bytes of changes per bucket that a task holds in memory; more are sorted, which can spill."""


@dataclass(frozen=True)
class BucketThresholds:
    """Sizes that decide how many buckets a new table gets, and when buckets are split or merged."""

    small_bucket_bytes: int = 16 * MIB
    """Buckets of a new table have at least this size, unless that is less than one per core."""

    level_split_share: float = 0.75
    """If the mean bucket of a level is above this share of the size limit, the first split splits the whole level."""

    merged_limit_parts: int = 16
    """Buckets merge only if the result is at most the size limit divided by this, so that it does not split soon."""


@dataclass(frozen=True)
class ChangelogThresholds:
    """Limits of changelog compaction, which deletes superseded change rows older than `retention: changes`."""

    kept_ages: int = 8
    """Number of commit times recorded per span of `retention: changes`, for commits whose snapshots expired."""

    compactions: int = 4
    """Number of automatic changelog compactions per span of `retention: changes`; each reads the change table once."""


@dataclass(frozen=True)
class ExpiryThresholds:
    """Conditions for the expiry of snapshots, tags, branches and orphan files."""

    snapshots: int = 20
    """Automatic expiry waits until it can expire this many snapshots; a call takes a second, even for a few."""

    snapshot_share: float = 0.05
    """Automatic expiry also waits for this share of all snapshots, since a call reads and writes metadata of all."""

    view_tag_seconds: int = 86_400
    """A tag for a view is kept this long after its snapshot was replaced, since the view may be about to pin it."""

    abandoned_branch_seconds: int = 86_400
    """A branch that can't be published any more is kept this long, since a slow writer may still commit to it."""

    deleted_files: int = 1_000
    """The most files of a landing table that one commit deletes; its statement names each of them."""

    orphan_seconds: int = 86_400
    """Younger files are never deleted as orphans, since they may belong to writes in progress."""


@dataclass(frozen=True)
class LayoutThresholds:
    """Sizes of row groups in new files."""

    row_group_share: int = 64
    """A row group has the size of the table divided by this, within the two bounds; a lookup reads at least one."""

    least_row_group_bytes: int = 2 * MIB
    """The smallest size of row groups; from this size on scans are no slower than with larger ones."""

    most_row_group_bytes: int = 16 * MIB
    """The largest size of row groups; no reader is faster with larger ones."""
