"""Thresholds and prices for planning refreshes, merges, compaction and expiry."""

from __future__ import annotations

from dataclasses import dataclass

from arctic_runtime.thresholds.engine import GIB, MIB


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
    """Cost of each row that an incremental refresh reads; it is lower because most rows are only filtered out."""

    change_row_seconds: float = 1.5e-6
    """Extra cost of each change row that an incremental refresh reads, which gives up to two rows, old and new."""

    repeated_change_row_seconds: float = 5e-7
    """Extra cost of each further read of a change row, if several scans of a plan read it."""

    merged_change_row_seconds: float = 3e-6
    """Extra cost of each change row of a window with several commits, whose change rows are combined by key."""

    slice_share: float = 0.1
    """Share of a table's rows that a scan reads which looks for rows between two times."""

    extra_scans: int = 10
    """Surplus of scans above which an incremental plan is not tried if a full refresh has the lower estimate."""

    small_table_saving_seconds: float = 0.5
    """Least saving for which a full refresh is chosen if few rows are read; a run must have been incremental before."""

    untried_ratio: float = 1.2
    """An incremental refresh that was never tried is tried if its estimate is at most this multiple of a full one's."""

    correction_decay: float = 0.98
    """Factor by which the correction of a mode's estimate is multiplied for each later run in the other mode.

    After many such runs, a mode whose estimate was corrected upwards is tried again.
    """

    correction_limit: float = 50.0
    """Maximum factor by which measured runs may correct an estimate, because clocks can differ."""


@dataclass(frozen=True)
class PreviewThresholds:
    """Assumptions of `arctic preview` about runs that it can't know from past ones."""

    judged_runs: int = 10
    """Number of past runs of a model by whose estimates the next estimate is judged."""

    run_bytes: int = 600_000
    """Bytes that any run reads besides data: metadata of its tables. Fitted to runs on tables with a few versions."""

    change_row_images: float = 5.0
    """Bytes of a change row, as a multiple of those of a row of the table, if no run has written any.

    It has the row after and the row before. Scattered rows compress less well than a whole table: about 5 times for
    tables of six and eight columns, of which 1% or all rows had changed, and much more for one of three columns.
    """

    changed_row_share: float = 0.5
    """Bytes of a row that is one of few changed ones, as a share of its change row, which has two of them."""


@dataclass(frozen=True)
class IncrementalThresholds:
    """Limits for the decision between an incremental and a full refresh, and for the plan of an incremental one.

    A full refresh computes the whole query. Limits because of which it is chosen apply only to a model with `refresh:
    auto`.
    """

    changed_share: float = 0.3
    """Share of an upstream table's rows; if more have changed since the last run, a full refresh is chosen."""

    always_incremental_rows: int = 10_000
    """Number of changed rows of an upstream up to which `changed_share` does not apply.

    Above it, changes are also filtered early by the keys of much smaller joined tables (see `reducer_row_ratio`).
    """

    large_source_rows: int = 1_000_000
    """Number of rows that a query reads, of all its sources, above which the query counts as expensive.

    Up to it, no sums and counts per group are stored (aggregate state), `affected_share` does not apply, and a cheaper
    full refresh is chosen only under stricter conditions.
    """

    state_groups: int = 100_000
    """Number of groups above which no aggregate state (stored sums and counts per group) is kept.

    The limit exists because each run rewrites the state of all groups.
    """

    compared_groups: int = 10_000
    """Number of result rows up to which a run compares all groups of an aggregate with the stored ones.

    Above it, only groups whose aggregate state has changed are compared, for which they have to be selected first.
    """

    paired_table_rows: int = 1_000_000
    """Number of rows of a joined table above which the old and the new row of a change are not joined as a pair.

    Pairs need two reads of the joined table: one for the partners of the old rows, and one for those of the new rows.
    """

    repeated_read_rows: int = 10_000_000
    """Number of rows above which repeated reads of a source in one plan are replaced by a single one.

    The number is that of the source's rows, times its reads besides the first. The single read, a semi-join reducer,
    keeps only rows that the plan can need.
    """

    unmerged_table_rows: int = 3_000_000
    """Number of rows of a source above which it is read through a semi-join reducer if it has unmerged changes.

    The reducer selects the needed rows before changes that are not merged into the source's files are applied to them.
    """

    reducer_row_ratio: int = 3
    """Number of times by which a table must have more rows than another one for a runtime filter from that one.

    The filter drops changed rows of the larger table that have no join partner in the smaller table.
    """

    compared_version_rows: int = 1_000_000
    """Number of rows of an upstream above which a full refresh is chosen if files of it were rewritten.

    This concerns tables that are not arctic models: their changes then have to be found by a comparison of two
    versions.
    """

    affected_share: float = 0.5
    """Share of the table's rows above which a full refresh is chosen if so many of them may differ after the changes.
    """

    single_task_rows: int = 100_000
    """Number of rows of the table and all its sources together up to which one Spark task compares old and new rows.

    Above it, rows are shuffled to several tasks, which costs more for few rows.
    """

    cached_change_rows: int = 100_000
    """Number of changed rows of a source above which they are cached if a plan reads them several times."""

    reducer_values: int = 2_000_000
    """Number of lookup values of a semi-join reducer up to which they are broadcast to every executor.

    Above it, the reducer reads all rows of the source that meet its condition.
    """

    star_join_changes: int = 3
    """Number of changed tables of a star join from which one plan reads its facts once for all of their changes.

    The general rule of joins adds a term, which joins all tables, for each changed one.
    """

    plan_scans: int = 500
    """Number of table scans in an incremental plan above which the plan is refused as too complex."""


@dataclass(frozen=True)
class JoinThresholds:
    """Limits for the choice of the broadcast side of a join."""

    broadcast_rows: int = 2_000_000
    """Maximum rows of a side that is broadcast."""

    broadcast_bytes: int = 32_000_000
    """Maximum bytes of a side that is broadcast, as stored in files; it takes several times as much in memory."""

    shuffled_rows: int = 1_000_000
    """Rows of the other side above which a broadcast is worthwhile; a shuffle of fewer rows costs no more."""

    pruned_joins: int = 2
    """Maximum joins of an incremental plan for which Spark's dynamic pruning is on.

    The time that Spark plans for it grows exponentially with them.
    """

    unknown_value_bytes: float = 16.0
    """Assumed stored bytes of a value, one column of one row, if they can't be computed from any commit."""


@dataclass(frozen=True)
class PruningThresholds:
    """Limits for lookups of keys in a table, which skip files and buckets, and broadcast the keys."""

    in_list_values: int = 200
    """Maximum length of an IN-list by which Iceberg prunes files."""

    scanned_table_rows: int = 1_000_000
    """Maximum rows of a table that is scanned without key ranges, whose collection would cost as much as the scan."""

    scanned_table_ratio: int = 4
    """Maximum ratio of a table's rows to the keys for which it is scanned without key ranges."""

    broadcast_keys: int = 2_000_000
    """Maximum number of keys, some 100 MB, that are broadcast; more are shuffled to the buckets of their rows.

    Measured on 10 million rows in buckets with 1 million keys: broadcast 3.2 s, keys shuffled to buckets 4.1 s, both
    sides shuffled by hash 6.8 s.
    """

    bucket_pruning_keys: int = 10_000
    """Maximum number of keys for which buckets are pruned.

    More keys are in every bucket anyway, and Spark takes a second per million keys to determine their buckets.
    """


@dataclass(frozen=True)
class MergeThresholds:
    """Limits from which on unmerged change rows are merged into a model's base table."""

    unmerged_share: float = 0.25
    """Ratio of unmerged change rows to rows of the base above which they are merged, for a table merged on read."""

    unmerged_commits: int = 50
    """Number of unmerged commits from which on they are merged, because readers open at least one file for each.

    A base that takes little time to merge is merged after fewer commits.
    """

    merge_seconds: float = 0.3
    """Assumed seconds of a merge besides those of its rows, and of a merge that overwrites a small base."""

    unmerged_read_seconds: float = 0.15
    """Assumed seconds by which unmerged rows delay a reader, whatever the number of their commits."""

    merged_rows_per_second: int = 500_000
    """Assumed number of a base's rows that a merge processes in a second."""

    longest_wait_factor: float = 4.0
    """Maximum factor on `unmerged_share` and `unmerged_commits` if commits follow faster than merges can be done."""

    overwritten_share: float = 0.8
    """Ratio of replaced rows to rows of the base above which a merge overwrites a base of any size in one commit."""

    overwritten_base_rows: int = 100_000
    """Maximum rows of an unpartitioned base that a merge always overwrites in one commit; other merges take two."""

    overwritten_base_values: int = 1_500_000
    """Maximum values (rows times columns) of a larger base that is overwritten too.

    Measured: two cores write them in the time in which a delete and an append of few rows are planned.
    """

    settling_rounds: int = 20
    """Rounds of reconciliation after which base and view must agree with the change table; otherwise it is an error."""


@dataclass(frozen=True)
class CompactionThresholds:
    """Costs and savings of compaction, and limits on the work of one commit."""

    small_file_bytes: int = 16 * MIB
    """Size below which files count as small, so that several of them are joined."""

    open_file_bytes: int = 4 * MIB
    """Cost of opening a file, in bytes that could be read instead; Spark assumes the same."""

    commit_bytes: int = 64 * MIB
    """Fixed cost of a commit, in bytes that automatic compaction must at least save each reader."""

    group_bytes: int = 1 * GIB
    """Maximum bytes that one commit rewrites; finished commits are kept if the process dies."""

    group_nodes: int = 50
    """Maximum number of file groups that one commit rewrites."""

    conflicts: int = 5
    """Number of commit conflicts after which a compaction gives up."""

    conflict_wait_seconds: float = 0.5
    """Pause after a commit conflict."""


@dataclass(frozen=True)
class BaseRewriteThresholds:
    """Conditions for a merge of change rows by a rewrite of the whole base table, and sizes of the rewrite's parts."""

    changed_share: float = 0.05
    """Ratio of change rows to the base's rows from which on a base rewrite costs less than an ordinary merge."""

    changed_rows_per_bucket: int = 3
    """Change rows per bucket from which on nearly every bucket has some, so that full compaction rewrites the base."""

    part_bytes: int = 1 * GIB
    """Least size of one part of a base rewrite."""

    parts: int = 16
    """Maximum number of parts of a base rewrite, because each part reads all change rows."""

    task_bytes: int = 1 * GIB
    """Maximum size of a bucket for which a base is rewritten, because one task rewrites a whole bucket."""

    hashed_change_bytes: int = 32 * MIB
    """Maximum stored bytes of change rows per bucket that a task holds in memory; more are sorted, which can spill."""


@dataclass(frozen=True)
class BucketThresholds:
    """Sizes that determine the number of buckets of a new table, and the splits and merges of buckets."""

    small_bucket_bytes: int = 16 * MIB
    """Least size of a new table's buckets if their number is that of the cores; merged buckets are not larger."""

    level_split_share: float = 0.75
    """Share of the size limit above which, if a bucket is split, all buckets of its level are split.

    A level is formed by the buckets of a partition with the same depth in the hash tree; their mean size is compared.
    """

    merged_limit_parts: int = 16
    """Divisor of the size limit for the maximum size of a merged bucket, so that the bucket is not split again soon."""


@dataclass(frozen=True)
class ChangelogThresholds:
    """Limits of changelog compaction, which deletes replaced change rows older than `retention: changes`."""

    kept_ages: int = 8
    """Number of commit times that are stored per period of `retention: changes`, for commits with expired snapshots."""

    compactions: int = 4
    """Number of automatic changelog compactions per period of `retention: changes`; each reads the change table."""


@dataclass(frozen=True)
class ExpiryThresholds:
    """Conditions for the expiry of snapshots, tags, branches and orphan files."""

    snapshots: int = 20
    """Least number of snapshots that automatic expiry expires at once; a call takes a second, even for a few."""

    snapshot_share: float = 0.05
    """Least share of all snapshots that automatic expiry expires; a call reads and writes the metadata of all."""

    view_tag_seconds: int = 86_400
    """Time for which a view's tag is kept after its snapshot was replaced, as a slow run may let the view read it."""

    abandoned_branch_seconds: int = 86_400
    """Time for which a branch is kept that can't be published any more; a slow writer may still commit to it."""

    deleted_files: int = 1_000
    """Maximum number of files of a landing table that one commit deletes; its statement names each of them."""

    noted_use_seconds: int = 86_400
    """Time after its last use from which on a run notes again that it uses a clone or reads another project's table."""

    reader_seconds: int = 7 * 86_400
    """Time after its last noted run for which expiry waits for a model of another project."""

    orphan_seconds: int = 86_400
    """Age below which files are never deleted as orphans, because they may belong to writes in progress."""


@dataclass(frozen=True)
class LayoutThresholds:
    """Sizes of Parquet row groups in new files."""

    row_group_share: int = 64
    """Divisor of the table's size for the size of a row group, of which a lookup reads at least one."""

    least_row_group_bytes: int = 2 * MIB
    """Least size of row groups; from this size on scans are no slower than with larger ones."""

    most_row_group_bytes: int = 16 * MIB
    """Maximum size of row groups; no reader is faster with larger ones."""
