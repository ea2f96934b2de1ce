"""Thresholds of commits, reports, Spark and the catalog."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True)
class CommitThresholds:
    """Retries of commits and waits for locks."""

    attempts: int = 5
    """Maximum number of attempts of a run; after each commit conflict it starts again."""

    cut_seconds: float = 5 * 86_400.0
    """Time for which the tables of a build keep the tag of its publication, and so the rows that they had then."""

    passed_tests: int = 200
    """Maximum number of tests of a table whose last pass is remembered; each takes some 200 bytes of its metadata."""

    drop_branch_attempts: int = 5
    """Maximum number of attempts to drop a branch that is no longer needed."""

    lock_wait_seconds: float = 60.0
    """Longest wait for the lock of the catalog's database."""

    lock_poll_seconds: float = 0.2
    """Pause between two attempts to get the lock of the catalog's database."""

    observation_rounds: int = 5
    """Maximum number of tries to observe snapshots of several tables without a commit in between."""


@dataclass(frozen=True)
class ReportThresholds:
    """Maximum numbers of entries, such as reasons and rows, that reports for users read or show."""

    examples: int = 3
    """Number of example rows that are shown for each violation of the key or the contract."""

    diff_values: int = 3
    """Number of most frequent changes of values that a difference of tables shows for each column."""

    diff_examples: int = 3
    """Number of example rows that a difference of tables shows for each kind of rows."""

    longest_diff_value: int = 40
    """Number of characters of a value that a difference of tables shows."""

    sampled_rows: int = 1000
    """Maximum number of rows that violate the key or the contract that are read and counted."""

    shown_nodes: int = 20
    """Maximum number of file groups that a printed compaction plan lists as left alone."""

    tree_lines: int = 64
    """Maximum number of lines of a printed hash tree."""

    shown_changes: int = 1000
    """Maximum number of change rows that are shown unless the user gives a limit."""

    dead_letter_reasons: int = 3
    """Maximum number of reasons of dead letters that an error shows; these are the most frequent ones."""


@dataclass(frozen=True)
class WhyThresholds:
    """Limits of a search for the changes that made a row what it is."""

    seconds: float = 4.0
    """Time after which no further change is followed; those that are under way are finished."""

    rows: int = 20_000
    """Number of rows of a source above which a row is not computed again from them."""

    literals: int = 200
    """Number of values up to which a read of a source is restricted by literals; above it, by a join."""

    kept_changes: int = 200_000
    """Number of change rows up to which a table's are kept in memory, and which are read of some of its rows."""

    units: int = 64
    """Number of changed rows above which a row is not computed again without each of them."""

    batch: int = 8
    """Number of times that a row is computed in one statement."""

    versions: int = 10
    """Number of changes of the row that are shown unless the user asks for another one; the newest ones."""

    changes: int = 20
    """Number of change rows of one upstream that are followed for one change of a row."""

    nodes: int = 200
    """Number of changes in a trail above which changes of upstreams are named, and not followed."""


@dataclass(frozen=True)
class ExportThresholds:
    """Limits on the memory that an export of change rows takes."""

    batch_rows: int = 8192
    """Number of rows that are read, converted and sent together."""

    sorted_rows: int = 131_072
    """Maximum number of rows that are sorted in memory: those of consecutive small commits, or of one commit."""


@dataclass(frozen=True)
class EngineThresholds:
    """Thresholds for the start, the connection and the end of Spark, and for reads of the catalog."""

    kept_metadata: int = 64
    """Maximum number of table metadata files that are cached in memory for readers of rows.

    One with 200 snapshots takes a megabyte.
    """

    kept_state_bytes: int = 32 * 2**20
    """Most bytes of table metadata files that are cached in memory for the states of tables.

    They take half as much again. A file with 200 snapshots has 180 kB, so those of a few hundred tables are kept.
    """

    kept_metadata_texts: int = 16
    """Maximum number of table and view metadata files whose text is kept in memory, for a commit that follows."""

    store_connect_seconds: float = 2.0
    """Longest wait for a TCP connection to an object store; this process tries up to three times."""

    store_request_seconds: float = 20.0
    """Longest time without a received byte for which this process waits for an answer of an object store."""

    store_probe_request_seconds: float = 2.0
    """Like `store_request_seconds`, for the probe: the first request of a process, to check that the store answers."""

    store_probe_seconds: float = 8.0
    """Longest wait for the answer to the probe of an object store, with all its retries."""

    session_idle_seconds: float = 600.0
    """Idle time after which a session is not used again; a Spark Connect server drops idle sessions after an hour."""

    branch_relations: int = 1000
    """Maximum number of relations of a schema that the branch of a build takes besides those of the project."""

    parallel_actions: int = 4
    """Maximum number of actions, such as Spark jobs and catalog requests, that one run performs in parallel."""

    interpreted_rows: int = 100_000
    """Maximum rows of the tables that a run reads for which Spark interprets expressions instead of compiling them.

    In a Spark that has just started, compiling takes a sixth of the time of such runs; later it makes no difference.
    """

    few_rows: int = 2_000_000
    """Maximum rows for which Java has its first compiler and one thread for garbage, by each node that reads or writes.

    For 300,000 rows through three models that takes three fifths of the processor time of both compilers, with three
    million a sixth more.
    """

    optimizer_delay: int = 50
    """How many times as many calls as by default Java counts before it uses its optimizing compiler.

    Loops over rows still reach it within a second; the code of Spark that plans and commits, most of which runs for a
    minute at most, does not.
    """

    counted_relations: int = 50
    """Maximum number of relations whose rows a command counts before Spark starts; with more they are not known."""

    jvm_start_seconds: float = 120.0
    """Longest wait for a JVM to start."""

    jvm_start_poll_seconds: float = 0.02
    """Pause between two checks if a JVM has started."""

    jvm_stop_seconds: float = 30.0
    """Longest wait for a JVM to end by itself before it is killed."""

    jvm_exit_code_seconds: float = 5.0
    """Longest wait for the exit code of a JVM whose connection broke."""

    cancel_seconds: float = 5.0
    """Longest wait after Ctrl-C until Spark has taken the request to cancel its jobs."""

    spark_watch_seconds: float = 1.0
    """Pause between two checks if Spark still runs, in a process that runs without end, such as `arctic serve`."""

    spark_end_seconds: float = 30.0
    """Longest wait for a process that runs without end to exit by itself after its Spark has ended."""

    new_objects_share: float = 0.125
    """Size of the heap's young generation as a share of the maximum heap, in a process that runs without end.

    The initial heap has twice this share.
    """

    server_start_seconds: float = 150.0
    """Longest wait for a kept server to start: a Spark Connect server of this machine (`url: local`)."""

    server_stop_seconds: float = 60.0
    """Longest wait for a kept server to stop."""

    server_poll_seconds: float = 0.05
    """Pause between two checks if a kept server has started or stopped."""

    server_watch_seconds: float = 0.5
    """Pause between two checks by a kept server if it should stop."""

    server_lock_seconds: float = 1.0
    """Time for which the start of a kept server tries to get the server's lock, unless another server is running."""

    server_probe_seconds: float = 0.02
    """Wait for the lock of a kept server after which a running server is assumed to hold the lock.

    It is longer than the time for which a client holds the lock to check for a server.
    """

    server_door_seconds: float = 5.0
    """Longest wait for the right to join or to end a kept server, which processes hold for milliseconds."""

    server_join_attempts: int = 3
    """Maximum number of attempts of a command to join a kept server while others replace it."""

    server_end_seconds: float = 10.0
    """Longest wait for the end of an unused server that another one replaces."""

    keep_alive_seconds: float = 900.0
    """Time for which Spark is kept without use for somebody at a terminal, unless the profile says it."""

    keep_alive_free_bytes: int = 4 * GIB
    """Available memory below which Spark is not kept, unless the profile says it."""

    idle_server_free_bytes: int = GIB
    """Available memory below which a kept server without use ends at once."""

    connect_seconds: float = 10.0
    """Longest wait for a TCP connection to a Spark Connect server."""

    connect_retries: int = 7
    """Maximum number of retries of a request to a Spark Connect server."""

    kept_server_retries: int = 3
    """Maximum number of retries of a request to a kept server, which comes back only at another port if it ends."""

    connect_backoff_millis: int = 8_000
    """Longest pause between two retries of a request to a Spark Connect server."""

    shown_log_lines: int = 10
    """Number of last lines of Spark's log that an error shows if Spark has ended."""

    kept_logs: int = 20
    """Maximum number of Spark's log files that are kept."""

    kept_archives: int = 4
    """Maximum number of class-data archives that are kept; a JVM starts faster with such an archive."""
