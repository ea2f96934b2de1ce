"""All thresholds, limits and prices of planning and execution, in one immutable object.

`Thresholds()` holds the values that dbt-arctic ships with. A profile carries one object (`Profile.thresholds`), and
everything below takes it, or the group that it needs, as an argument. Tests pass changed ones (`replace`).

Prices were measured on two cores with local files. Settings that a user has are in a model's configuration, not here.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


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
    """Where incremental maintenance pays, and which of its plans are used."""

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
    """Which side of a join is broadcast."""

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
    """How keys are looked up in a table: file pruning, bucket pruning, broadcasts."""

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
    """When unmerged changes are merged into a base."""

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
    """What compaction costs and saves, and how its work is cut into commits."""

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
    """When changes are merged by rewriting the whole base, and how the rewrite is cut into parts."""

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
    """How many buckets a table gets, and when buckets split and merge."""

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
    """When snapshots, tags, branches and orphan files may go."""

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


@dataclass(frozen=True)
class CommitThresholds:
    """Retries of commits and waits for locks."""

    attempts: int = 5
    """Attempts of a run that starts again after a lost commit race."""

    drop_branch_attempts: int = 5
    """Attempts to drop a branch that is no longer needed."""

    lock_wait_seconds: float = 60.0
    """The longest wait for the lock of the catalog's database."""

    lock_poll_seconds: float = 0.2
    """Pause between two attempts to get that lock."""


@dataclass(frozen=True)
class ReportThresholds:
    """How much a report shows."""

    examples: int = 3
    """Examples of rows for each broken promise."""

    sampled_rows: int = 1000
    """Rows that break promises, as far as they are counted."""

    shown_nodes: int = 20
    """File groups that a compaction plan lists as left alone."""

    tree_lines: int = 64
    """Lines of a printed hash tree."""

    dead_letter_reasons: int = 3
    """Most reasons of dead letters that an error shows, those of most dead letters."""


@dataclass(frozen=True)
class IngestThresholds:
    """Ingestion of change data."""

    lease_seconds: float = 60.0
    """How long a process may ingest a source without a sign of life before another one takes over."""

    lease_renewal_seconds: float = 20.0
    """The time between two such signs."""

    dead_letter_snapshots: int = 100
    """Snapshots of a dead letter table, one for each sign, from which on old ones expire: a call takes a second."""

    kept_dead_letter_snapshots: int = 50
    """Its newest snapshots, which are kept then: a replay of dead letters reads one for as long as a table takes."""

    lease_poll_seconds: float = 2.0
    """Pause between two looks of a process that stands by."""

    named_dead_letters: int = 10_000
    """How many dead letters of a table without a key one commit applies at most: it names all of them."""

    look_seconds: float = 60.0
    """Pause between two looks for tables that a source includes and that were made in the meantime."""


@dataclass(frozen=True)
class ServiceThresholds:
    """Following models."""

    poll_seconds: float = 1.0
    """The time between two looks at where tables stand."""

    look_share: float = 0.2
    """Looks take at most this share of the time: where one takes long, as over many tables, the next one waits."""

    project_poll_seconds: float = 2.0
    """The time between two looks at the files of the project."""

    retry_seconds: float = 1.0
    """The pause after a model's first failure; each further one in a row doubles it."""

    retry_doublings: int = 8
    """How often it is doubled at most: pauses grow up to four minutes."""

    event_wait_seconds: float = 1.0
    """How long a thread that follows events waits for one before it looks whether it is to end."""

    remembered_jobs: int = 10_000
    """The newest jobs whose end metrics remember, so that none is counted twice."""

    lease_seconds: float = 30.0
    """How long a service may lead without a sign of life before one that stands by takes over."""

    lease_renewal_seconds: float = 10.0
    """The time between two such signs."""

    lease_poll_seconds: float = 2.0
    """Pause between two looks of a service that stands by."""

    lease_snapshots: int = 100
    """Snapshots of the table of the lease, one for each sign, from which on old ones expire."""

    kept_lease_snapshots: int = 10
    """Its newest snapshots, which are kept then."""

    events: int = 2000
    """Events that are kept for readers who were not connected for a while."""

    ended_jobs: int = 200
    """Jobs that are shown after their end, newest first."""

    job_lines: int = 100
    """Lines of progress that are kept of a job."""

    operations: int = 2
    """Operations of users that run side by side."""

    steady_seconds: float = 60.0
    """An ingestion that fails after so long is tried again at once; pauses grow where it fails sooner each time."""

    flow_seconds: float = 60.0
    """The time over which changed rows of a table are counted as recent."""


@dataclass(frozen=True)
class UpkeepThresholds:
    """Upkeep by a service."""

    starvation_seconds: float = 3600.0
    """Upkeep that is due for longer comes before all that is due for less, however much the readers of others pay."""

    kept_minutes: float = 10.0
    """Unused bytes of the budget are kept for so long."""

    poll_seconds: float = 1.0
    """The time between two looks at what is due."""

    settle_seconds: float = 10.0
    """A table that was written to is looked at so much later, and not more often."""

    look_seconds: float = 600.0
    """The time between two looks at a table that nobody wrote to: versions become old enough to expire."""

    retry_seconds: float = 10.0
    """The pause after a table's first failure; each further one in a row doubles it."""

    retry_doublings: int = 9
    """How often it is doubled at most: pauses grow up to 85 minutes."""

    overdue_factor: float = 4.0
    """A refresh does the upkeep of its table itself where so many times as much has come together as makes it due."""


@dataclass(frozen=True)
class LineageThresholds:
    """Sending lineage."""

    queued_reports: int = 1000
    """Refreshes whose lineage waits to be sent; where that many wait, that of later ones is left out."""

    observed_seconds: float = 300.0
    """How long the tables and columns that a model reads count as known, unless its query changes."""

    close_seconds: float = 5.0
    """How long the end of the service waits for lineage that is not sent yet."""


@dataclass(frozen=True)
class HttpThresholds:
    """Serving HTTP."""

    heartbeat_seconds: float = 15.0
    """The time after which a stream without events says that it is alive."""

    event_wait_seconds: float = 0.5
    """How long the thread that waits for events waits before it looks whether it is to end."""

    encoded_events: int = 4096
    """Events whose text is kept for the next stream."""

    state_seconds: float = 5.0
    """How long the text of all tables is used without an event, since ages of some figures go on."""

    compressed_bytes: int = 1024
    """From this length on an answer is compressed."""

    compression_level: int = 3
    """Of gzip: higher ones take longer than they save."""

    start_seconds: float = 10.0
    """How long a server may take to answer at first."""

    stop_seconds: int = 5
    """How long requests under way may take when the server ends."""

    waiting_connections: int = 1024
    """Connections that wait to be accepted."""


@dataclass(frozen=True)
class EngineThresholds:
    """Starting, reaching and stopping Spark."""

    session_idle_seconds: float = 600.0
    """A session that was not used for longer is not used again: a server forgets it after an hour."""

    parallel_actions: int = 4
    """Actions that one run performs at the same time."""

    jvm_start_seconds: float = 120.0
    """The longest wait for a JVM to start."""

    jvm_start_poll_seconds: float = 0.02
    """Pause between two looks for a started JVM."""

    jvm_stop_seconds: float = 30.0
    """The longest wait for a JVM to end by itself before it is killed."""

    jvm_exit_code_seconds: float = 5.0
    """The longest wait for the exit code of a JVM whose connection broke."""

    server_start_seconds: float = 150.0
    """The longest wait for a kept Spark Connect server to start."""

    server_stop_seconds: float = 60.0
    """The longest wait for a kept server to stop."""

    server_poll_seconds: float = 0.05
    """Pause between two looks for a kept server."""

    server_watch_seconds: float = 0.5
    """Pause between two looks of a kept server at whether it is still wanted."""

    server_lock_seconds: float = 1.0
    """The longest wait for the address or the lock of a kept server."""

    connect_seconds: float = 10.0
    """The longest wait for a TCP connection to a Spark Connect server."""

    connect_retries: int = 7
    """Retries of a request to a Spark Connect server."""

    connect_backoff_millis: int = 8_000
    """The longest pause between two such retries."""

    shown_log_lines: int = 10
    """Lines of the log of a Spark that ended, as an error shows them."""

    kept_logs: int = 20
    """Log files of Spark that are kept."""

    kept_archives: int = 4
    """Class-data archives that are kept."""


@dataclass(frozen=True)
class DebeziumThresholds:
    """Reading databases by Debezium's engine."""

    poll_events: int = 8_192
    """Most events that the engine hands over at a time."""

    batch_bytes: int = 128 * MIB
    """Bytes of JSON from which on no further events that wait join a batch."""

    gather_seconds: float = 1.0
    """How long rows of a snapshot are gathered for one commit, beyond what waits already."""

    waiting_bytes: int = 128 * MIB
    """Bytes of JSON that wait in this process until they are taken; from there on the source is not read."""

    take_seconds: float = 0.2
    """The longest wait for a batch before it is looked whether the source's end is reached, or reading stopped."""

    push_seconds: float = 1.0
    """Pause between two messages into the source's log, by which its end is noticed where nothing else comes."""

    idle_seconds: float = 60.0
    """The time without events after which the position moves on all the same, so that the source forgets its log."""

    silence_seconds: float = 60.0
    """The time without any sign of life after which the reader of a binary log is taken for lost."""

    heartbeat_millis: int = 500
    """Pause between two looks of the engine at how far it has read where no events come."""

    flush_seconds: float = 0.3
    """The time in which the engine tells the source what was acknowledged, which closing it would interrupt."""

    close_seconds: float = 8.0
    """The longest wait for the engine to stop."""

    close_poll_seconds: float = 0.05
    """Pause between two attempts to stop an engine that is starting."""

    release_seconds: float = 10.0
    """The longest wait until the server has noticed that the last reader of a replication slot is gone."""

    release_poll_seconds: float = 0.2
    """Pause between two looks at that."""

    reconnect_seconds: float = 900.0
    """The longest wait for a server that went away while its stream was read."""

    reconnect_poll_seconds: float = 1.0
    """Pause between two attempts to reach it."""

    heap: str = "512m"
    """The heap of the JVM, as `-Xmx` takes it."""


@dataclass(frozen=True)
class TransportThresholds:
    """How much change data is read at once."""

    batch_files: int = 1_000
    """Files of one batch at most."""

    batch_bytes: int = 256 * MIB
    """Bytes of the files of one batch at most, as they are stored; a larger file is a batch of its own."""

    batch_events: int = 1_000_000
    """Events of one batch from Kafka at most."""

    answer_seconds: float = 10.0
    """The longest wait for an answer of Kafka to a question for offsets."""

    file_log_snapshots: int = 100
    """Snapshots of a file log, one for each batch, from which on it is rewritten."""

    poll_seconds: float = 1.0
    """Pause between two looks for new events where there were none."""

    idle_seconds: float = 60.0
    """The time after which it is told again that a source has no new events."""


@dataclass(frozen=True)
class Thresholds:
    """Every threshold, limit and price, by the part of planning or execution that uses it."""

    cost: CostThresholds = CostThresholds()
    incremental: IncrementalThresholds = IncrementalThresholds()
    joins: JoinThresholds = JoinThresholds()
    pruning: PruningThresholds = PruningThresholds()
    merge: MergeThresholds = MergeThresholds()
    compaction: CompactionThresholds = CompactionThresholds()
    base_rewrite: BaseRewriteThresholds = BaseRewriteThresholds()
    buckets: BucketThresholds = BucketThresholds()
    changelog: ChangelogThresholds = ChangelogThresholds()
    expiry: ExpiryThresholds = ExpiryThresholds()
    layout: LayoutThresholds = LayoutThresholds()
    commits: CommitThresholds = CommitThresholds()
    reports: ReportThresholds = ReportThresholds()
    ingest: IngestThresholds = IngestThresholds()
    service: ServiceThresholds = ServiceThresholds()
    lineage: LineageThresholds = LineageThresholds()
    upkeep: UpkeepThresholds = UpkeepThresholds()
    http: HttpThresholds = HttpThresholds()
    engine: EngineThresholds = EngineThresholds()
    debezium: DebeziumThresholds = DebeziumThresholds()
    transports: TransportThresholds = TransportThresholds()


SHIPPED = Thresholds()
"""The values that dbt-arctic ships with."""
